// The names of the OJS SDK for JavaScript, so that its handlers run under ojs-init as they are.
"use strict";

const { Events, MiddlewareChain, eventOf } = require("./compat-parts.cjs");
const { Release, asFailure } = require("./errors.cjs");
const { say } = require("./log.cjs");
const { around } = require("./registry.cjs");
const { Worker } = require("./worker.cjs");

/** Milliseconds that a program has for what it does behind its `stop`. */
const AFTER_STOP = 100;

/** What the SDK's worker knows, and ojs-init does in its place. */
const OF_OJS_INIT = {
  url: "OJS_URL",
  queues: "OJS_QUEUES",
  pollInterval: "OJS_POLL_INTERVAL",
  heartbeatInterval: "OJS_HEARTBEAT_INTERVAL",
  shutdownTimeout: "OJS_SHUTDOWN_GRACE_PERIOD",
  visibilityTimeout: "OJS_VISIBILITY_TIMEOUT",
  auth: "OJS_AUTH_TOKEN",
  headers: "OJS_INIT_HEADERS",
  transport: "ojs-init",
  labels: "OJS_LABELS",
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

/** @typedef {"running" | "quiet" | "terminate" | "terminated"} WorkerState */

/** A worker with the SDK's names. */
class OJSWorker {
  #worker;
  #concurrency;
  #startedAt = 0;
  #active = 0;
  #completed = 0;
  #isStopped = false;
  #isStopAsked = false;
  /** @type {Promise<void> | undefined} while it works; resolves at its end */
  #over;
  /** @type {MiddlewareChain<ExecutionMiddleware>} */
  #middleware = new MiddlewareChain();
  /** @readonly tells of `worker.started`, `job.completed`, `job.failed`, `worker.stopped` */
  events = new Events();
  /** @type {WeakMap<import("./job.cjs").Job, JobContext>} */
  #contexts = new WeakMap();
  /** @readonly */
  workerId = `worker_${process.pid}`;

  /** @param {Record<string, any>} [config] the SDK's; `concurrency` counts, and ojs-init has its own settings for the rest */
  constructor(config = {}) {
    const { concurrency, ...others } = config;
    for (const [name] of Object.entries(others)) {
      const known = Object.hasOwn(OF_OJS_INIT, name) ? OF_OJS_INIT[/** @type {keyof typeof OF_OJS_INIT} */ (name)] : undefined;
      if (known !== undefined) say(`OJSWorker: the option ${name} does nothing here; see ${known}`, "info");
      else say(`OJSWorker: ${name}: no such option; there are concurrency, ${Object.keys(OF_OJS_INIT).join(", ")}`, "warn");
    }
    this.#concurrency = concurrency;
    this.#worker = new Worker({ concurrency }).use((job, next) => this.#process(job, next));
  }

  /** @returns {WorkerState} as the SDK has it: "terminated" before the start and after the end */
  get currentState() {
    return this.#over === undefined || this.#isStopped ? "terminated" : /** @type {WorkerState} */ (this.#worker.state);
  }

  /** How many jobs are worked on. */
  get activeJobCount() {
    return this.#active;
  }

  /** The middleware by name; what is changed counts from the next job on. */
  get middleware() {
    return this.#middleware;
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
    const name = typeof nameOrFunction === "function" ? `middleware_${this.#middleware.length}` : nameOrFunction;
    this.#middleware.add(name, middleware);
    return this;
  }

  /**
   * Begins to work, and resolves. When ojs-init says that it is enough, the process ends.
   * @param {import("./processes.cjs").RunOptions} [options]
   * @returns {Promise<void>}
   */
  async start(options) {
    if (this.#over !== undefined) throw new Error("OJSWorker.start(): it was started already; a worker runs once");
    this.#startedAt = Date.now();
    const status = this.#worker.run(options);
    this.#over = status.then((code) => this.#ended(code));
    const data = { worker_id: this.workerId, queues: [], concurrency: this.#concurrency ?? null };
    await this.events.emit(eventOf("worker.started", this.workerId, data));
  }

  /** @param {number} status */
  async #ended(status) {
    const isAsked = this.#isStopAsked;
    this.#isStopped = true;
    const data = { worker_id: this.workerId, reason: "graceful_shutdown", jobs_completed: this.#completed, uptime_ms: Date.now() - this.#startedAt };
    await this.events.emit(eventOf("worker.stopped", this.workerId, data));
    if (!isAsked || status !== 0) process.exit(status);
    // The program has asked for it, and goes on behind its `stop`; but a pool that it forgets must not keep the process.
    process.exitCode = status;
    setTimeout(() => process.exit(status), AFTER_STOP).unref();
  }

  /** Takes no more jobs, and resolves when those that are held are finished. @returns {Promise<void>} */
  async stop() {
    this.#isStopAsked = true;
    this.#worker.stop();
    await this.#over;
  }

  /** All middleware, the handler, and what the events tell of them. @param {import("./job.cjs").Job} job @param {() => Promise<unknown>} next */
  async #process(job, next) {
    const context = this.#contextOf(job);
    const layers = this.#middleware.entries().map(({ fn }) => (/** @type {any} */ _job, /** @type {any} */ inner) => fn(context, inner));
    const data = { job_type: job.type, queue: job.queue, attempt: context.attempt };
    const began = performance.now();
    this.#active++;
    try {
      const result = await around(layers, next)(job);
      this.#completed++;
      this.#tell("job.completed", job, { ...data, duration_ms: performance.now() - began, result });
      return result;
    } catch (error) {
      if (!(error instanceof Release)) this.#tell("job.failed", job, { ...data, error: failureOf(error) });
      throw error;
    } finally {
      this.#active--;
    }
  }

  /** @param {string} type @param {import("./job.cjs").Job} job @param {Record<string, any>} data */
  #tell(type, job, data) {
    void this.events.emit(eventOf(type, this.workerId, data, job.id));
  }

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

/** @param {unknown} thrown anything, even what throws when it is looked at */
function failureOf(thrown) {
  try {
    return asFailure(thrown);
  } catch {
    return { message: "the handler threw something that cannot be read", code: "handler_error", retryable: true };
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

/** Starts the program's one worker. @param {import("./processes.cjs").RunOptions} [options] @returns {Promise<void>} */
function start(options) {
  return theWorker().start(options);
}

module.exports = { OJSWorker, handler: register, middleware, register, start };
