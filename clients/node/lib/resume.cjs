// Work that goes on where an earlier attempt of the job stopped: steps and rows.
"use strict";

const { setImmediate: turn } = require("node:timers/promises");
const { CheckpointTooLarge, Discard, Release, StepsChanged, checkNames } = require("./errors.cjs");
const { checkedJson } = require("./frames.cjs");
const { parseJson, toJson } = require("./json.cjs");

/** Milliseconds from one saved position to the next. */
const SAVE_EVERY = 5_000;
const MAX_BYTES = 64 * 1024;
/** The least time that a row or step has to have before the stop phase, in milliseconds. */
const LEAST_TIME = 250;
/** Milliseconds that rows may take one after another before the socket gets a look. */
const BREATHE_EVERY = 10;
const REMEMBERED_ROWS = 10;
const REMEMBERED_STEPS = 1_000;
const REASON = "resumes at its checkpoint";

/** How long each step took last in this process, in milliseconds; the oldest goes when there are too many. */
const durations = new Map();

/**
 * What of a job outlives an attempt. The same form in all clients.
 * @typedef {object} Saved
 * @property {1} ojs_resume
 * @property {[string, any][]} steps those that are finished, with their results
 * @property {Record<string, any>} cursors the last finished row, by the step it is in ("" outside of steps)
 * @property {any} state what the handler saved itself
 */

/** Anything else is the handler's own. @param {any} checkpoint @returns {checkpoint is Saved} */
function isSaved(checkpoint) {
  if (checkpoint?.ojs_resume !== 1 || !Array.isArray(checkpoint.steps)) return false;
  const { steps, cursors } = checkpoint;
  if (typeof cursors !== "object" || cursors === null || Array.isArray(cursors)) return false;
  return steps.every((/** @type {any} */ step) => Array.isArray(step) && step.length === 2 && typeof step[0] === "string");
}

/** A key as it is read back from a checkpoint: what the handler does with its own changes nothing. @param {any} key */
function asSaved(key) {
  if (key === null || key === undefined) throw new TypeError("job.iterate(): the key of a row is nothing");
  if (typeof key === "string" || Number.isFinite(key)) return key;
  const { json, problem } = checkedJson(key, true);
  if (json === undefined) throw new TypeError(`job.iterate(): the key of a row is not JSON: it ${problem}`);
  return parseJson(json);
}

/** For the handler, which may change it: what is saved stays as it is. @param {any} value as JSON has it */
function copyOf(value) {
  return typeof value === "object" && value !== null ? parseJson(/** @type {string} */ (toJson(value))) : value;
}

/**
 * By value, not by spelling: a backend may write a number or the order of fields in another way.
 * @param {any} one
 * @param {any} other both as JSON has them
 * @returns {boolean}
 */
function isSame(one, other) {
  if (typeof one === "bigint" || typeof other === "bigint") {
    return ["bigint", "number"].includes(typeof one) && ["bigint", "number"].includes(typeof other) && one == other;
  }
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return one === other;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const names = Object.keys(one);
  if (names.length !== Object.keys(other).length) return false;
  return names.every((name) => Object.hasOwn(other, name) && isSame(one[name], other[name]));
}

/** The steps and rows of one attempt. */
class Resume {
  #job;
  #save;
  /** @type {[string, any][]} */
  #steps = [];
  /** @type {Map<string, any>} */
  #cursors = new Map();
  #state;
  /** How many states the handler has saved. */
  #kept = 0;
  /** How many of the steps were finished before the handler began. */
  #known = 0;
  /** @type {string[]} the steps of this attempt, in their order */
  #begun = [];
  /** @type {string | undefined} */
  #current;
  /** @type {Set<string>} */
  #iterating = new Set();
  /** Whether the checkpoint has this form: once it has, it keeps it. */
  #isUsed = false;
  /** @type {Error | undefined} */
  #ending;
  /** @type {string | undefined} the step that was ended, "" outside of steps */
  #endedIn;
  /** @type {{ name: string, error: unknown } | undefined} the step that failed: no other one comes after it */
  #failed;
  #hasNews = false;
  #savedAt = performance.now();
  #breathedAt = performance.now();

  /**
   * @param {import("./job.cjs").Job} job
   * @param {unknown} checkpoint what came with the job
   * @param {(state: unknown) => Promise<boolean>} save
   */
  constructor(job, checkpoint, save) {
    this.#job = job;
    this.#save = save;
    this.#state = checkpoint ?? null;
    if (!isSaved(checkpoint)) return;
    this.#isUsed = true;
    this.#steps = checkpoint.steps.map(([name, result]) => [name, result]);
    this.#known = this.#steps.length;
    this.#cursors = new Map(Object.entries(checkpoint.cursors));
    this.#state = checkpoint.state ?? null;
  }

  /** @returns {() => void} lets the steps and loops from here on come again: those that are finished by now are known */
  mark() {
    const begun = this.#begun.length;
    const iterating = [...this.#iterating];
    const current = this.#current;
    const failed = this.#failed;
    return () => {
      this.#begun.length = begun;
      this.#iterating = new Set(iterating);
      this.#current = current;
      this.#failed = failed;
      this.#known = this.#steps.length;
    };
  }

  /** A copy of what the handler itself saved last. */
  get state() {
    return copyOf(this.#state);
  }

  /** What ended the steps and rows of the handler; it may have made something else of that. */
  get ending() {
    return this.#ending;
  }

  /** @param {unknown} state of the handler's own @returns {Promise<boolean>} */
  async keep(state) {
    // A copy: what the handler changes later is not saved yet. What is no JSON is refused there, and must not be kept.
    const { json } = checkedJson(state, true);
    if (json === undefined) return this.#save(state);
    const before = this.#state;
    const number = ++this.#kept;
    this.#state = parseJson(json);
    try {
      return await (this.#isUsed ? this.#send(this.#form()) : this.#save(state));
    } catch (error) {
      if (this.#kept === number) this.#state = before; // A newer one may have its place by now.
      throw error;
    }
  }

  /** Before an answer after which the job may come again. @param {(text: string) => void} complain */
  flush(complain) {
    if (!this.#hasNews) return;
    void this.#saveNow().catch((error) => complain(`its position was not saved: ${error.message}`));
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
    if (this.#ending !== undefined) throw this.#ending; // Whoever caught it before gets no mistake in place of it.
    if (this.#current !== undefined) {
      throw new Error(`job.step(): step ${name} begins inside of step ${this.#current}; steps follow one another`);
    }
    this.#mayFollow(name);
    if (this.#begun.includes(name)) throw new Error(`job.step(): step ${name} comes twice; each has a name of its own`);
    this.#isUsed = true;
    const at = this.#begun.push(name) - 1;
    if (at < this.#known) return this.#finished(at, name);
    this.#refuseOtherCursors(name);
    const key = `${this.#job.type}\n${name}`;
    this.#current = name; // Before any wait, or a second step could begin beside this one.
    try {
      await this.#pause(durations.get(key) ?? 0, name);
      return await this.#run(name, key, () => body(...args));
    } finally {
      this.#current = undefined;
    }
  }

  /** Nothing comes after a step that failed, but for the same one again. @param {string} name */
  #mayFollow(name) {
    if (this.#failed === undefined) return;
    if (this.#failed.name !== name) throw this.#failed.error;
    this.#failed = undefined;
    this.#begun.pop();
    this.#iterating.delete(name);
  }

  /** @param {string} name @param {string} key @param {() => any} body */
  async #run(name, key, body) {
    const began = performance.now();
    try {
      const result = await body();
      // The body caught what ended its loop: the other rows are not done, so the step is not finished.
      if (this.#endedIn === name) throw this.#ending;
      return await this.#finish(name, result);
    } catch (error) {
      this.#failed = { name, error };
      throw error;
    } finally {
      durations.delete(key);
      durations.set(key, performance.now() - began);
      if (durations.size > REMEMBERED_STEPS) durations.delete(durations.keys().next().value);
    }
  }

  /** @param {number} at @param {string} name */
  #finished(at, name) {
    const [was, result] = this.#steps[at];
    if (was !== name) throw this.#stepsChanged(this.#steps.map(([each]) => each));
    return copyOf(result);
  }

  /** A step that an earlier attempt stopped in has to be the next one. @param {string} name */
  #refuseOtherCursors(name) {
    const open = [...this.#cursors.keys()].filter((each) => each !== "" && each !== name);
    if (open.length > 0) throw this.#stepsChanged([...this.#steps.map(([each]) => each), ...open]);
  }

  /** @param {string[]} before */
  #stepsChanged(before) {
    const orders = `an earlier attempt had ${before.join(", ")}; this one has ${this.#begun.join(", ")}`;
    return this.#changed("", `the steps of this job have changed: ${orders}`);
  }

  /** It ends the job, whatever its handler makes of that. @param {string} scope @param {string} message */
  #changed(scope, message) {
    this.#endedIn = scope;
    return (this.#ending ??= new StepsChanged(message));
  }

  /** @param {string} name @param {unknown} result */
  async #finish(name, result) {
    const { json, problem } = checkedJson(result ?? null, true);
    if (json === undefined) {
      throw new Discard(`the result of step ${name} is not JSON: it ${problem}`, { type: "InvalidResult" });
    }
    const cursors = new Map(this.#cursors);
    this.#steps.push([name, parseJson(json)]);
    this.#cursors.delete(name);
    this.#hasNews = true;
    try {
      await this.#send(this.#form());
    } catch (error) {
      this.#steps.pop(); // It is not finished: its rows keep their position.
      this.#cursors = cursors;
      this.#hasNews = true;
      throw error;
    }
    return parseJson(json); // As in each later attempt, and not the one that is saved.
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
    if (this.#iterating.has(scope)) {
      throw new Error("job.iterate(): a second one in the same step; give each a job.step() of its own");
    }
    this.#iterating.add(scope);
    this.#isUsed = true;
    const after = copyOf(this.#cursors.get(scope) ?? null);
    if (key === undefined && after !== null && !Number.isInteger(after)) {
      throw this.#changed(scope, "job.iterate(): an earlier attempt knew its rows by a key, and this one knows them by their index");
    }
    const isAsked = typeof rows === "function";
    const came = this.#positioned(isAsked ? await rows(after) : rows, key, isAsked ? after : null);
    yield* this.#each(came, scope, isAsked ? null : after, key !== undefined);
  }

  /**
   * Rows with their positions.
   * @param {any} rows
   * @param {((row: any) => unknown) | undefined} key
   * @param {any} before the position before the first of them
   */
  async *#positioned(rows, key, before) {
    let index = typeof before === "number" ? before : -1;
    for await (const row of rows) {
      const position = key ? asSaved(await key(row)) : ++index;
      yield { row, position };
    }
  }

  /**
   * @param {AsyncIterable<{ row: any, position: any }>} came
   * @param {string} scope
   * @param {any} after rows up to this position are done
   * @param {boolean} hasKeys
   */
  async *#each(came, scope, after, hasKeys) {
    let isSkipping = after !== null;
    /** @type {number[]} */
    const took = [];
    for await (const { row, position } of came) {
      if (isSkipping && (hasKeys || position <= after)) {
        if (hasKeys && isSame(position, after)) isSkipping = false;
        await this.#breathe();
        continue;
      }
      isSkipping = false;
      await this.#pause(Math.max(0, ...took), scope);
      const began = performance.now();
      yield row;
      took.push(performance.now() - began);
      if (took.length > REMEMBERED_ROWS) took.shift();
      this.#cursors.set(scope, position);
      this.#hasNews = true;
      if (performance.now() - this.#savedAt >= SAVE_EVERY) await this.#saveNow();
    }
    if (isSkipping && hasKeys) {
      throw this.#changed(scope, `the row with the key ${String(toJson(after)).slice(0, 100)}, the last that an earlier attempt finished, does not come any more`);
    }
  }

  /** Rows without a wait of their own would keep the socket from being read, and a cancel from coming. */
  async #breathe() {
    if (performance.now() - this.#breathedAt < BREATHE_EVERY) return;
    await turn();
    this.#breathedAt = performance.now();
  }

  /**
   * Before each row and step: ends the handler when what comes next would be cut off.
   * @param {number} usual how long it takes, in milliseconds
   * @param {string} scope
   */
  async #pause(usual, scope) {
    await this.#breathe();
    // A handler that caught it may go on, but not with a part that is shorter: what comes before it is not done.
    this.#ending ??= this.#endingNow(usual);
    if (this.#ending === undefined) return;
    this.#endedIn = scope;
    throw this.#ending;
  }

  /** @param {number} usual @returns {Error | undefined} */
  #endingNow(usual) {
    const reason = this.#job.cancelReason;
    if (reason !== undefined && reason !== "shutdown") return this.#job.signal.reason;
    const left = reason === "shutdown" ? 0 : this.#job.remaining();
    if (left === null || left >= Math.max(1.5 * usual, LEAST_TIME)) return undefined;
    return new Release(REASON); // The position is saved before the answer.
  }

  /** @returns {Promise<boolean>} */
  async #saveNow() {
    return this.#send(this.#form());
  }

  /** @param {Saved} form @returns {Promise<boolean>} */
  async #send(form) {
    this.#hasNews = false;
    this.#savedAt = performance.now();
    const isOut = await this.#save(form);
    // Until it is out, the job's answer sends it once more, with what is new since.
    this.#hasNews ||= !isOut;
    return isOut;
  }

  #form() {
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
    return saved;
  }
}

module.exports = { Resume };
