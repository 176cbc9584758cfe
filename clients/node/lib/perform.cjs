// Tests of handlers: a job that comes from the test, on the path of one that ojs-init brings.
"use strict";

const { HeldJobs } = require("./held.cjs");
const { checkedJson, parseJson } = require("./json.cjs");
const { checkNames } = require("./options.cjs");

const FIELDS = ["id", "queue", "attempt", "maxAttempts", "meta", "checkpoint"];
const TIMING = ["timeoutMs", "cancel", "cancelAfterMs", "stoppingMs", "stoppingAfterMs", "graceMs", "giveUpAfterMs"];
/** Milliseconds that ojs-init gives handlers after a cancel by default. */
const SHUTDOWN_GRACE = 1_000;
const GRACE = 30_000;
/**
 * Milliseconds that a handler may take without a cancel: one that hangs is a failure of its test.
 */
const GIVE_UP_AFTER = 60_000;

let count = 0;

/**
 * @typedef {object} PerformOptions
 * @property {string} [id]
 * @property {string} [queue]
 * @property {number} [attempt]
 * @property {number} [maxAttempts]
 * @property {Record<string, any>} [meta]
 * @property {any} [checkpoint] what an earlier attempt saved: the last of its outcome's
 *   `checkpoints`
 * @property {number} [timeoutMs] the job's own timeout
 * @property {string} [cancel] cancels the job, with this reason: shutdown, timeout, cancelled, lost
 * @property {number} [cancelAfterMs] when (default: at once)
 * @property {number} [stoppingMs] the worker is shut down, and so much is left until the job is
 *   cancelled
 * @property {number} [stoppingAfterMs] when (default: at once)
 * @property {number} [graceMs] how long the handler may take to end after a cancel (default: as
 *   ojs-init's)
 * @property {number} [giveUpAfterMs] how long it may take without a cancel (default: 60 s)
 */

/**
 * @typedef {object} Outcome
 * @property {"ack" | "fail" | "release"} outcome
 * @property {any} result of ack: as the backend gets it; null for none
 * @property {any} error of fail: `message`, `code`, `type`, `retryable`, `details`, `backtrace`;
 *   else null
 * @property {string | null} reason of release
 * @property {any[]} checkpoints what was saved, in order, as the next attempt gets it
 * @property {{ progress: number, message?: string, data?: any }[]} progress
 */

/**
 * @param {import("./held.cjs").Services} services
 * @param {string} type
 * @param {any[]} args
 * @param {PerformOptions} options
 * @returns {Promise<Outcome>}
 */
async function perform(services, type, args, options) {
  checkNames("worker.perform()", options, [...FIELDS, ...TIMING]);
  if (typeof type !== "string" || !Array.isArray(args)) {
    throw new TypeError('worker.perform(): give a job type and its arguments: worker.perform("email.send", ["a@b.c"])');
  }
  const frame = frameOf(type, args, options);
  /** @type {NodeJS.Timeout[]} */
  const timers = [];
  const after = (/** @type {number | undefined} */ ms, /** @type {() => void} */ act) =>
    ms === undefined ? act() : timers.push(setTimeout(act, ms));
  try {
    return await new Promise((resolve, reject) => {
      const jobs = new HeldJobs(services, recorder(resolve), () => {});
      const giveUp = (/** @type {string} */ when) => {
        jobs.abandon();
        reject(new Error(`the handler of ${type} has not ended ${when}`));
      };
      const patience = options.giveUpAfterMs ?? GIVE_UP_AFTER;
      after(patience, () => giveUp(`within ${patience} ms; see where it hangs, or give it longer: giveUpAfterMs`));
      const cancel = (/** @type {string} */ reason) => {
        clearTimeout(timers[0]);
        const grace = options.graceMs ?? (reason === "shutdown" ? SHUTDOWN_GRACE : GRACE);
        jobs.cancel(frame.job.id, reason, grace);
        after(grace, () => giveUp(`${grace} ms after its cancel (${reason}); ojs-init would end its process`));
      };
      jobs.take(frame);
      const { cancel: reason, stoppingMs, timeoutMs } = options;
      if (timeoutMs !== undefined) after(timeoutMs, () => cancel("timeout"));
      if (reason !== undefined) after(options.cancelAfterMs, () => cancel(reason));
      if (stoppingMs === undefined) return;
      after(options.stoppingAfterMs, () => {
        jobs.terminate(stoppingMs);
        after(stoppingMs, () => cancel("shutdown"));
      });
    });
  } finally {
    timers.forEach(clearTimeout);
  }
}

/**
 * The frame as it would be read: what JSON cannot carry is an error here already.
 * @param {string} type
 * @param {any[]} args
 * @param {PerformOptions} options
 */
function frameOf(type, args, options) {
  const { id = `perform-${++count}`, queue = "default", attempt = 1, maxAttempts, meta, timeoutMs, checkpoint } = options;
  const job = { id, type, queue, attempt, max_attempts: maxAttempts, args, meta, timeout_ms: timeoutMs };
  const { json, problem } = checkedJson({ type: "job", job, checkpoint });
  if (json === undefined) throw new TypeError(`worker.perform(): the job is no JSON: it ${problem}`);
  return parseJson(json);
}

/**
 * Takes the frames that ojs-init would get.
 * @param {(outcome: Outcome) => void} done
 * @returns {import("./held.cjs").Out}
 */
function recorder(done) {
  /** @type {any[]} */
  const checkpoints = [];
  /** @type {any[]} */
  const reports = [];
  return {
    async report(_job, kind, line) {
      const { state, progress, message, data } = parseJson(line);
      if (kind === "checkpoint") checkpoints.push(state);
      if (kind === "progress") reports.push({ progress, message, data });
      return true;
    },
    settle() {},
    write(line) {
      const { type, result = null, error = null, reason = null } = parseJson(line);
      done({ outcome: type, result, error, reason, checkpoints, progress: reports });
    },
  };
}

module.exports = { perform };
