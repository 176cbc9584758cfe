// What a handler throws to decide about its job, and what the library throws into handlers.
"use strict";

const { checkNames, secondsToMs } = require("./options.cjs");
const { className } = require("./stack.cjs");

const JOB_ERROR_OPTIONS = ["code", "type", "details", "cause"];

/**
 * @typedef {object} JobErrorOptions
 * @property {string} [code] short and stable; your own codes begin with `x_` (default:
 *   `handler_error`)
 * @property {string} [type] the class of the error (default: that of `cause`, or of this error)
 * @property {object} [details] anything more, as JSON
 * @property {unknown} [cause] the error behind it
 */

/**
 * @typedef {JobErrorOptions & { after?: number }} RetryOptions `after`: seconds until the next
 *   attempt, as a wish
 */

/**
 * A failure that the handler means. Throw {@link Retry} or {@link Discard}, or a class that extends
 * one of them.
 */
class JobError extends Error {
  /**
   * @param {string} message for a person
   * @param {boolean} retryable whether another attempt may help
   * @param {JobErrorOptions} [options]
   */
  constructor(message, retryable, options = {}) {
    checkNames(new.target.name, options, JOB_ERROR_OPTIONS);
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.name = new.target.name;
    this.retryable = retryable;
    this.code = options.code ?? "handler_error";
    this.type = options.type ?? (options.cause instanceof Error ? className(options.cause) : this.name);
    /** @type {any} */
    this.details = options.details;
  }
}

/** The job failed; another attempt may help. */
class Retry extends JobError {
  /** @param {string} [message] @param {RetryOptions} [options] */
  constructor(message = "the job failed, another attempt may help", options = {}) {
    checkNames(new.target.name, options, [...JOB_ERROR_OPTIONS, "after"]);
    const { after, ...more } = options;
    super(message, true, more);
    if (after === undefined) return;
    // The backend's retry policy decides. This field is what it can go by.
    this.details = { ...this.details, retry_after_ms: secondsToMs(`${new.target.name}: after`, after) };
  }
}

/** The job failed, and no other attempt will help. */
class Discard extends JobError {
  /** @param {string} [message] @param {JobErrorOptions} [options] */
  constructor(message = "the job failed for good", options) {
    super(message, false, options);
  }
}

/** The job was not processed: it goes back to the queue and no attempt is counted. */
class Release extends Error {
  /**
   * @param {string} [reason] for the log
   * @param {{ after?: number }} [options] `after`: seconds for which ojs-init holds the job before
   *   it goes back, 30 at most
   */
  constructor(reason, options = {}) {
    checkNames("Release", options, ["after"]);
    super(reason ?? "released");
    this.name = new.target.name;
    this.reason = reason === undefined ? undefined : String(reason);
    this.afterMs = secondsToMs("Release: after", options.after ?? 0);
  }
}

/**
 * Ends a handler between two steps or rows: the job goes back with its position saved. Do not catch
 * it.
 */
class Interrupted extends Release {}

/** The reason of `job.signal`: what `signal.throwIfAborted()` and `job.sleep()` throw. */
class Cancelled extends Error {
  /**
   * @param {string} reason shutdown, timeout, cancelled, lost, or one of a later version
   * @param {number} graceMs milliseconds that the handler has to end
   */
  constructor(reason, graceMs) {
    super(`the job was cancelled (${reason})`);
    this.name = "Cancelled";
    this.reason = reason;
    this.graceMs = graceMs;
  }
}

/** The arguments of the job do not fit its handler. Not retryable. */
class InvalidArgs extends Discard {
  /** @param {string} message */
  constructor(message) {
    super(message, { code: "invalid_args" });
  }
}

/**
 * The steps or rows of a resumed job are not those that an earlier attempt finished. Not retryable.
 */
class StepsChanged extends Discard {}

/**
 * What `job.step` and `job.iterate` have to keep is more than 64 KiB of JSON, or a checkpoint is longer
 * than `worker.max_frame`. Not retryable.
 */
class CheckpointTooLarge extends Discard {}

module.exports = { Cancelled, CheckpointTooLarge, Discard, Interrupted, InvalidArgs, JobError, Release, Retry, StepsChanged };
