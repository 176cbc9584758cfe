// Handlers by job type, and the middleware around them.
"use strict";

const { Args } = require("./args.cjs");
const { checkNames } = require("./options.cjs");

const MAX_NAME_BYTES = 1024;

/** @typedef {import("./job.cjs").Job} Job */
/** @typedef {(job: Job) => any} Run runs a handler: gives the result, or a promise of it */
/** @typedef {(job: Job, next: () => Promise<any>) => any} Middleware */

class Registry {
  /** @type {Map<string, Run>} */
  #handlers = new Map();
  /** @type {Middleware[]} */
  #middleware = [];

  /**
   * @param {string | string[]} types
   * @param {{ args?: unknown }} options
   * @param {any} handler
   */
  add(types, options, handler) {
    const names = Array.isArray(types) ? types : [types];
    if (names.length === 0) throw new TypeError("worker.job(): there is no job type in the array");
    for (const type of names) {
      checkType(type);
      checkNames(`worker.job(${JSON.stringify(type)})`, options, ["args"]);
      if (typeof handler !== "function") throw new TypeError(`the handler of ${JSON.stringify(type)} is not a function`);
      if (this.#handlers.has(type)) throw new TypeError(`${JSON.stringify(type)} has a handler already`);
      this.#handlers.set(type, options.args === undefined ? plain(type, handler) : typed(type, options.args, handler));
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

  /** @param {unknown} type @returns {Run | undefined} the handler inside of its middleware */
  find(type) {
    if (typeof type !== "string") return undefined; // Not even that of "*", which relies on a type.
    const handler = this.#handlers.get(type) ?? this.#handlers.get("*");
    return handler && this.#middleware.reduceRight(inside, handler);
  }
}

/** @param {Run} inner @param {Middleware} middleware @returns {Run} */
function inside(inner, middleware) {
  return (job) => middleware(job, async () => inner(job));
}

/** @param {unknown} type */
function checkType(type) {
  const bytes = typeof type === "string" ? Buffer.byteLength(type) : 0;
  if (bytes >= 1 && bytes <= MAX_NAME_BYTES) return;
  throw new TypeError(`worker.job(): a job type is a string of 1 to ${MAX_NAME_BYTES} bytes: worker.job("email.send", send)`);
}

/** @param {string} type @param {Run} handler @returns {Run} */
function plain(type, handler) {
  if (handler.length <= 1) return handler;
  const name = JSON.stringify(type);
  throw new TypeError(
    `the handler of ${name} has ${handler.length} parameters, and gets the job alone. Write (job) => ..., or declare ` +
      `the arguments: worker.job(${name}, { args: [String, "integer"] }, (to, count, job) => ...)`,
  );
}

/** @param {string} type @param {unknown} specs @param {(...args: any[]) => any} handler @returns {Run} */
function typed(type, specs, handler) {
  const args = new Args(`worker.job(${JSON.stringify(type)})`, specs);
  if (handler.length > args.length + 1) {
    const names = [...Array.from({ length: args.length }, (_, at) => `arg${at}`), "job"].join(", ");
    const what = `the handler of ${JSON.stringify(type)} has ${handler.length} parameters for ${args.length} arguments`;
    throw new TypeError(`${what} and the job: write (${names}) => ...`);
  }
  return (job) => {
    const values = args.read(job.args);
    return values instanceof Promise ? values.then((ready) => handler(...ready, job)) : handler(...values, job);
  };
}

module.exports = { Registry };
