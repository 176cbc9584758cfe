// The names of the OJS SDK for JavaScript, so that its handlers run under ojs-init as they are.
"use strict";

const { say } = require("./log.cjs");
const { Worker } = require("./worker.cjs");

/** What the SDK's worker knows, and ojs-init does in its place. */
const OF_OJS_INIT = {
  url: "OJS_URL",
  queues: "OJS_QUEUES",
  pollInterval: "OJS_POLL_INTERVAL",
  heartbeatInterval: "the backend",
  shutdownTimeout: "OJS_SHUTDOWN_GRACE_PERIOD",
  visibilityTimeout: "OJS_VISIBILITY_TIMEOUT",
  auth: "the configuration of ojs-init",
  headers: "the configuration of ojs-init",
  transport: "ojs-init",
  labels: "the configuration of ojs-init",
};

/**
 * What an SDK handler gets. `ctx.ojs` is ours: the job with `checkpoint`, `step`, `iterate` and the rest.
 * @typedef {object} JobContext
 * @property {Record<string, any>} job the envelope
 * @property {number} attempt
 * @property {string} queue
 * @property {string} workerId of this process; ojs-init has the backend's
 * @property {string} [workflowId]
 * @property {Record<string, any>} [parentResults]
 * @property {Map<string, any>} metadata of this execution alone
 * @property {AbortSignal} signal aborted when the job is to stop
 * @property {import("./job.cjs").Job} ojs
 */

/** @typedef {(ctx: JobContext) => unknown} JobHandler */
/** @typedef {(ctx: JobContext, next: () => Promise<unknown>) => unknown} ExecutionMiddleware */

/** A worker with the SDK's names. */
class OJSWorker {
  #worker;
  /** @type {WeakMap<import("./job.cjs").Job, JobContext>} */
  #contexts = new WeakMap();
  /** @readonly */
  workerId = `worker_${process.pid}`;

  /** @param {Record<string, any>} [config] the SDK's; `concurrency` counts, and ojs-init has its own settings for the rest */
  constructor(config = {}) {
    const { concurrency, ...others } = config;
    const unknown = Object.keys(others).filter((name) => !Object.hasOwn(OF_OJS_INIT, name));
    if (unknown.length > 0) {
      throw new TypeError(`${unknown.join(", ")}: no such option; there are concurrency, ${Object.keys(OF_OJS_INIT).join(", ")} (OJSWorker)`);
    }
    for (const name of /** @type {(keyof typeof OF_OJS_INIT)[]} */ (Object.keys(others))) {
      say(`OJSWorker: the option ${name} does nothing here; see ${OF_OJS_INIT[name]}`, "info");
    }
    this.#worker = new Worker({ concurrency });
  }

  /** @param {string} type @param {JobHandler} handler @returns {this} */
  register(type, handler) {
    if (typeof handler !== "function") throw new TypeError(`register: the handler of ${JSON.stringify(type)} is not a function`);
    this.#worker.job(type, (job) => handler(this.#contextOf(job)));
    return this;
  }

  /**
   * @param {string | ExecutionMiddleware} nameOrFunction
   * @param {ExecutionMiddleware} [named]
   * @returns {this}
   */
  use(nameOrFunction, named) {
    const middleware = typeof nameOrFunction === "function" ? nameOrFunction : named;
    if (typeof middleware !== "function") throw new TypeError("use: give a function of (ctx, next), or a name and one");
    this.#worker.use((job, next) => middleware(this.#contextOf(job), next));
    return this;
  }

  /**
   * Works until ojs-init says that it is enough, then ends the process.
   * @param {import("./processes.cjs").RunOptions} [options]
   * @returns {Promise<never>}
   */
  start(options) {
    return this.#worker.start(options);
  }

  /** For programs that call it at a signal: ojs-init ends the worker, and this does nothing. @returns {Promise<void>} */
  async stop() {}

  /**
   * As {@link Worker.perform}.
   * @param {string} type
   * @param {any[]} [args]
   * @param {import("./perform.cjs").PerformOptions} [options]
   * @returns {Promise<import("./perform.cjs").Outcome>}
   */
  perform(type, args, options) {
    return this.#worker.perform(type, args, options);
  }

  /** One for all middleware of a job, and its handler. @param {import("./job.cjs").Job} job */
  #contextOf(job) {
    const known = this.#contexts.get(job);
    if (known) return known;
    /** @type {JobContext} */
    const context = {
      job: job.envelope,
      attempt: job.attempt ?? 1,
      queue: job.queue,
      workerId: this.workerId,
      workflowId: job.envelope.workflow_id,
      parentResults: job.envelope.parent_results,
      metadata: new Map(),
      signal: job.signal,
      ojs: job,
    };
    this.#contexts.set(job, context);
    return context;
  }
}

/** @type {OJSWorker | undefined} the one behind the functions below, made when it is needed */
let only;

function theWorker() {
  return (only ??= new OJSWorker());
}

/** Registers a handler with the program's one worker. @param {string} type @param {JobHandler} fn */
function register(type, fn) {
  theWorker().register(type, fn);
}

/** Adds middleware to the program's one worker. @param {ExecutionMiddleware} fn */
function middleware(fn) {
  theWorker().use(fn);
}

/** Runs the program's one worker, and ends the process. @param {import("./processes.cjs").RunOptions} [options] @returns {Promise<never>} */
function start(options) {
  return theWorker().start(options);
}

module.exports = { OJSWorker, handler: register, middleware, register, start };
