// The jobs that a worker holds: from the frame that brings one to the one answer. Worker and perform both use it.
"use strict";

const { Discard, JobError, Release, asFailure, className, isInOwnWords, isMeant, isOfEnd } = require("./errors.cjs");
const { failLine, fits, frameWith, releaseLine } = require("./frames.cjs");
const { Job } = require("./job.cjs");
const { onOneLine, say, showStack, withJob } = require("./log.cjs");

const DEFAULT_MAX_FRAME = 4 * 1024 * 1024;

/**
 * Where frames go.
 * @typedef {object} Out
 * @property {(line: string) => void} write
 * @property {(job: object, kind: import("./lines.cjs").ReportKind, line: string) => Promise<boolean>} offer
 * @property {(job: object) => void} settle
 */

/** @typedef {import("./log.cjs").Severity} Severity */

/** The jobs of one connection. */
class Jobs {
  /** @type {Map<string, Job>} */
  #held = new Map();
  #registry;
  #options;
  #out;
  #answered;
  /** @type {import("./job.cjs").JobPort} */
  #port;
  #isTerminating = false;
  #terminateAt = Infinity;
  /** Bytes of a frame. */
  maxFrame = DEFAULT_MAX_FRAME;
  /** SIGTERM came: what comes now is given back. */
  isStopping = false;
  /** Nobody takes answers any more. */
  isOver = false;

  /**
   * @param {import("./registry.cjs").Registry} registry
   * @param {import("./registry.cjs").WorkerOptions} options
   * @param {Out} out
   * @param {() => void} answered called after each answer
   */
  constructor(registry, options, out, answered) {
    this.#registry = registry;
    this.#options = options;
    this.#out = out;
    this.#answered = answered;
    this.#port = {
      offer: (job, kind, line) => this.#out.offer(job, kind, line),
      maxFrame: () => this.maxFrame,
      terminateAt: () => this.#terminateAt,
      isTerminating: () => this.#isTerminating || this.isStopping,
      log: (text) => this.log(text, "warn"),
    };
  }

  /** How many are held. */
  get count() {
    return this.#held.size;
  }

  /** @param {string} text @param {Severity} severity @param {unknown} [error] */
  log(text, severity, error) {
    const { log } = this.#options;
    const line = onOneLine(text);
    // A logger that fails must not cost a job its answer, nor the process its other jobs.
    if (!log) return guarded(() => say(line, severity, error), () => {});
    guarded(() => log(line, severity), (name) => guarded(() => say(`${line} (log itself failed: ${name})`, severity), () => {}));
  }

  /** @param {Record<string, any>} frame */
  take(frame) {
    const id = frame.job?.id;
    if (typeof id !== "string" || this.#held.has(id)) {
      return this.log("ignored a job without an id, or one that is held already. That is a bug in ojs-init.", "error");
    }
    const job = this.#read(id, frame);
    if (job === undefined) return;
    this.#held.set(id, job);
    if (this.isStopping) return this.#answer(job, releaseLine(id, "shutdown", this.maxFrame), false);
    withJob(job, () => void this.#work(job));
  }

  /**
   * A job that cannot be read fails: an error that ended the process would end the others, too.
   * @param {string} id @param {Record<string, any>} frame
   */
  #read(id, frame) {
    try {
      return new Job(frame.job, frame.checkpoint, this.#port);
    } catch (error) {
      const message = `the job cannot be read by this library: ${nameOf(error)}`;
      this.log(`job ${id}: ${message}`, "error");
      const failure = { message, code: "handler_error", type: "UnreadableJob", retryable: true };
      this.#out.write(failLine(id, failure, this.maxFrame));
      this.#answered();
      return undefined;
    }
  }

  /** @param {unknown} id @param {unknown} reason @param {unknown} graceMs */
  cancel(id, reason, graceMs) {
    this.#held.get(/** @type {string} */ (id))?._cancel(String(reason), asMs(graceMs));
  }

  /** @param {string} reason @param {number} graceMs */
  cancelAll(reason, graceMs) {
    for (const job of this.#held.values()) job._cancel(reason, graceMs);
  }

  /**
   * It may also be about the answer to an earlier delivery of the same job. That must not stop this one, so only a
   * delivery that sent something that can be answered like this is meant.
   * @param {unknown} id
   */
  lost(id) {
    const job = this.#held.get(/** @type {string} */ (id));
    if (job?._reports) job._cancel("lost", 0);
  }

  /** The worker is being shut down. @param {unknown} remainingMs until what is left is cancelled */
  terminate(remainingMs) {
    this.#isTerminating = true;
    this.#terminateAt = performance.now() + asMs(remainingMs);
    for (const job of this.#held.values()) job._stop();
  }

  /**
   * The only place that runs a handler, and it answers once however the handler ends.
   * @param {Job} job
   */
  async #work(job) {
    const handler = this.#registry.find(job.type);
    if (!handler) return this.#answer(job, this.#noHandler(job), false);
    let line;
    let isDone = false;
    try {
      // The first part of the handler runs at once, so its listeners are there before a cancel can come.
      const result = await handler(job);
      // It may have caught what ended it between two rows, and then not all of them are done.
      if (job._ending !== undefined) throw job._ending;
      line = this.#doneLine(job, result);
      isDone = true;
    } catch (thrown) {
      line = this.#thrownLine(job, thrown);
    }
    this.#answer(job, line, isDone);
  }

  /** @param {Job} job @param {string} line @param {boolean} isDone */
  #answer(job, line, isDone) {
    if (this.#held.get(job.id) !== job) return;
    if (!this.isOver) job._settle(isDone);
    this.#held.delete(job.id); // Before writing: the same id may come right after.
    job._close();
    if (this.isOver) return;
    this.#out.settle(job);
    this.#out.write(line);
    this.#answered();
  }

  /** @param {Job} job @param {unknown} result @returns {string} the ack */
  #doneLine(job, result) {
    const frame = { type: "ack", job_id: job.id };
    const { line, problem, isTooLarge } = frameWith(frame, "result", result, this.maxFrame, true);
    if (problem === undefined) return line;
    if (isTooLarge) {
      // The work is done. A failure would do it again, with the same result.
      this.log(`job ${job.id} (${job.type}): done, but its result is dropped: it ${problem}`, "error");
      return line;
    }
    // A mistake in the handler, which the next attempt would make again.
    throw new Discard(`the handler's result is not JSON: it ${problem}`, { type: "InvalidResult" });
  }

  /** @param {Job} job */
  #noHandler(job) {
    const isNamed = typeof job.type === "string";
    const message = isNamed ? `this worker has no handler for the job type ${job.type}` : "the job has no type";
    this.log(`job ${job.id}: ${message}`, "error");
    return failLine(job.id, { message, code: "handler_not_found", retryable: true }, this.maxFrame);
  }

  /** @param {Job} job @param {unknown} thrown */
  #thrownLine(job, thrown) {
    try {
      const ending = job._ending;
      const end = ending === undefined || isMeant(thrown, ending) ? thrown : ending;
      if (end !== thrown) this.#noteIfOwn(job, thrown);
      if (end instanceof Release) return releaseLine(job.id, end.reason, this.maxFrame, end.afterMs);
      if (end instanceof JobError) return this.#meantLine(job, end);
      if (job.signal.aborted) return this.#gaveUpLine(job, end);
      return this.#unexpectedLine(job, end);
    } catch {
      // A thrown value can be anything, even a Proxy that throws when it is looked at.
      const message = "the handler threw something that cannot be read";
      return failLine(job.id, { message, code: "handler_error", retryable: true }, this.maxFrame);
    }
  }

  /** An error that does not decide about the job must not vanish: it may be a mistake. @param {Job} job @param {unknown} thrown */
  #noteIfOwn(job, thrown) {
    if (isOfEnd(thrown, [job._ending, job.signal.reason])) return;
    const text = `job ${job.id} (${job.type}): its handler threw ${nameOf(thrown)} after it was ended, which does not count`;
    this.#logWithStack(text, "warn", thrown);
  }

  /** @param {Job} job @param {JobError} error */
  #meantLine(job, error) {
    const failure = asFailure(error);
    if (!isInOwnWords(error)) {
      this.#tell(job, `job ${job.id} (${job.type}) failed: ${failure.type}: ${failure.message}`, error, failure.retryable);
    }
    return failLine(job.id, failure, this.maxFrame);
  }

  /** A `log` of the program's own takes text alone. @param {string} text @param {Severity} severity @param {unknown} error */
  #logWithStack(text, severity, error) {
    this.log(text, severity, error);
    if (this.#options.log) showStack(error);
  }

  /** The handler stopped because of the cancel and left the answer to us. @param {Job} job @param {unknown} thrown */
  #gaveUpLine(job, thrown) {
    this.#noteIfOwn(job, thrown);
    if (job.cancelReason !== "timeout") return releaseLine(job.id, job.cancelReason, this.maxFrame);
    const message = "the job was stopped after its timeout";
    const { backtrace } = asFailure(thrown);
    const failure = { message, code: "timeout", type: "Timeout", retryable: true, backtrace };
    return failLine(job.id, failure, this.maxFrame);
  }

  /** @param {Job} job @param {unknown} thrown */
  #unexpectedLine(job, thrown) {
    const failure = asFailure(thrown);
    const text = `job ${job.id} (${job.type}) failed: ${failure.type ?? "something thrown that is no Error"}`;
    this.#tell(job, text, thrown, failure.retryable);
    return failLine(job.id, failure, this.maxFrame);
  }

  /**
   * Of a failure that the handler did not mean `onError` is told, or the log has its stack.
   * @param {Job} job
   * @param {string} text
   * @param {unknown} thrown
   * @param {boolean} isRetryable
   */
  #tell(job, text, thrown, isRetryable) {
    const { onError } = this.#options;
    const severity = isRetryable && hasMoreAttempts(job) ? "warn" : "error";
    if (!onError) return this.#logWithStack(text, severity, thrown);
    this.log(text, severity);
    const complain = (/** @type {string} */ name) => this.log(`onError threw an error itself: ${name}`, "error");
    guarded(() => onError(thrown, job), complain);
  }
}

/** Whether the backend tries the job again; false if that is unknown. @param {Job} job @returns {boolean} */
function hasMoreAttempts(job) {
  const most = job.envelope.max_attempts;
  return job.attempt !== undefined && Number.isSafeInteger(most) && job.attempt < most;
}

/**
 * Calls what the program gave, which may fail, and which may be async: its rejection would end the process.
 * @param {() => unknown} call
 * @param {(name: string) => void} complain
 */
function guarded(call, complain) {
  try {
    const returned = call();
    if (returned !== undefined) Promise.resolve(returned).catch((error) => complain(nameOf(error)));
  } catch (error) {
    complain(nameOf(error));
  }
}

/** The class of whatever was thrown. @param {unknown} error */
function nameOf(error) {
  try {
    return className(error);
  } catch {
    return "something that is no error";
  }
}

/** A duration of the protocol; without one there is no limit. @param {unknown} value */
function asMs(value) {
  return typeof value === "number" ? value : Infinity;
}

module.exports = { Jobs, asMs, fits };
