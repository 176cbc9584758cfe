// From the end of a handler to the frame that answers the job.
"use strict";

const { CheckpointTooLarge, InvalidArgs, JobError, Release, StepsChanged } = require("./errors.cjs");
const { checkedJson } = require("./json.cjs");
const { causesOf, className, framesOf } = require("./stack.cjs");

/** @typedef {import("./job.cjs").Job} Job */

/** Failures that the library finds. A `Retry` or `Discard` of a handler needs no line in the log. */
const MISTAKES = [CheckpointTooLarge, InvalidArgs, StepsChanged];

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
    if (thrown instanceof JobError) return failed(job, thrown, MISTAKES.some((each) => thrown instanceof each));
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

/** @param {Job} job @param {unknown} thrown @param {boolean} isLogged @returns {Outcome} */
function failed(job, thrown, isLogged) {
  const line = failLine(job, thrown);
  if (!isLogged) return { line, failure: thrown };
  const isFinal = thrown instanceof JobError && !thrown.retryable;
  const hasMore = !isFinal && job.attempt !== undefined && job.attempt < job.envelope.max_attempts;
  const text = `job ${job.id} (${job.type}) failed: ${className(thrown)}`;
  return { line, failure: thrown, log: [text, hasMore ? "warn" : "error", thrown] };
}

/**
 * The handler ended because of the cancel and left the answer to the library.
 * @param {Job} job
 * @param {unknown} thrown
 * @returns {Outcome}
 */
function gaveUp(job, thrown) {
  const { cancelReason, signal } = job;
  const obeys = causesOf(thrown).some((error) => error === signal.reason || error.name === "AbortError");
  const text = `job ${job.id} (${job.type}): its handler threw ${className(thrown)} after its cancel (${cancelReason})`;
  /** @type {Pick<Outcome, "log">} */
  const own = obeys ? {} : { log: [text, "warn", thrown] };
  if (cancelReason !== "timeout") return { line: frame(job, "release", { reason: cancelReason }), ...own };
  const options = { code: "timeout", type: "Timeout", cause: thrown };
  const failure = new JobError("the job was stopped after its timeout", true, options);
  if (thrown instanceof Error) failure.stack = thrown.stack;
  return { line: failLine(job, failure), failure, ...own };
}

/**
 * The job and what decides come first: ojs-init reads them even if the rest is too long. It clips
 * the fields.
 * @param {Job} job
 * @param {any} thrown
 */
function failLine(job, thrown) {
  if (!(thrown instanceof Error)) {
    const text = typeof thrown?.message === "string" ? thrown.message : String(thrown);
    return frame(job, "fail", { error: { retryable: true, code: "handler_error", message: `the handler threw ${text}` } });
  }
  /** @type {Partial<JobError>} */
  const meant = thrown instanceof JobError ? thrown : {};
  const { code = "handler_error", type = className(thrown), retryable = true, details } = meant;
  const frames = framesOf(thrown);
  const backtrace = frames.length > 0 ? frames : undefined;
  const message = String(thrown.message || type);
  const error = { retryable: Boolean(retryable), code: String(code), type: String(type), message, backtrace };
  const { json } = checkedJson(details ?? undefined);
  const line = frame(job, "fail", { error });
  return json === undefined ? line : `${line.slice(0, -2)},"details":${json}}}`;
}

module.exports = { completed, ended, withoutHandler };
