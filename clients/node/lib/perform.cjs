// Tests of handlers: a job that comes from the test, on the same path as one that ojs-init brings.
"use strict";

const { checkNames } = require("./errors.cjs");
const { checkedJson } = require("./frames.cjs");
const { Jobs } = require("./jobs.cjs");
const { parseJson } = require("./json.cjs");

const OPTIONS = ["id", "queue", "attempt", "meta", "timeoutMs", "checkpoint", "cancel", "cancelAfterMs", "stoppingMs", "stopping", "stoppingAfterMs", "graceMs", "giveUpAfterMs"];
/** As ojs-init has them by default, in milliseconds. */
const SHUTDOWN_GRACE = 1_000;
const GRACE = 30_000;
/** Milliseconds that a handler may take without a cancel: one that hangs is a failure of its test. */
const GIVE_UP_AFTER = 60_000;

let count = 0;

/**
 * @typedef {object} PerformOptions
 * @property {string} [id]
 * @property {string} [queue]
 * @property {number} [attempt]
 * @property {Record<string, any>} [meta]
 * @property {number} [timeoutMs] the job's own timeout
 * @property {any} [checkpoint] what an earlier attempt saved: the last of its outcome's `checkpoints`
 * @property {string} [cancel] cancels the job, with this reason: shutdown, timeout, cancelled, lost
 * @property {number} [cancelAfterMs] when (default: at once)
 * @property {number} [stoppingMs] the worker is shut down, and so much is left until the job is cancelled
 * @property {number} [stopping] the same in seconds, as it was called before
 * @property {number} [stoppingAfterMs] when (default: at once)
 * @property {number} [graceMs] how long the handler may take to end after a cancel (default: as ojs-init's)
 * @property {number} [giveUpAfterMs] how long it may take without a cancel (default: 60 s)
 */

/**
 * @typedef {object} Outcome
 * @property {"ack" | "fail" | "release"} outcome
 * @property {any} result of ack: as the backend gets it; null for none
 * @property {any} error of fail: `message`, `code`, `type`, `retryable`, `details`, `backtrace`; else null
 * @property {string | null} reason of release
 * @property {any[]} checkpoints what was saved, in order, as the next attempt gets it
 * @property {{ progress: number, message?: string, data?: any }[]} progress
 */

/**
 * @param {import("./registry.cjs").Registry} registry
 * @param {import("./registry.cjs").WorkerOptions} workerOptions
 * @param {string} type
 * @param {any[]} args
 * @param {PerformOptions} options
 * @returns {Promise<Outcome>}
 */
async function perform(registry, workerOptions, type, args, options) {
  checkNames("worker.perform()", options, OPTIONS);
  if (typeof type !== "string" || !Array.isArray(args)) {
    throw new TypeError('worker.perform(): give a job type and its arguments: worker.perform("email.send", ["a@b.c"])');
  }
  const frame = frameOf(type, args, options);
  const id = frame.job.id;
  /** @type {NodeJS.Timeout[]} */
  const timers = [];
  const after = (/** @type {number} */ ms, /** @type {() => void} */ what) => void timers.push(setTimeout(what, ms));
  try {
    return await new Promise((resolve, reject) => {
      const recorder = new Recorder(resolve);
      const jobs = new Jobs(registry, workerOptions, recorder, () => {});
      const giveUp = (/** @type {string} */ why) => {
        jobs.isOver = true;
        jobs.cancelAll("lost", 0);
        reject(new Error(`the handler of ${type} has not ended ${why}`));
      };
      const patience = options.giveUpAfterMs ?? GIVE_UP_AFTER;
      const hangs = setTimeout(giveUp, patience, `within ${patience} ms; see where it hangs, or give it longer: giveUpAfterMs`);
      timers.push(hangs);
      const cancel = (/** @type {string} */ reason) => {
        clearTimeout(hangs);
        const grace = options.graceMs ?? (reason === "shutdown" ? SHUTDOWN_GRACE : GRACE);
        jobs.cancel(id, reason, grace);
        after(grace, () => giveUp(`${grace} ms after its cancel (${reason}); ojs-init would end its process`));
      };
      jobs.take(frame);
      if (options.timeoutMs !== undefined) after(options.timeoutMs, () => cancel("timeout"));
      const { stopping, cancel: reason } = options;
      const stoppingMs = options.stoppingMs ?? (stopping === undefined ? undefined : stopping * 1000);
      if (stoppingMs !== undefined) {
        at(options.stoppingAfterMs, after, () => {
          jobs.terminate(stoppingMs);
          after(stoppingMs, () => cancel("shutdown"));
        });
      }
      if (reason !== undefined) at(options.cancelAfterMs, after, () => cancel(reason));
    });
  } finally {
    timers.forEach(clearTimeout);
  }
}

/** @param {number | undefined} ms @param {(ms: number, what: () => void) => void} after @param {() => void} what */
function at(ms, after, what) {
  if (ms === undefined || ms <= 0) what();
  else after(ms, what);
}

/** The frame as it would be read: what JSON cannot carry is an error here and not in production. @param {string} type @param {any[]} args @param {PerformOptions} options */
function frameOf(type, args, options) {
  const job = {
    id: options.id ?? `perform-${++count}`,
    type,
    queue: options.queue ?? "default",
    attempt: options.attempt ?? 1,
    args,
    meta: options.meta,
    timeout_ms: options.timeoutMs,
  };
  const { json, problem } = checkedJson({ type: "job", job, checkpoint: options.checkpoint }, true);
  if (json === undefined) throw new TypeError(`worker.perform(): what the job is made of ${problem}`);
  return parseJson(json);
}

/** Takes the frames that ojs-init would get. */
class Recorder {
  /** @type {any[]} */
  #checkpoints = [];
  /** @type {any[]} */
  #progress = [];
  #done;

  /** @param {(outcome: Outcome) => void} done */
  constructor(done) {
    this.#done = done;
  }

  /** @param {object} _job @param {string} kind @param {string} line */
  async offer(_job, kind, line) {
    const { type: _type, job_id: _id, ...frame } = parseJson(line);
    if (kind === "checkpoint") this.#checkpoints.push(frame.state);
    if (kind === "progress") this.#progress.push(frame);
    return true;
  }

  settle() {}

  /** @param {string} line the answer */
  write(line) {
    const { type, result = null, error = null, reason = null } = parseJson(line);
    this.#done({ outcome: type, result, error, reason, checkpoints: this.#checkpoints, progress: this.#progress });
  }
}

module.exports = { perform };
