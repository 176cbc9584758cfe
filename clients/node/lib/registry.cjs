// What a program gives to a worker: options, handlers by type, middleware.
"use strict";

const { checkNames } = require("./errors.cjs");

const MAX_TYPES = 10_000;
const MAX_CONCURRENCY = 10_000;
const MAX_NAME_BYTES = 1024;

/** Every option there is; any other is a misspelt one. */
const OPTIONS = ["handlers", "middleware", "concurrency", "ping", "client", "onError", "log", "socketPath"];

/**
 * @callback Handler
 * @param {import("./job.cjs").Job} job
 * @returns {unknown} the result, or a promise of it; undefined is none
 */

/**
 * @callback Middleware
 * @param {import("./job.cjs").Job} job
 * @param {() => Promise<unknown>} next runs what is inside: the next middleware, at last the handler
 * @returns {unknown} the result of the job, or a promise of it
 */

/**
 * @typedef {object} WorkerOptions
 * @property {Record<string, Handler>} [handlers] by job type; "*" is for every other type
 * @property {Middleware[]} [middleware] around each handler, outermost first
 * @property {number} [concurrency] most jobs at once (default: as many as ojs-init allows, OJS_CONCURRENCY); of all
 *   processes together
 * @property {boolean} [ping] whether ojs-init shall also check on this process while it works; only for handlers that
 *   never block the event loop for 10 s (default false)
 * @property {string} [client] name and version for the log of ojs-init
 * @property {(error: unknown, job: import("./job.cjs").Job) => void} [onError] called with each error that a handler did not
 *   mean (default: its stack goes to standard error)
 * @property {(text: string, severity: import("./log.cjs").Severity) => void} [log] for one line (default: standard error)
 * @property {string} [socketPath] instead of $OJS_SOCKET, for tests
 */

/** Handlers and what is around them. */
class Registry {
  /** @type {Map<string, Handler>} */
  #handlers = new Map();
  /** @type {Middleware[]} */
  #middleware = [];

  /** @param {string | string[]} types @param {Handler} handler */
  add(types, handler) {
    const names = typeof types === "string" ? [types] : types;
    if (!Array.isArray(names) || names.length === 0) {
      throw new TypeError('worker.job(): give a job type, or several, and a function: worker.job("email.send", send)');
    }
    for (const type of names) {
      checkHandler(type, handler);
      if (this.#handlers.has(type)) throw new TypeError(`handlers: there is one for ${JSON.stringify(type)} already`);
      if (this.#handlers.size >= MAX_TYPES) throw new TypeError(`handlers: more than ${MAX_TYPES} job types`);
      this.#handlers.set(type, handler);
    }
  }

  /** @param {Middleware} middleware */
  use(middleware) {
    if (typeof middleware !== "function") {
      throw new TypeError("middleware: give a function of (job, next): worker.use(async (job, next) => next())");
    }
    this.#middleware.push(middleware);
  }

  get isEmpty() {
    return this.#handlers.size === 0;
  }

  /** @returns {string[] | undefined} for `ready`; undefined: every type */
  get types() {
    return this.#handlers.has("*") ? undefined : [...this.#handlers.keys()];
  }

  /** @param {unknown} type @returns {Handler | undefined} the handler with all that is around it */
  find(type) {
    if (typeof type !== "string") return undefined; // Not even that of "*": it relies on a type.
    const handler = this.#handlers.get(type) ?? this.#handlers.get("*");
    return handler && around(this.#middleware, handler);
  }
}

/**
 * @param {Middleware[]} middleware outermost first
 * @param {Handler} handler
 * @returns {Handler}
 */
function around(middleware, handler) {
  if (middleware.length === 0) return handler;
  return (job) => call(0, job);

  /** @param {number} at @param {import("./job.cjs").Job} job @returns {unknown} */
  function call(at, job) {
    if (at === middleware.length) return handler(job);
    let isTaken = false;
    /** @type {(() => void) | undefined} */
    let rewind;
    const next = async () => {
      if (isTaken) throw new Error("middleware: next() was called again although the handler did not fail");
      isTaken = true;
      if (rewind === undefined) rewind = job._mark();
      else rewind(); // Its steps and loops come once more.
      try {
        return await call(at + 1, job);
      } catch (error) {
        isTaken = false; // So that a middleware can try again.
        throw error;
      }
    };
    return middleware[at](job, next);
  }
}

/** @param {WorkerOptions | undefined} options */
function checkOptions(options) {
  checkNames("Worker", options, OPTIONS);
  const { handlers, middleware = [], concurrency = 1 } = options ?? {};
  const count = handlers === undefined ? 1 : Object.keys(handlers ?? {}).length;
  if (count === 0 || count > MAX_TYPES || (handlers !== undefined && typeof handlers !== "object")) {
    throw new TypeError(`handlers: give an object with 1 to ${MAX_TYPES} functions, by job type`);
  }
  if (!Array.isArray(middleware)) throw new TypeError("middleware: give an array of functions, outermost first");
  if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > MAX_CONCURRENCY) {
    throw new RangeError(`concurrency: give an integer from 1 to ${MAX_CONCURRENCY}`);
  }
}

/** @param {unknown} type @param {unknown} handler */
function checkHandler(type, handler) {
  if (typeof type !== "string") throw new TypeError(`handlers: a job type is a string, not a ${typeof type}`);
  if (typeof handler !== "function") throw new TypeError(`handlers: that of ${JSON.stringify(type)} is not a function`);
  if (handler.length > 1) {
    const what = `handlers: that of ${JSON.stringify(type)} has ${handler.length} parameters, and gets the job alone`;
    throw new TypeError(`${what}: write (job) => ...; the job's arguments are in job.args`);
  }
  const bytes = Buffer.byteLength(type);
  if (bytes < 1 || bytes > MAX_NAME_BYTES) {
    throw new RangeError(`handlers: a job type has 1 to ${MAX_NAME_BYTES} bytes, one of yours has ${bytes}`);
  }
}

module.exports = { Registry, around, checkOptions };
