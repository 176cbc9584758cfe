// What a handler may throw, and what the backend is told about whatever it threw.
"use strict";

const MAX_BACKTRACE = 50;
const MAX_CAUSES = 10;

/** What the library itself says, by its types. */
const OF_THIS_LIBRARY = ["InvalidResult", "StepsChanged", "CheckpointTooLarge"];

const JOB_ERROR_OPTIONS = ["code", "type", "details", "cause"];

/**
 * @typedef {object} JobErrorOptions
 * @property {string} [code] short and stable; your own codes begin with `x_` (default: `handler_error`)
 * @property {string} [type] the class of the error (default: that of `cause`, or of this error)
 * @property {object} [details] anything more, as JSON
 * @property {unknown} [cause] the error behind it
 */

/** @typedef {JobErrorOptions & { after?: number }} RetryOptions `after`: seconds until the next attempt, as a wish */

/**
 * A misspelt option that is passed over is a mistake that nobody sees.
 * @param {string} where
 * @param {object | undefined | null} options
 * @param {string[]} known
 */
function checkNames(where, options, known) {
  if (options === undefined || options === null) return;
  if (typeof options !== "object") throw new TypeError(`${where}: give the options as an object`);
  const unknown = Object.keys(options).filter((name) => !known.includes(name));
  if (unknown.length === 0) return;
  throw new TypeError(`${unknown.join(", ")}: no such option; there are ${known.join(", ")} (${where})`);
}

/** A failure that the handler means. Throw {@link Retry} or {@link Discard}, or a class that extends one of them. */
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
    this.type = options.type ?? (options.cause instanceof Error ? className(options.cause) : undefined) ?? this.name;
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
    const ms = typeof after === "number" ? Math.round(after * 1000) : NaN;
    if (!Number.isSafeInteger(ms) || ms < 0) {
      throw new RangeError(`${new.target.name}: after is a number of seconds from 0 on, not ${String(after)}`);
    }
    // The backend's retry policy decides; this is what it can go by.
    this.details = { ...asDetails(this.details), retry_after_ms: ms };
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
   * @param {{ after?: number }} [options] `after`: seconds for which ojs-init holds the job before it goes back, 30 at most
   */
  constructor(reason, options = {}) {
    checkNames("Release", options, ["after"]);
    super(reason ?? "released");
    this.name = "Release";
    this.reason = reason === undefined ? undefined : String(reason);
    const { after } = options;
    // Whole milliseconds; a part of one counts.
    const ms = typeof after === "number" ? Math.ceil(after * 1000) : after === undefined ? 0 : NaN;
    if (!Number.isSafeInteger(ms) || ms < 0) {
      throw new RangeError(`Release: after is a number of seconds from 0 on, not ${String(after)}`);
    }
    this.afterMs = ms;
  }
}

/** What `job.signal` is aborted with: `signal.reason`, and what `signal.throwIfAborted()` throws. */
class Cancelled extends Error {
  /**
   * @param {string} reason shutdown, timeout, cancelled, lost, or one of a later version
   * @param {number} graceMs how long there is to answer
   */
  constructor(reason, graceMs) {
    super(`the job was cancelled (${reason})`);
    this.name = "Cancelled";
    this.reason = reason;
    this.graceMs = graceMs;
  }
}

/** The steps or rows of a resumed job are not those that an earlier attempt finished. */
class StepsChanged extends Discard {
  /** @param {string} message */
  constructor(message) {
    super(message, { type: "StepsChanged" });
  }
}

/** What `job.step` and `job.iterate` have to keep is more than 64 KiB of JSON. */
class CheckpointTooLarge extends Discard {
  /** @param {string} message */
  constructor(message) {
    super(message, { type: "CheckpointTooLarge" });
  }
}

/**
 * What a handler threw after it was ended between two rows: an outcome of its own, or only what it made of that end.
 * @param {any} thrown
 * @param {Error} ending
 */
function isMeant(thrown, ending) {
  const causes = causesOf(thrown);
  return !causes.includes(ending) && causes.some((error) => error instanceof JobError || error instanceof Release);
}

/**
 * Whether an error is only the end of the handler on its way out: then there is nothing in it to look at.
 * @param {unknown} thrown
 * @param {unknown[]} ends what has ended the handler
 */
function isOfEnd(thrown, ends) {
  return causesOf(thrown).some((error) => ends.includes(error) || error.name === "AbortError");
}

/**
 * Whether the handler has said in words of its own why the job failed: then there is no mistake to look for.
 * @param {JobError} failure
 */
function isInOwnWords(failure) {
  return failure.cause === undefined && !OF_THIS_LIBRARY.includes(failure.type);
}

/** The error and those behind it, as far as they are looked at. @param {any} thrown @returns {Error[]} */
function causesOf(thrown) {
  const causes = [];
  for (let error = thrown; error instanceof Error && causes.length <= MAX_CAUSES; error = error.cause) causes.push(error);
  return causes;
}

/** The stacks of an error and of those behind it. @param {Error} error */
function stackOf(error) {
  return causesOf(error)
    .map((each) => String(each.stack ?? each))
    .join("\nCaused by: ");
}

/** @param {any} error @returns {string} */
function className(error) {
  const { name } = error;
  if (typeof name === "string" && name !== "" && name !== "Error") return name;
  return error.constructor?.name || "Error"; // A subclass that did not set its name.
}

/**
 * @typedef {object} Failure
 * @property {string} message
 * @property {string} [code]
 * @property {string} [type]
 * @property {boolean} retryable
 * @property {any} [details]
 * @property {string[]} [backtrace]
 */

/**
 * @param {any} thrown
 * @returns {Failure}
 */
function asFailure(thrown) {
  if (!(thrown instanceof Error)) {
    const text = typeof thrown?.message === "string" ? thrown.message : String(thrown);
    return { message: `the handler threw ${text}`, code: "handler_error", retryable: true };
  }
  const meant = thrown instanceof JobError ? thrown : undefined;
  const type = String(meant?.type ?? className(thrown));
  return {
    message: String(thrown.message || type),
    code: String(meant?.code ?? "handler_error"),
    type,
    retryable: meant ? Boolean(meant.retryable) : true,
    details: meant?.details,
    backtrace: backtraceOf(thrown),
  };
}

/** @param {Error} error */
function backtraceOf(error) {
  const lines = String(error.stack ?? "").split("\n");
  const frames = lines.map((line) => line.trim()).filter((line) => line.startsWith("at "));
  return frames.length > 0 ? frames.slice(0, MAX_BACKTRACE) : undefined;
}

/** `details` has to be an object, or ojs-init refuses the frame. @param {any} details @returns {object | undefined} */
function asDetails(details) {
  if (details === undefined || details === null) return undefined;
  return typeof details === "object" && !Array.isArray(details) ? details : { value: details };
}

module.exports = {
  JobError,
  Retry,
  Discard,
  Release,
  Cancelled,
  StepsChanged,
  CheckpointTooLarge,
  asDetails,
  asFailure,
  checkNames,
  className,
  isInOwnWords,
  isMeant,
  isOfEnd,
  stackOf,
};
