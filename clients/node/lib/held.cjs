// The jobs that a connection holds, from the frame that brings a job to the one answer.
"use strict";

const { Job } = require("./job.cjs");
const { withJob } = require("./log.cjs");
const { completed, ended, withoutHandler } = require("./outcome.cjs");

/**
 * Where frames go: a `Link`, or the recorder of `perform`.
 * @typedef {Pick<import("./link.cjs").Link, "write" | "report" | "settle">} Out
 */

/**
 * @typedef {object} Services
 * @property {import("./registry.cjs").Registry} registry
 * @property {import("./log.cjs").Log} log
 * @property {(event: "completed" | "failed", job: Job, value: unknown) => void} emit
 */

class HeldJobs {
  /** @type {Map<string, Job>} */
  jobs = new Map();
  #services;
  #answered;
  #isOver = false;
  isTerminating = false;
  /** The longest frame that ojs-init takes, in bytes without the line break. */
  maxFrame = Infinity;
  /** When a shutdown cancels the jobs that are left; Infinity if unknown. */
  terminateAt = Infinity;

  /**
   * @param {Services} services
   * @param {Out} out
   * @param {() => void} answered called whenever a handler has ended
   */
  constructor(services, out, answered) {
    this.#services = services;
    this.log = services.log;
    this.out = out;
    this.#answered = answered;
  }

  /** @param {Record<string, any>} frame */
  take(frame) {
    const id = frame.job?.id;
    if (typeof id !== "string" || this.jobs.has(id)) {
      return this.log("ignored a job without an id, or one that is held already: a bug in ojs-init", "error");
    }
    const job = new Job(frame.job, frame.checkpoint, this, frame.traceparent);
    this.jobs.set(id, job);
    withJob(job, () => void this.#work(job));
  }

  /** @param {any} id @param {unknown} reason @param {unknown} graceMs */
  cancel(id, reason, graceMs) {
    this.jobs.get(id)?._cancel(String(reason), asMs(graceMs));
  }

  /**
   * The worker is being shut down.
   * @param {unknown} [remainingMs] until the jobs that are left are cancelled
   */
  terminate(remainingMs) {
    this.isTerminating = true;
    this.terminateAt = Math.min(this.terminateAt, performance.now() + asMs(remainingMs));
    for (const job of this.jobs.values()) job._stop();
  }

  /** Nobody takes answers any more. */
  abandon() {
    this.#isOver = true;
    for (const job of this.jobs.values()) job._cancel("lost", 0);
  }

  /**
   * The only place that runs a handler. It answers once however the handler ends.
   * @param {Job} job
   */
  async #work(job) {
    const run = this.#services.registry.find(job.type);
    if (run === undefined) return this.#answer(job, withoutHandler(job));
    let outcome;
    try {
      // The first part of the handler runs at once, so its listeners are there before a cancel can
      // come.
      outcome = completed(job, await run(job));
    } catch (thrown) {
      outcome = ended(job, thrown);
    }
    this.#answer(job, outcome);
  }

  /** @param {Job} job @param {import("./outcome.cjs").Outcome} outcome */
  #answer(job, outcome) {
    if (!this.#isOver) job._close("result" in outcome);
    this.jobs.delete(job.id); // Before the answer: the same id may come again right after it.
    if (!this.#isOver) this.#send(job, outcome);
    this.#answered();
  }

  /** @param {Job} job @param {import("./outcome.cjs").Outcome} outcome */
  #send(job, outcome) {
    this.out.settle(job);
    this.out.write(outcome.line);
    if (outcome.log !== undefined) this.log(...outcome.log);
    if ("result" in outcome) this.#services.emit("completed", job, outcome.result);
    if ("failure" in outcome) this.#services.emit("failed", job, outcome.failure);
  }
}

/** A duration of the protocol; without one there is no limit. @param {unknown} value */
const asMs = (value) => (typeof value === "number" ? value : Infinity);

module.exports = { HeldJobs };
