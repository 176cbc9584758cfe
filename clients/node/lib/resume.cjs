// Work that goes on where an earlier attempt of the job stopped: steps and rows.
"use strict";

const { setImmediate: turn } = require("node:timers/promises");
const { CheckpointTooLarge, Discard, Interrupted, StepsChanged } = require("./errors.cjs");
const { checkedJson, parseJson, toJson } = require("./json.cjs");
const { checkNames } = require("./options.cjs");

/** Milliseconds between two saved positions of a loop. */
const SAVE_EVERY = 5_000;
/** Bytes of JSON in a checkpoint of this form. */
const MAX_BYTES = 64 * 1024;
/** Milliseconds that have to be left before a shutdown cancels the job, or no row and no step begins. */
const LEAST_TIME = 250;
/** Rows that take no time of their own would block the socket: after so many milliseconds the event loop gets a turn. */
const TURN_EVERY = 10;
const REMEMBERED_ROWS = 10;
const REMEMBERED_STEPS = 1_000;

/** Milliseconds that each step of a job type took last in this process. @type {Map<string, number>} */
const durations = new Map();

/**
 * The checkpoint of a resumable job; the same form in all clients.
 * @typedef {object} Saved
 * @property {1} ojs_resume
 * @property {[string, any][]} steps the finished steps, with their results
 * @property {Record<string, any>} cursors the last finished row, by the step that it is in ("" outside of steps)
 * @property {any} state what the handler saved itself
 */

/** @param {any} checkpoint @returns {checkpoint is Saved} false: all of it is the handler's own */
function isSaved(checkpoint) {
  if (checkpoint?.ojs_resume !== 1 || !Array.isArray(checkpoint.steps)) return false;
  const { steps, cursors } = checkpoint;
  if (typeof cursors !== "object" || cursors === null || Array.isArray(cursors)) return false;
  return steps.every((/** @type {any} */ step) => Array.isArray(step) && step.length === 2 && typeof step[0] === "string");
}

/** A copy as JSON has it, so that the handler's changes do not reach what is saved. @param {any} value */
function copyOf(value) {
  return typeof value === "object" && value !== null ? parseJson(/** @type {string} */ (toJson(value))) : value;
}

/** The key of a row as a checkpoint gives it back. @param {any} key */
function asKey(key) {
  if (typeof key === "string" || Number.isFinite(key)) return key;
  const { json, problem } = checkedJson(key);
  if (json !== undefined && json !== "null") return parseJson(json);
  throw new TypeError(`job.iterate(): the key of a row ${problem ?? "is null"}; give a number or a string`);
}

/**
 * Compares by value: a backend may spell a number or order fields in another way.
 * @param {any} one
 * @param {any} other both as JSON has them
 * @returns {boolean}
 */
function isSame(one, other) {
  const isObject = typeof one === "object" && typeof other === "object" && one !== null && other !== null;
  // eslint-disable-next-line eqeqeq -- a BigInt equals the number of its value
  if (!isObject) return typeof one === "bigint" || typeof other === "bigint" ? one == other : one === other;
  const names = Object.keys(one);
  if (Array.isArray(one) !== Array.isArray(other) || names.length !== Object.keys(other).length) return false;
  return names.every((name) => Object.hasOwn(other, name) && isSame(one[name], other[name]));
}

/** The steps and rows of one attempt. */
class Resume {
  #job;
  #send;
  /** @type {[string, any][]} */
  #steps = [];
  /** @type {Map<string, any>} */
  #cursors = new Map();
  #state;
  /** How many steps earlier attempts have finished. */
  #known = 0;
  /** The steps of this attempt, in their order. @type {string[]} */
  #begun = [];
  /** The step that runs. @type {string | undefined} */
  #current;
  /** The steps that have a loop already, "" outside of steps. @type {Set<string>} */
  #loops = new Set();
  /** Whether the checkpoint has the form of `Saved`. */
  #isUsed = false;
  /** Whether there is progress that no checkpoint has. */
  #hasNews = false;
  #savedAt = performance.now();
  #turnedAt = performance.now();

  /**
   * @param {import("./job.cjs").Job} job
   * @param {unknown} checkpoint what came with the job
   * @param {(state: unknown) => Promise<boolean>} send
   */
  constructor(job, checkpoint, send) {
    this.#job = job;
    this.#send = send;
    this.#state = checkpoint ?? null;
    if (!isSaved(checkpoint)) return;
    this.#isUsed = true;
    this.#steps = checkpoint.steps.map(([name, result]) => [name, result]);
    this.#known = this.#steps.length;
    this.#cursors = new Map(Object.entries(checkpoint.cursors));
    this.#state = checkpoint.state ?? null;
  }

  /** A copy of what the handler itself saved last. */
  get state() {
    return copyOf(this.#state);
  }

  /** @param {unknown} state of the handler's own @returns {Promise<boolean>} */
  async keep(state) {
    const { json, problem } = checkedJson(state);
    if (json === undefined) throw new TypeError(`job.checkpoint(): the state ${problem}; give plain data`);
    const before = this.#state;
    this.#state = parseJson(json);
    if (!this.#isUsed) return this.#send(this.#state);
    try {
      return await this.#save();
    } catch (error) {
      this.#state = before;
      throw error;
    }
  }

  /** Saves the position before an answer after which the job may come again. @param {(text: string) => void} warn */
  flush(warn) {
    if (this.#hasNews) this.#save().catch((error) => warn(`its position was not saved: ${error.message}`));
  }

  /**
   * @param {string} name
   * @param {(...args: any[]) => any} body
   * @param {any[]} args
   */
  async step(name, body, args) {
    if (typeof name !== "string" || name === "" || typeof body !== "function") {
      throw new TypeError('job.step(): give a name and a function: await job.step("resize", () => resize(picture))');
    }
    if (this.#current !== undefined) {
      throw new Error(`job.step(): step ${name} begins inside of step ${this.#current}; steps follow one another`);
    }
    if (this.#begun.includes(name)) throw new Error(`job.step(): step ${name} comes twice; each has a name of its own`);
    this.#isUsed = true;
    const at = this.#begun.push(name) - 1;
    if (at < this.#known) return this.#finished(at, name);
    this.#refuseOtherCursors(name);
    const key = `${this.#job.type}\n${name}`;
    this.#current = name; // Before any wait, or a second step could begin beside this one.
    try {
      await this.#interrupt(durations.get(key) ?? 0);
      const began = performance.now();
      const result = await body(...args);
      remember(key, performance.now() - began);
      return await this.#finish(name, result);
    } finally {
      this.#current = undefined;
    }
  }

  /** @param {number} at @param {string} name @returns {any} the result that the step had */
  #finished(at, name) {
    const [was, result] = this.#steps[at];
    if (was !== name) throw this.#stepsChanged([]);
    return copyOf(result);
  }

  /** A step in which an earlier attempt stopped has to be the next one. @param {string} name */
  #refuseOtherCursors(name) {
    const open = [...this.#cursors.keys()].filter((each) => each !== "" && each !== name);
    if (open.length > 0) throw this.#stepsChanged(open);
  }

  /** @param {string[]} open the step in which the earlier attempt stopped */
  #stepsChanged(open) {
    const before = [...this.#steps.map(([name]) => name), ...open].join(", ");
    const now = this.#begun.join(", ");
    return new StepsChanged(`the steps of this job have changed: an earlier attempt had ${before}; this one has ${now}`);
  }

  /** @param {string} name @param {unknown} result */
  async #finish(name, result) {
    const { json, problem } = checkedJson(result ?? null);
    if (json === undefined) {
      throw new Discard(`the result of step ${name} ${problem}; return plain data`, { type: "TypeError" });
    }
    this.#steps.push([name, parseJson(json)]);
    this.#cursors.delete(name);
    await this.#save();
    return parseJson(json); // As in each later attempt, and not the object that is saved.
  }

  /**
   * @param {any} rows
   * @param {{ key?: (row: any) => unknown }} options
   */
  async *iterate(rows, options = {}) {
    checkNames("job.iterate()", options, ["key"]);
    const { key } = options;
    if (key !== undefined && typeof key !== "function") throw new TypeError("job.iterate(): key is a function of a row");
    const scope = this.#current ?? "";
    if (this.#loops.has(scope)) {
      throw new Error("job.iterate(): a second one in the same step; give each a job.step() of its own");
    }
    this.#loops.add(scope);
    this.#isUsed = true;
    const after = copyOf(this.#cursors.get(scope) ?? null);
    if (key === undefined && after !== null && !Number.isInteger(after)) {
      throw new StepsChanged("an earlier attempt knew its rows by a key, and this one knows them by their index");
    }
    const isAsked = typeof rows === "function";
    const given = isAsked ? await rows(after) : rows;
    const first = isAsked && after !== null && key === undefined ? after + 1 : 0;
    yield* this.#behind(positioned(given, key, first), isAsked ? null : after, key !== undefined, scope);
  }

  /**
   * @param {AsyncIterable<{ row: any, position: any }>} rows
   * @param {any} after rows up to this position are done; null: none
   * @param {boolean} hasKeys
   * @param {string} scope
   */
  async *#behind(rows, after, hasKeys, scope) {
    let isSkipping = after !== null;
    /** @type {number[]} milliseconds of the last rows */
    const took = [];
    for await (const { row, position } of rows) {
      if (isSkipping && (hasKeys || position <= after)) {
        if (hasKeys && isSame(position, after)) isSkipping = false;
        await this.#giveTurn();
        continue;
      }
      isSkipping = false;
      await this.#interrupt(Math.max(0, ...took));
      const began = performance.now();
      yield row;
      took.push(performance.now() - began);
      if (took.length > REMEMBERED_ROWS) took.shift();
      this.#cursors.set(scope, position);
      this.#hasNews = true;
      if (performance.now() - this.#savedAt >= SAVE_EVERY) await this.#save();
    }
    // Without keys, fewer rows than before mean that none is left.
    if (isSkipping && hasKeys) throw new StepsChanged("the row that an earlier attempt finished last does not come any more");
  }

  async #giveTurn() {
    if (performance.now() - this.#turnedAt < TURN_EVERY) return;
    await turn();
    this.#turnedAt = performance.now();
  }

  /** Before each row and step: ends the handler if a shutdown would cut off what comes next. @param {number} usual milliseconds */
  async #interrupt(usual) {
    await this.#giveTurn();
    const { cancelReason, signal } = this.#job;
    if (cancelReason === "shutdown") throw new Interrupted();
    signal.throwIfAborted();
    const left = this.#job.remaining();
    if (left !== null && left < Math.max(1.5 * usual, LEAST_TIME)) throw new Interrupted();
  }

  /** @returns {Promise<boolean>} whether ojs-init gets it */
  async #save() {
    /** @type {Saved} */
    const saved = {
      ojs_resume: 1,
      steps: this.#steps,
      cursors: Object.fromEntries(this.#cursors),
      state: this.#state ?? null,
    };
    const bytes = Buffer.byteLength(toJson(saved) ?? "");
    if (bytes > MAX_BYTES) {
      const what = "the results of steps, the position and your own checkpoint";
      throw new CheckpointTooLarge(`${what} are ${bytes} bytes of JSON together, more than ${MAX_BYTES}; store them elsewhere`);
    }
    this.#hasNews = false;
    this.#savedAt = performance.now();
    return this.#send(saved);
  }
}

/**
 * Rows with their positions.
 * @param {any} rows
 * @param {((row: any) => unknown) | undefined} key
 * @param {number} index of the first row
 */
async function* positioned(rows, key, index) {
  for await (const row of rows) yield { row, position: key ? asKey(await key(row)) : index++ };
}

/** @param {string} key @param {number} ms */
function remember(key, ms) {
  durations.delete(key);
  durations.set(key, ms);
  if (durations.size > REMEMBERED_STEPS) durations.delete(/** @type {string} */ (durations.keys().next().value));
}

module.exports = { Resume };
