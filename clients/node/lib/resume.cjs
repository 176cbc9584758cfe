// Work that goes on where an earlier attempt of the job stopped: steps and rows.
"use strict";

const { setImmediate: yieldTurn } = require("node:timers/promises");
const { isDeepStrictEqual } = require("node:util");
const { CheckpointTooLarge, Discard, Interrupted, StepsChanged } = require("./errors.cjs");
const { checkedJson, parseJson, toJson } = require("./json.cjs");
const { checkNames } = require("./options.cjs");

/** Milliseconds between two saved positions of a loop. */
const SAVE_EVERY = 5_000;
/** Bytes of JSON in a checkpoint of this form. */
const MAX_BYTES = 64 * 1024;
/**
 * Milliseconds that have to be left before a shutdown cancels the job, or no row and no step
 * begins.
 */
const LEAST_TIME = 250;
/**
 * Rows that take no time of their own would block the socket: after so many milliseconds the event
 * loop gets a turn.
 */
const YIELD_EVERY = 10;
const REASON = "resumes at its checkpoint";
const REMEMBERED_ROWS = 10;
const REMEMBERED_STEPS = 1_000;

/**
 * Milliseconds that each step of a job type took last in this process.
 * @type {Map<string, number>}
 */
const durations = new Map();

/**
 * The checkpoint of a resumable job; the same form in all clients.
 * @typedef {object} Saved
 * @property {1} ojs_resume
 * @property {[string, any][]} steps the finished steps, with their results
 * @property {Record<string, any>} cursors the last finished row, by the step that it is in (""
 *   outside of steps)
 * @property {any} state what the handler saved itself
 */

/** @param {any} checkpoint @returns {checkpoint is Saved} false: all of it is the handler's own */
const isSaved = (checkpoint) => checkpoint?.ojs_resume === 1 && Array.isArray(checkpoint.steps);

/**
 * A copy as JSON has it, so that the handler's changes do not reach what is saved.
 * @param {any} value
 */
const copyOf = (value) => parseJson(/** @type {string} */ (toJson(value)));

/** The key of a row as a checkpoint gives it back. @param {any} key */
function asKey(key) {
  if (typeof key === "string") return key;
  const { json, problem } = checkedJson(key);
  if (json !== undefined && json !== "null") return parseJson(json);
  throw new TypeError(`job.iterate(): the key of a row ${problem ?? "is null"}; give a number or a string`);
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
  #yieldedAt = performance.now();

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
    this.#steps = [...checkpoint.steps];
    this.#known = this.#steps.length;
    this.#cursors = new Map(Object.entries(checkpoint.cursors ?? {}));
    this.#state = checkpoint.state ?? null;
  }

  /** A copy of what the handler itself saved last. */
  get state() {
    return copyOf(this.#state);
  }

  /** @param {unknown} state of the handler's own @returns {Promise<boolean>} */
  async saveState(state) {
    const { json, problem } = checkedJson(state);
    if (json === undefined) throw new TypeError(`job.checkpoint(): the state ${problem}; give plain data`);
    const kept = parseJson(json);
    return this.#isUsed ? this.#save(kept) : this.#send((this.#state = kept));
  }

  /**
   * Saves the position before an answer after which the job may come again.
   * @param {(text: string) => void} warn
   */
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
    if (at < this.#known && this.#steps[at]?.[0] === name) return copyOf(this.#steps[at][1]);
    const open = [...this.#cursors.keys()].filter((each) => each !== "" && each !== name);
    if (at < this.#known || open.length > 0) {
      const before = [...this.#steps.map((step) => step?.[0]), ...open].join(", ");
      throw new StepsChanged(`an earlier attempt had the steps ${before}; this one has ${this.#begun.join(", ")}`);
    }
    const key = `${this.#job.type}\n${name}`;
    this.#current = name; // Before any wait, or a second step could begin beside this one.
    try {
      await this.#interrupt(durations.get(key) ?? 0);
      const began = performance.now();
      const result = await body(...args);
      if (durations.size >= REMEMBERED_STEPS) durations.clear();
      durations.set(key, performance.now() - began);
      return await this.#finish(name, result);
    } finally {
      this.#current = undefined;
    }
  }

  /** @param {string} name @param {unknown} result */
  async #finish(name, result) {
    const { json, problem } = checkedJson(result ?? null);
    if (json === undefined) throw new Discard(`the result of step ${name} ${problem}`, { type: "TypeError" });
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
    if (this.#loops.has(scope)) throw new Error("job.iterate(): a second one in the same step; give each a step of its own");
    this.#loops.add(scope);
    this.#isUsed = true;
    const after = copyOf(this.#cursors.get(scope) ?? null);
    if (key === undefined && after !== null && !Number.isInteger(after)) {
      throw new StepsChanged("an earlier attempt knew its rows by a key, and this one knows them by their index");
    }
    if (typeof rows !== "function") return yield* this.#rowsAfter(after, rows, 0, scope, key);
    const first = key === undefined && after !== null ? after + 1 : 0;
    yield* this.#rowsAfter(null, await rows(after), first, scope, key);
  }

  /**
   * @param {any} after rows up to this position are done; null: none
   * @param {any} rows
   * @param {number} index of the first row
   * @param {string} scope
   * @param {((row: any) => unknown) | undefined} key
   */
  async *#rowsAfter(after, rows, index, scope, key) {
    let isSkipping = after !== null;
    /** @type {number[]} milliseconds of the last rows */
    const took = [];
    for await (const row of rows) {
      const position = key ? asKey(await key(row)) : index++;
      if (isSkipping && (key || position <= after)) {
        if (key && isDeepStrictEqual(position, after)) isSkipping = false;
        await this.#yieldTurn();
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
    if (isSkipping && key) throw new StepsChanged("the last row that an earlier attempt finished does not come any more");
  }

  async #yieldTurn() {
    if (performance.now() - this.#yieldedAt < YIELD_EVERY) return;
    await yieldTurn();
    this.#yieldedAt = performance.now();
  }

  /**
   * Before each row and step: ends the handler if a shutdown would cut off what comes next.
   * @param {number} usual milliseconds
   */
  async #interrupt(usual) {
    await this.#yieldTurn();
    const { cancelReason, signal } = this.#job;
    if (cancelReason === "shutdown") throw new Interrupted(REASON);
    signal.throwIfAborted();
    const left = this.#job.remaining();
    if (left !== null && left < Math.max(1.5 * usual, LEAST_TIME)) throw new Interrupted(REASON);
  }

  /** @returns {Promise<boolean>} whether ojs-init gets it */
  async #save(state = this.#state) {
    /** @type {Saved} */
    const saved = { ojs_resume: 1, steps: this.#steps, cursors: Object.fromEntries(this.#cursors), state };
    const bytes = Buffer.byteLength(toJson(saved) ?? "");
    if (bytes > MAX_BYTES) {
      const what = "the results of steps, the position and your own checkpoint";
      throw new CheckpointTooLarge(`${what} have ${bytes} bytes of JSON, more than ${MAX_BYTES}; store them elsewhere`);
    }
    this.#state = state;
    this.#hasNews = false;
    this.#savedAt = performance.now();
    return this.#send(saved);
  }
}

module.exports = { Resume };
