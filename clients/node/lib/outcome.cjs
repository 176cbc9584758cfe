// From the end of a handler to the frame that answers the job.
"use strict";

const { Cancelled, InvalidArgs, JobError, Release } = require("./errors.cjs");
const { checkedJson, toJson } = require("./json.cjs");
const { causesOf, className, framesOf, kindOf } = require("./stack.cjs");

/** @typedef {import("./job.cjs").Job} Job */

/**
 * The answer of a job, and what else is to be said about it.
 * @typedef {object} Outcome
 * @property {string} line the frame
 * @property {unknown} [failure] of a failed job: the error for the listeners of `failed`
 * @property {unknown} [result] of a completed job
 * @property {[text: string, severity: import("./log.cjs").Severity, error?: unknown]} [log]
 */

/** @param {Job} job @param {string} type @param {object} [fields] */
const frame = (job, type, fields) => JSON.stringify({ type, job_id: job.id, ...fields });

/** @param {Job} job @param {unknown} result @returns {Outcome} */
function completed(job, result) {
  const line = frame(job, "ack");
  if (result === undefined) return { line, result };
  const { json, problem } = checkedJson(result);
  if (json !== undefined) return { line: `${line.slice(0, -1)},"result":${json}}`, result };
  // The work is done. A failure would do it again.
  const text = `job ${job.id} (${job.type}): done, but acknowledged without its result, which is no JSON: it ${problem}`;
  return { line, result, log: [text, "error"] };
}

/** @param {Job} job @param {unknown} thrown @returns {Outcome} */
function ended(job, thrown) {
  try {
    if (thrown instanceof Release) {
      const later = thrown.afterMs > 0 ? { after_ms: thrown.afterMs } : {};
      return { line: frame(job, "release", { ...later, reason: thrown.reason }) };
    }
    if (thrown instanceof JobError) return failed(job, thrown, isMistake(thrown));
    if (job.signal.aborted) return gaveUp(job, thrown);
    return failed(job, thrown, true);
  } catch {
    // A thrown value can be anything, even a Proxy that throws when it is read.
    return failed(job, new JobError("the handler threw something that cannot be read", true), true);
  }
}

/** @param {Job} job @returns {Outcome} */
function withoutHandler(job) {
  const isNamed = typeof job.type === "string";
  const message = isNamed ? `this worker has no handler for the job type ${job.type}` : "the job has no type";
  const failure = new JobError(message, true, { code: "handler_not_found", type: "HandlerNotFound" });
  return { line: failLine(job, failure), failure, log: [`job ${job.id}: ${message}`, "error"] };
}

/** What the library found wrong, other than what a handler says in its own words. @param {JobError} error */
function isMistake(error) {
  return error instanceof InvalidArgs || error.type === "StepsChanged" || error.type === "CheckpointTooLarge";
}

/** @param {Job} job @param {unknown} thrown @param {boolean} isLogged @returns {Outcome} */
function failed(job, thrown, isLogged) {
  const line = failLine(job, thrown);
  if (!isLogged) return { line, failure: thrown };
  const { retryable } = asFailure(thrown);
  const hasMore = retryable && job.attempt !== undefined && job.attempt < job.envelope.max_attempts;
  return { line, failure: thrown, log: [`job ${job.id} (${job.type}) failed: ${kindOf(thrown)}`, hasMore ? "warn" : "error", thrown] };
}

/** The handler ended because of the cancel and left the answer to the library. @param {Job} job @param {unknown} thrown @returns {Outcome} */
function gaveUp(job, thrown) {
  const { cancelReason, signal } = job;
  const obeys = causesOf(thrown).some((error) => error === signal.reason || error instanceof Cancelled || error.name === "AbortError");
  const text = `job ${job.id} (${job.type}): its handler threw ${kindOf(thrown)} after the job was cancelled (${cancelReason})`;
  /** @type {Pick<Outcome, "log">} */
  const own = obeys ? {} : { log: [text, "warn", thrown] };
  if (cancelReason !== "timeout") return { line: frame(job, "release", { reason: cancelReason }), ...own };
  const options = { code: "timeout", type: "Timeout", cause: thrown };
  const failure = new JobError("the job was stopped after its timeout", true, options);
  if (thrown instanceof Error) failure.stack = thrown.stack;
  return { line: failLine(job, failure), failure, ...own };
}

/** `type` and `job_id` come first: ojs-init reads them even if the rest is too long. @param {Job} job @param {unknown} thrown */
function failLine(job, thrown) {
  const { details, ...error } = asFailure(thrown);
  const { json } = details === undefined || details === null ? { json: undefined } : checkedJson(details);
  const line = /** @type {string} */ (toJson({ type: "fail", job_id: job.id, error }));
  return json === undefined ? line : `${line.slice(0, -2)},"details":${json}}}`;
}

/**
 * @typedef {object} Failure
 * @property {string} message
 * @property {string} code
 * @property {string} [type]
 * @property {boolean} retryable
 * @property {any} [details]
 * @property {string[]} [backtrace]
 */

/** ojs-init clips and mends the fields. @param {any} thrown @returns {Failure} */
function asFailure(thrown) {
  if (!(thrown instanceof Error)) {
    const text = typeof thrown?.message === "string" ? thrown.message : String(thrown);
    return { message: `the handler threw ${text}`, code: "handler_error", retryable: true };
  }
  const meant = thrown instanceof JobError ? thrown : undefined;
  const type = String(meant?.type ?? className(thrown));
  const frames = framesOf(thrown);
  return {
    message: String(thrown.message || type),
    code: String(meant?.code ?? "handler_error"),
    type,
    retryable: meant ? Boolean(meant.retryable) : true,
    details: meant?.details,
    backtrace: frames.length > 0 ? frames : undefined,
  };
}

module.exports = { completed, ended, withoutHandler };
