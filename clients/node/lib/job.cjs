// A job, as its handler sees it.
"use strict";

const { Cancelled } = require("./errors.cjs");
const { fits, frameWith } = require("./frames.cjs");
const { Resume } = require("./resume.cjs");

/** Milliseconds that a checkpoint waits for ojs-init to read. */
const WRITE_TIMEOUT = 10_000;

/** Milliseconds, a thousand years: beyond it a timeout is none, and no Date can hold it. */
const MAX_TIMEOUT = 1_000 * 366 * 24 * 3_600_000;

/**
 * What a job needs from its worker.
 * @typedef {object} JobPort
 * @property {(job: Job, kind: import("./lines.cjs").ReportKind, line: string) => Promise<boolean>} offer
 * @property {() => number} maxFrame
 * @property {() => number} terminateAt when what is left is cancelled; Infinity while nothing shuts down, or unknown
 * @property {() => boolean} isTerminating
 * @property {(text: string) => void} log
 */

/** A job, as its handler sees it. */
class Job {
  #port;
  #held = true;
  #reports = false;
  #abort = new AbortController();
  #stop = new AbortController();
  #timeoutAt;
  #graceUntil = Infinity;
  #resume;
  /** @type {Promise<boolean> | undefined} */
  #isOut;
  /** @type {Promise<boolean> | undefined} the same, but not for ever */
  #isOutInTime;

  /**
   * @param {Record<string, any>} envelope
   * @param {unknown} checkpoint
   * @param {JobPort} port
   */
  constructor(envelope, checkpoint, port) {
    /** @readonly @type {string} the same in each delivery */
    this.id = envelope.id;
    /** @readonly @type {string} */
    this.type = envelope.type;
    /** @readonly @type {string} */
    this.queue = typeof envelope.queue === "string" ? envelope.queue : "default";
    /** @readonly @type {number | undefined} which attempt this is; where the count begins is the backend's business */
    this.attempt = Number.isSafeInteger(envelope.attempt) ? envelope.attempt : undefined;
    /** @readonly @type {any} an array */
    this.args = Array.isArray(envelope.args) ? envelope.args : [];
    /** @readonly @type {Record<string, any>} what the producer added: trace ids, tenant and the like */
    this.meta = isObject(envelope.meta) ? envelope.meta : {};
    /** @readonly @type {Record<string, any>} all that the backend sent */
    this.envelope = envelope;
    /** @readonly @type {Record<string, any>} for middleware: what it hands to the handler; of this job alone */
    this.locals = {};
    const timeout = timeoutOf(envelope);
    /** @readonly @type {Date | null} when the job's own timeout is over */
    this.deadline = timeout < MAX_TIMEOUT ? new Date(Date.now() + timeout) : null;
    this.#port = port;
    this.#timeoutAt = performance.now() + timeout;
    this.#resume = new Resume(this, checkpoint, (state) => this.#checkpoint(state));
    /** @readonly @type {any} the state that an earlier attempt saved last, or null */
    this.lastCheckpoint = this.#resume.state;
    if (port.isTerminating()) this._stop();
  }

  /** Aborted when the job is to stop; `signal.reason` is a {@link Cancelled}. Give it to fetch, timers and the like. */
  get signal() {
    return this.#abort.signal;
  }

  /** @returns {string | undefined} why the job is to stop: shutdown, timeout, cancelled, lost, or others */
  get cancelReason() {
    return this.#abort.signal.reason?.reason;
  }

  /**
   * Aborted when the worker is being shut down. The job may go on, for `remaining()` milliseconds: `signal` is aborted
   * then.
   */
  get stopping() {
    return this.#stop.signal;
  }

  /**
   * What a shutdown leaves: whether to begin another part.
   * @returns {number | null} milliseconds until the shutdown aborts `signal`; null while nothing shuts down, and where
   *   ojs-init does not say
   */
  remaining() {
    const left = this.#port.terminateAt() - performance.now();
    return Number.isFinite(left) ? Math.max(0, left) : null;
  }

  /**
   * What anything at all leaves, for the timeout of a request: the job's own timeout or a shutdown, whichever is first;
   * once `signal` is aborted, the time to answer.
   * @returns {number} milliseconds; Infinity without a limit
   */
  remainingMs() {
    const end = this.signal.aborted ? this.#graceUntil : Math.min(this.#timeoutAt, this.#port.terminateAt());
    return Math.max(0, end - performance.now());
  }

  /** Tells the backend that the job is alive. Not needed: ojs-init keeps the reservation by itself. */
  heartbeat() {
    void this.#offer("heartbeat", JSON.stringify({ type: "heartbeat", job_id: this.id }));
  }

  /**
   * Tells how far the job is. As often as you like: the newest counts.
   * @param {number} progress 0 to 1
   * @param {string} [message] for a person
   * @param {unknown} [data] JSON, about 4 KB at most
   */
  progress(progress, message, data) {
    if (typeof progress !== "number" || Number.isNaN(progress)) {
      throw new TypeError("job.progress(): give a number from 0 to 1 first");
    }
    const within = Math.min(1, Math.max(0, progress)); // 1.0000000000000002 is no reason to fail a job.
    const text = message === undefined || message === null ? undefined : String(message);
    const frame = { type: "progress", job_id: this.id, progress: within, message: text };
    void this.#report("progress", frame, "data", data, false);
  }

  /**
   * Saves what the next attempt needs to go on from here; it finds it in `job.lastCheckpoint`. Wait for it: then
   * ojs-init has it, even if this process dies the next moment.
   * @param {unknown} state JSON, about 1 MiB at most; 64 KiB together with what `step` and `iterate` keep
   * @returns {Promise<boolean>} whether it was sent: false when ojs-init does not read, or is gone. It rejects when the
   *   state is no JSON, or too large
   */
  checkpoint(state) {
    const kept = this.#resume.keep(state ?? null);
    kept.catch(() => {}); // Whoever does not wait for it must not lose the process.
    return kept;
  }

  /**
   * Runs a part of the work once: in a later attempt a finished step is not run again, and gives the result it had.
   * Steps follow one another, in the same order in each attempt.
   * @param {string} name
   * @param {(...args: any[]) => any} body
   * @param {any[]} args for `body`
   * @returns {Promise<any>} the result as JSON has it; null for none
   */
  step(name, body, ...args) {
    return this.#resume.step(name, body, args);
  }

  /**
   * Goes through rows, in a later attempt from where the earlier one stopped. Ends the handler by itself, with the
   * position saved, when the worker is shut down and the next row would be cut off.
   * @param {any} rows (async) iterable, or a function of the position (null at first) that gives those behind it
   * @param {{ key?: (row: any) => unknown }} [options] `key`: what a row is known by; without it, its index
   * @returns {AsyncGenerator<any, void, undefined>}
   */
  iterate(rows, options) {
    return this.#resume.iterate(rows, options);
  }

  /** @param {unknown} state @returns {Promise<boolean>} */
  #checkpoint(state) {
    const isOut = this.#report("checkpoint", { type: "checkpoint", job_id: this.id }, "state", state, true);
    if (isOut !== this.#isOut || this.#isOutInTime === undefined) {
      this.#isOut = isOut;
      this.#isOutInTime = inTime(isOut, () => this.#port.log(`job ${this.id}: ojs-init has not read its checkpoint yet`));
    }
    return this.#isOutInTime;
  }

  /**
   * @param {"progress" | "checkpoint"} kind
   * @param {object} frame
   * @param {string} field
   * @param {unknown} value
   * @param {boolean} isStrict
   * @returns {Promise<boolean>}
   */
  #report(kind, frame, field, value, isStrict) {
    const { line, problem } = frameWith(frame, field, value, this.#port.maxFrame(), isStrict);
    if (problem !== undefined || !fits(line, this.#port.maxFrame())) {
      const why = `${kind} was not sent: ${problem ? `its ${field} ${problem}` : "it is too long"}`;
      this.#port.log(`job ${this.id}: ${why}`);
      return kind === "checkpoint" ? Promise.reject(new TypeError(why)) : Promise.resolve(false);
    }
    this.#reports = true;
    return this.#offer(kind, line);
  }

  /** @param {import("./lines.cjs").ReportKind} kind @param {string} line */
  #offer(kind, line) {
    return this.#held ? this.#port.offer(this, kind, line) : Promise.resolve(false);
  }

  /** @internal Whether an error about this job can be about a frame of this delivery. */
  get _reports() {
    return this.#reports;
  }

  /** @internal Before the handler: what makes its steps and loops begin anew, for a middleware that calls it again. */
  _mark() {
    return this.#resume.mark();
  }

  /** @internal What ended the handler before a row or step, or undefined. */
  get _ending() {
    return this.#resume.ending;
  }

  /** @internal @param {string} reason @param {number} graceMs */
  _cancel(reason, graceMs) {
    if (this.signal.aborted) return; // The first reason stays: the handler acts on it already.
    this.#graceUntil = performance.now() + graceMs;
    if (reason === "shutdown") this._stop();
    this.#abort.abort(new Cancelled(reason, graceMs));
  }

  /** @internal The worker is being shut down. */
  _stop() {
    if (!this.#stop.signal.aborted) this.#stop.abort(new Error("the worker is being shut down"));
  }

  /** @internal Before its answer. @param {boolean} isDone whether the job will not come again */
  _settle(isDone) {
    // Of a lost job the checkpoint is another worker's by now.
    if (isDone || this.cancelReason === "lost") return;
    this.#resume.flush((text) => this.#port.log(`job ${this.id}: ${text}`));
  }

  /** @internal The job is answered: nothing more may be said about it. */
  _close() {
    this.#held = false;
  }
}

/**
 * @param {Promise<boolean>} isOut
 * @param {() => void} complain
 * @returns {Promise<boolean>}
 */
function inTime(isOut, complain) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      complain();
      resolve(false);
    }, WRITE_TIMEOUT);
    void isOut.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** @param {unknown} value @returns {value is Record<string, any>} */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @param {Record<string, any>} envelope @returns {number} milliseconds, or Infinity */
function timeoutOf({ timeout_ms: ms, timeout: seconds }) {
  if (typeof ms === "number" || typeof ms === "bigint") return Number(ms);
  return typeof seconds === "number" ? seconds * 1000 : Infinity;
}

module.exports = { Job };
