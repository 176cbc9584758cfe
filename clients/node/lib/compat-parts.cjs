// What the SDK's worker has beside its handlers: named middleware, and events.
"use strict";

const { randomUUID } = require("node:crypto");
const { className } = require("./errors.cjs");
const { onOneLine, say } = require("./log.cjs");

/** Every event, as `onAny` has it. */
const ANY = "*";

/**
 * Middleware by name, outermost first.
 * @template T
 */
class MiddlewareChain {
  /** @type {{ name: string, fn: T }[]} */
  #entries = [];

  /** @param {string} name @param {T} fn @returns {this} */
  add(name, fn) {
    return this.#insert(this.#entries.length, name, fn);
  }

  /** @param {string} name @param {T} fn @returns {this} */
  prepend(name, fn) {
    return this.#insert(0, name, fn);
  }

  /** @param {string} existing @param {string} name @param {T} fn @returns {this} */
  insertBefore(existing, name, fn) {
    return this.#insert(this.#at(existing), name, fn);
  }

  /** @param {string} existing @param {string} name @param {T} fn @returns {this} */
  insertAfter(existing, name, fn) {
    return this.#insert(this.#at(existing) + 1, name, fn);
  }

  /** @param {string} name @returns {this} */
  remove(name) {
    const at = this.#entries.findIndex((entry) => entry.name === name);
    if (at >= 0) this.#entries.splice(at, 1);
    return this;
  }

  /** @param {string} name */
  has(name) {
    return this.#entries.some((entry) => entry.name === name);
  }

  /** A copy of the list. @returns {readonly { name: string, fn: T }[]} */
  entries() {
    return [...this.#entries];
  }

  get length() {
    return this.#entries.length;
  }

  clear() {
    this.#entries = [];
  }

  /** @param {string} existing */
  #at(existing) {
    const at = this.#entries.findIndex((entry) => entry.name === existing);
    if (at < 0) throw new Error(`no middleware ${existing}; there are ${this.#entries.map(({ name }) => name).join(", ")}`);
    return at;
  }

  /** @param {number} at @param {string} name @param {T} fn @returns {this} */
  #insert(at, name, fn) {
    if (typeof fn !== "function") throw new TypeError(`middleware ${name}: give a function of (ctx, next)`);
    this.#entries.splice(at, 0, { name, fn });
    return this;
  }
}

/**
 * @typedef {object} SdkEvent
 * @property {string} specversion
 * @property {string} id
 * @property {string} type
 * @property {string} source
 * @property {string} time
 * @property {string} [subject] the job's id
 * @property {Record<string, any>} data
 */

/** @typedef {(event: SdkEvent) => unknown} EventListener */

/** Tells who wants to know. What a listener throws is logged, and touches no job. */
class Events {
  /** @type {Map<string, Set<EventListener>>} */
  #listeners = new Map();

  /** @param {string} type @param {EventListener} listener @returns {() => void} takes it out again */
  on(type, listener) {
    const all = this.#listeners.get(type) ?? new Set();
    this.#listeners.set(type, all.add(listener));
    return () => void all.delete(listener);
  }

  /** @param {EventListener} listener @returns {() => void} takes it out again */
  onAny(listener) {
    return this.on(ANY, listener);
  }

  removeAllListeners() {
    this.#listeners.clear();
  }

  /** @param {SdkEvent} event @returns {Promise<void>} when all listeners are through; it does not reject */
  async emit(event) {
    const listeners = [...(this.#listeners.get(event.type) ?? []), ...(this.#listeners.get(ANY) ?? [])];
    await Promise.all(listeners.map((listener) => told(listener, event)));
  }
}

/** @param {EventListener} listener @param {SdkEvent} event */
async function told(listener, event) {
  try {
    await listener(event);
  } catch (/** @type {any} */ error) {
    say(onOneLine(`a listener for ${event.type} failed: ${error instanceof Error ? className(error) : "something that is no Error"}`), "warn", error);
  }
}

/** @param {string} type @param {string} workerId @param {Record<string, any>} data @param {string} [subject] @returns {SdkEvent} */
function eventOf(type, workerId, data, subject) {
  const source = `ojs://sdk/workers/${workerId}`;
  return { specversion: "1.0", id: `evt_${randomUUID()}`, type, source, time: new Date().toISOString(), subject, data };
}

module.exports = { Events, MiddlewareChain, eventOf };
