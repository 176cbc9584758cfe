// Frames to ojs-init that it accepts, whatever the user gave.
"use strict";

const { asDetails, className } = require("./errors.cjs");
const { depthOf, lossOf, toJson } = require("./json.cjs");

const MAX_DEPTH = 100;

/** @param {string} line @param {number} maxFrame */
function fits(line, maxFrame) {
  return Buffer.byteLength(line) <= maxFrame;
}

/**
 * @typedef {object} Checked
 * @property {string} [json]
 * @property {string} [problem] why there is none: what the value is or holds
 */

/**
 * JSON of the user's, if it is all that the value is.
 * @param {unknown} value
 * @param {boolean} isStrict whether what JSON.stringify loses without a word is a problem, too
 * @returns {Checked}
 */
function checkedJson(value, isStrict) {
  try {
    const json = toJson(value);
    if (json === undefined) return { problem: `is a ${typeof value}, which is not JSON` };
    if (depthOf(json) >= MAX_DEPTH) return { problem: `is nested deeper than ${MAX_DEPTH - 1} levels` };
    const problem = isStrict ? lossOf(value, json) : undefined;
    return problem === undefined ? { json } : { problem };
  } catch (error) {
    return { problem: `cannot be written as JSON (${className(error)}); give plain data` };
  }
}

/**
 * Adds a field with JSON of the user to a frame, if ojs-init would accept the frame then. One that it refuses counts as
 * malformed, and an answer that it refuses leaves the job unanswered.
 * @param {object} frame
 * @param {string} field
 * @param {unknown} value
 * @param {number} maxFrame
 * @param {boolean} [isStrict]
 * @returns {{ line: string, problem?: string, isTooLarge?: boolean }} the frame, and why the field is not in it
 */
function frameWith(frame, field, value, maxFrame, isStrict = false) {
  const bare = /** @type {string} */ (toJson(frame));
  if (value === undefined) return { line: bare };
  const { json, problem } = checkedJson(value, isStrict);
  if (problem !== undefined) return { line: bare, problem };
  const line = `${bare.slice(0, -1)},${JSON.stringify(field)}:${json}}`;
  if (fits(line, maxFrame)) return { line };
  const large = `does not fit into a frame of ${maxFrame} bytes; store it elsewhere and give its key`;
  return { line: bare, problem: large, isTooLarge: true };
}

/**
 * A `fail` that fits, whatever the error carries: better a poor failure than none.
 * @param {string} jobId
 * @param {import("./errors.cjs").Failure} failure
 * @param {number} maxFrame
 */
function failLine(jobId, failure, maxFrame) {
  const { details, backtrace, ...short } = failure;
  const attempts = [{ ...failure, details: asDetails(details) }, { ...short, backtrace }, short];
  for (const error of attempts) {
    const { line, problem } = frameWith({ type: "fail", job_id: jobId }, "error", error, maxFrame);
    if (problem === undefined) return line;
  }
  const error = { message: "the error is too large for a frame", retryable: failure.retryable };
  return JSON.stringify({ type: "fail", job_id: jobId, error });
}

/** @param {string} jobId @param {string | undefined} reason @param {number} maxFrame @param {number} [afterMs] */
function releaseLine(jobId, reason, maxFrame, afterMs = 0) {
  const later = afterMs > 0 ? { after_ms: afterMs } : {};
  return frameWith({ type: "release", job_id: jobId, ...later }, "reason", reason, maxFrame).line;
}

module.exports = { checkedJson, failLine, fits, frameWith, releaseLine };
