// Handlers by job type, and the middleware around them.
"use strict";

const { Args } = require("./args.cjs");
const { checkNames } = require("./options.cjs");

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
    for (const type of Array.isArray(types) ? types : [types]) {
      if (typeof type !== "string" || type === "" || typeof handler !== "function") {
        throw new TypeError('worker.job(): give a job type, or several, and a function: worker.job("email.send", send)');
      }
      checkNames(`worker.job("${type}")`, options, ["args"]);
      if (this.#handlers.has(type)) throw new TypeError(`"${type}" has a handler already`);
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

/** @param {string} type @param {Run} handler @returns {Run} */
function plain(type, handler) {
  if (handler.length <= 1) return handler;
  const declared = `worker.job("${type}", { args: [String, "integer"] }, (to, count, job) => ...)`;
  const what = `the handler of "${type}" has ${handler.length} parameters, and gets the job alone`;
  throw new TypeError(`${what}. Write (job) => ..., or declare the arguments: ${declared}`);
}

/**
 * @param {string} type
 * @param {unknown} specs
 * @param {(...args: any[]) => any} handler
 * @returns {Run}
 */
function typed(type, specs, handler) {
  const args = new Args(`worker.job("${type}")`, specs);
  if (handler.length > args.kinds.length + 1) {
    const names = [...args.kinds.map((_, at) => `arg${at}`), "job"].join(", ");
    const what = `the handler of "${type}" has ${handler.length} parameters for ${args.kinds.length} arguments`;
    throw new TypeError(`${what} and the job: write (${names}) => ...`);
  }
  return (job) => {
    const values = args.read(job.args);
    return values instanceof Promise ? values.then((ready) => handler(...ready, job)) : handler(...values, job);
  };
}

module.exports = { Registry };
