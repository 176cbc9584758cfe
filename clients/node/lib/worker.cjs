// The program's side: handlers, middleware, events, run.
"use strict";

const { EventEmitter } = require("node:events");
const { Client } = require("./client.cjs");
const { guarded, libraryLog } = require("./log.cjs");
const { checkNames } = require("./options.cjs");
const { perform } = require("./perform.cjs");
const { Registry } = require("./registry.cjs");
const { Session } = require("./session.cjs");
const { className } = require("./stack.cjs");

/** The version of this package; a test holds it to package.json's. */
const VERSION = "0.1.0";
const OPTIONS = ["handlers", "middleware", "concurrency", "ping", "client", "log", "socketPath"];

/**
 * @typedef {object} WorkerOptions
 * @property {Record<string, (job: import("./job.cjs").Job) => any>} [handlers] by job type; "*" is
 *   for every other type
 * @property {import("./registry.cjs").Middleware[]} [middleware] around each handler, outermost
 *   first
 * @property {number} [concurrency] most jobs at once (default: as many as ojs-init allows,
 *   OJS_CONCURRENCY)
 * @property {boolean} [ping] whether ojs-init also checks on this process while it works; only for
 *   handlers that never block the event loop for 10 s (default false)
 * @property {string} [client] name and version for the log of ojs-init
 * @property {import("./log.cjs").Log} [log] takes a line of this library's own log (default:
 *   standard error)
 * @property {string} [socketPath] instead of $OJS_SOCKET, for tests
 */

/** Handlers, and the connection that brings their jobs: one for each process. */
class Worker extends EventEmitter {
  #registry = new Registry();
  #services;
  #session;
  #isRun = false;
  /** @type {Client | undefined} */
  #client;

  /** @param {WorkerOptions} [options] */
  constructor(options = {}) {
    super();
    checkNames("Worker", options, OPTIONS);
    const { concurrency = 1, handlers = {}, middleware = [] } = options;
    if (!Number.isInteger(concurrency) || concurrency < 1) throw new RangeError("concurrency: give an integer from 1 on");
    this.#services = { registry: this.#registry, log: libraryLog(options.log), emit: this.#emitSafely.bind(this) };
    this.#session = new Session(this.#services, { client: `ojs-node ${VERSION}`, ...options });
    for (const [type, handler] of Object.entries(handlers)) this.job(type, handler);
    for (const each of middleware) this.use(each);
  }

  /**
   * Registers a handler: `job(type, (job) => ...)`, or with its arguments one by one and the job
   * behind them: `job(type, { args: [String, "integer"] }, (to, count, job) => ...)`.
   * @param {string | string[]} types a job type, or several; "*" is for every type without a
   *   handler of its own
   * @param {any} options
   * @param {any} [handler]
   * @returns {this}
   */
  job(types, options, handler) {
    this.#refuseAfterRun("job");
    const isPlain = typeof options === "function";
    this.#registry.add(types, isPlain ? {} : options, isPlain ? options : handler);
    return this;
  }

  /**
   * Puts a function around each handler; the first one is the outermost.
   * @param {import("./registry.cjs").Middleware} middleware
   * @returns {this}
   */
  use(middleware) {
    this.#refuseAfterRun("use");
    this.#registry.use(middleware);
    return this;
  }

  /** @param {string} name */
  #refuseAfterRun(name) {
    if (this.#isRun) throw new Error(`worker.${name}(): ojs-init knows the handlers already; register before run()`);
  }

  /**
   * A listener that fails must not cost a job its answer.
   * @param {string} event
   * @param {any} job
   * @param {unknown} value
   */
  #emitSafely(event, job, value) {
    for (const listener of this.rawListeners(event)) {
      const complain = (/** @type {unknown} */ error) =>
        this.#services.log(`a listener of "${event}" failed: ${className(error)}`, "error", error);
      guarded(() => listener.call(this, job, value), complain);
    }
  }

  /**
   * Enqueues a job at the backend in OJS_URL, with the token in OJS_ENQUEUE_TOKEN. See
   * {@link Client}.
   * @param {string} type
   * @param {any[]} [args]
   * @param {import("./client.cjs").EnqueueOptions} [options]
   */
  enqueue(type, args, options) {
    return (this.#client ??= new Client()).enqueue(type, args, options);
  }

  /**
   * Runs a handler in this process, as a job that ojs-init brought: for tests.
   * @param {string} type
   * @param {any[]} [args]
   * @param {import("./perform.cjs").PerformOptions} [options]
   * @returns {Promise<import("./perform.cjs").Outcome>}
   */
  perform(type, args = [], options = {}) {
    return perform(this.#services, type, args, options);
  }

  /**
   * Connects and works until the end. Exit with the status then, and soon: the connection stays
   * open until the process ends, because ojs-init takes a closed one for a broken worker.
   * @returns {Promise<number>} the exit status; it does not reject
   */
  run() {
    if (this.#isRun) throw new Error("run() was called already; a worker connects only once");
    if (this.#registry.isEmpty) throw new TypeError("there are no handlers: worker.job(type, handler) comes first");
    this.#isRun = true;
    return this.#session.run();
  }

  /** Works until the end, and ends the process. @returns {Promise<never>} */
  async start() {
    const status = await this.run();
    return process.exit(status); // Not exitCode: a handler that hangs must not keep the process.
  }

  /**
   * Takes no more jobs and finishes those that are held. Then `run` resolves, and `start` ends the
   * process.
   */
  stop() {
    this.#session.stop();
  }

  /** As ojs-init says: "running", "quiet" or "terminate". */
  get state() {
    return this.#session.state;
  }
}

/**
 * A worker and its start in one. Call it once in each process.
 * @param {WorkerOptions} options
 * @returns {Promise<never>}
 */
async function work(options) {
  return new Worker(options).start();
}

module.exports = { VERSION, Worker, work };
