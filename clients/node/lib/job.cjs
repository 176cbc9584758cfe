// A job, as its handler sees it.
"use strict";

const { setMaxListeners } = require("node:events");
const { setTimeout: sleep } = require("node:timers/promises");
const { Cancelled, CheckpointTooLarge } = require("./errors.cjs");
const { checkedJson } = require("./json.cjs");
const { isObject } = require("./options.cjs");
const { Resume } = require("./resume.cjs");

/** Milliseconds of 1,000 years: no Date can hold a much later deadline. */
const MAX_TIMEOUT = 1_000 * 366 * 24 * 3_600_000;
/** The longest delay that a timer of Node.js takes, in milliseconds. */
const MAX_DELAY = 2 ** 31 - 1;

/** A job, as its handler sees it. */
class Job {
  #owner;
  #isHeld = true;
  #abort = new AbortController();
  #stop = new AbortController();
  #timeoutAt;
  #graceUntil = Infinity;
  #resume;

  /**
   * @param {Record<string, any>} envelope
   * @param {unknown} checkpoint
   * @param {import("./held.cjs").HeldJobs} owner
   * @param {unknown} [traceparent] of ojs-init's span
   */
  constructor(envelope, checkpoint, owner, traceparent) {
    /** @readonly @type {string} the same in each delivery */
    this.id = envelope.id;
    /** @readonly @type {string} */
    this.type = envelope.type;
    /** @readonly @type {string} */
    this.queue = typeof envelope.queue === "string" ? envelope.queue : "default";
    /**
     * @readonly
     * @type {number | undefined} the number of this attempt; the backend decides where the count
     *   begins
     */
    this.attempt = Number.isSafeInteger(envelope.attempt) ? envelope.attempt : undefined;
    /**
     * @readonly
     * @type {boolean} whether a failure now is for good; false if the backend does not say
     */
    this.isLastAttempt = envelope.max_attempts != null && Number(this.attempt) >= envelope.max_attempts;
    /** @readonly @type {any} an array */
    this.args = Array.isArray(envelope.args) ? envelope.args : [];
    /**
     * @readonly
     * @type {Record<string, any>} what the producer added: trace ids, tenant and the like
     */
    this.meta = isObject(envelope.meta) ? envelope.meta : {};
    /**
     * @readonly
     * @type {string | undefined} the W3C context of ojs-init's span of the job, the parent of the
     *   handler's own spans; without one that of the producer (`meta`)
     */
    this.traceparent = [traceparent, this.meta.traceparent].find((value) => typeof value === "string");
    /** @readonly @type {Record<string, any>} all that the backend sent */
    this.envelope = envelope;
    /**
     * @readonly
     * @type {Record<string, any>} for middleware: what it hands to the handler; of this job alone
     */
    this.locals = {};
    const timeout = timeoutOf(envelope);
    /** @readonly @type {Date | null} when the job's own timeout is over */
    this.deadline = timeout < MAX_TIMEOUT ? new Date(Date.now() + timeout) : null;
    this.#owner = owner;
    this.#timeoutAt = performance.now() + timeout;
    this.#resume = new Resume(this, checkpoint, (state) => this.#send("checkpoint", {}, "state", state));
    /** @readonly @type {any} the state that an earlier attempt saved last, or null */
    this.lastCheckpoint = this.#resume.state;
    // A handler may do a hundred things at once. That is no leak: the signal ends with the job.
    setMaxListeners(0, this.signal, this.stopping);
    if (owner.isTerminating) this._stop();
  }

  /**
   * Aborted when the job is to stop; `signal.reason` is a {@link Cancelled}. Give it to fetch,
   * timers and the like.
   */
  get signal() {
    return this.#abort.signal;
  }

  /**
   * @returns {string | undefined} why the job is to stop: shutdown, timeout, cancelled, lost, or
   *   others
   */
  get cancelReason() {
    return this.#abort.signal.reason?.reason;
  }

  /** Aborted when the worker is being shut down. The job may go on until `signal` is aborted. */
  get stopping() {
    return this.#stop.signal;
  }

  /**
   * @returns {number | null} milliseconds until a shutdown aborts `signal`; null while nothing
   *   shuts down, and where ojs-init does not say
   */
  remaining() {
    const left = this.#owner.terminateAt - performance.now();
    return Number.isFinite(left) ? Math.max(0, left) : null;
  }

  /**
   * @returns {number} milliseconds until the job's timeout or a shutdown, whichever is first; once
   *   `signal` is aborted, those that the handler has to end; Infinity without a limit
   */
  remainingMs() {
    const end = this.signal.aborted ? this.#graceUntil : Math.min(this.#timeoutAt, this.#owner.terminateAt);
    return Math.max(0, end - performance.now());
  }

  /**
   * Waits. Rejects with {@link Cancelled} at once when the job is cancelled.
   * @param {number} ms milliseconds
   * @returns {Promise<void>}
   */
  async sleep(ms) {
    try {
      await sleep(Math.min(ms, MAX_DELAY), undefined, { signal: this.signal });
    } catch (error) {
      throw this.signal.reason ?? error;
    }
  }

  /**
   * Tells the backend that the job is alive. Not needed: ojs-init keeps the reservation by itself.
   */
  heartbeat() {
    void this.#send("heartbeat", {}, "", undefined);
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
    // 1.0000000000000002 is no reason to fail a job.
    const fields = { progress: Math.min(1, Math.max(0, progress)), message: message == null ? undefined : String(message) };
    const sent = this.#send("progress", fields, "data", data);
    sent.catch((error) => this.#owner.log(`job ${this.id}: ${error.message}`, "warn"));
  }

  /**
   * Saves what the next attempt needs to go on from here, which finds it in `job.lastCheckpoint`.
   * Once the promise is resolved, ojs-init gets the state even if this process dies.
   * @param {unknown} state JSON, about 1 MiB at most; 64 KiB together with what `step` and
   *   `iterate` keep
   * @returns {Promise<boolean>} false if ojs-init is gone. It rejects if the state is no JSON, or
   *   too large
   */
  checkpoint(state) {
    const kept = this.#resume.saveState(state ?? null);
    // A handler that does not await it must not end the process, but the log has why it is not saved.
    kept.catch((error) => {
      if (error instanceof CheckpointTooLarge) this.#owner.log(`job ${this.id}: ${error.message}`, "warn");
    });
    return kept;
  }

  /**
   * Runs a part of the work once: in a later attempt a finished step is not run again, and gives
   * the result it had. Steps follow one another, in the same order in each attempt.
   * @param {string} name
   * @param {(...args: any[]) => any} body
   * @param {any[]} args for `body`
   * @returns {Promise<any>} the result as JSON has it; null for none
   */
  step(name, body, ...args) {
    return this.#resume.step(name, body, args);
  }

  /**
   * Goes through rows, in a later attempt from where the earlier one stopped. Ends the handler with
   * {@link Interrupted} when the worker is shut down and the time that is left is too short for
   * another row.
   * @param {any} rows (async) iterable, or a function of the position (null at first) that gives
   *   the rows behind it
   * @param {{ key?: (row: any) => unknown }} [options] `key`: what identifies a row (default: its
   *   index)
   * @returns {AsyncGenerator<any, void, undefined>}
   */
  iterate(rows, options) {
    return this.#resume.iterate(rows, options);
  }

  /**
   * @param {import("./link.cjs").ReportKind} type
   * @param {object} fields
   * @param {string} name of the field with JSON of the user
   * @param {unknown} value
   * @returns {Promise<boolean>}
   */
  async #send(type, fields, name, value) {
    if (!this.#isHeld) return false;
    const frame = JSON.stringify({ type, job_id: this.id, ...fields });
    if (value === undefined) return this.#report(type, frame);
    const { json, problem } = checkedJson(value);
    if (problem !== undefined) throw new TypeError(`${type} was not sent: its ${name} ${problem}; give plain data`);
    return this.#report(type, `${frame.slice(0, -1)},"${name}":${json}}`);
  }

  /**
   * @param {import("./link.cjs").ReportKind} type
   * @param {string} frame
   * @returns {Promise<boolean>}
   */
  #report(type, frame) {
    const [bytes, most] = [Buffer.byteLength(frame), this.#owner.maxFrame];
    // ojs-init closes the connection after three frames that are too long.
    if (bytes > most) {
      const TooLong = type === "checkpoint" ? CheckpointTooLarge : RangeError;
      throw new TooLong(`the frame of a ${type} has ${bytes} bytes, and ojs-init takes ${most} at most (worker.max_frame)`);
    }
    return this.#owner.out.report(this, type, frame);
  }

  /** @internal @param {string} reason @param {number} graceMs */
  _cancel(reason, graceMs) {
    if (this.signal.aborted) return; // The handler acts on the first reason already.
    this.#graceUntil = performance.now() + graceMs;
    if (reason === "shutdown") this._stop();
    this.#abort.abort(new Cancelled(reason, graceMs));
  }

  /** @internal The worker is being shut down. */
  _stop() {
    if (!this.#stop.signal.aborted) this.#stop.abort(new Error("the worker is being shut down"));
  }

  /**
   * @internal The last moment before the answer.
   * @param {boolean} isDone whether the job will not come again
   */
  _close(isDone) {
    // The checkpoint of a lost job belongs to another worker by now.
    if (!isDone && this.cancelReason !== "lost") this.#resume.flush((text) => this.#owner.log(`job ${this.id}: ${text}`, "warn"));
    this.#isHeld = false;
  }
}

/** @param {Record<string, any>} envelope @returns {number} milliseconds, or Infinity */
function timeoutOf({ timeout_ms: ms, timeout: seconds }) {
  if ((typeof ms === "number" || typeof ms === "bigint") && ms > 0) return Number(ms);
  return typeof seconds === "number" && seconds > 0 ? seconds * 1000 : Infinity;
}

module.exports = { Job };
