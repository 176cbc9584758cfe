// Typed arguments of handlers.
"use strict";

const { InvalidArgs } = require("./errors.cjs");
const { isObject } = require("./options.cjs");

/**
 * What a value is checked with. The result is that of Standard Schema: `value`, or `issues`.
 * @typedef {{ value?: any, issues?: any }} Result
 * @typedef {{ expected: string, validate: (value: any) => Result | Promise<Result> }} Kind
 */

/** @param {string} expected @param {(value: any) => boolean} fits @returns {Kind} */
const kind = (expected, fits) => ({ expected, validate: (value) => (fits(value) ? { value } : { issues: [] }) });

const isInteger = (/** @type {any} */ value) => typeof value === "bigint" || Number.isSafeInteger(value);

/** @type {Map<unknown, Kind>} */
const KINDS = new Map([
  [/** @type {unknown} */ (String), kind("a string", (value) => typeof value === "string")],
  [Number, kind("a number", (value) => typeof value === "number")],
  [Boolean, kind("a boolean", (value) => typeof value === "boolean")],
  [Array, kind("an array", Array.isArray)],
  [Object, kind("an object", isObject)],
  ["integer", kind("an integer", Number.isSafeInteger)],
  ["any", kind("a value", (value) => value !== undefined)],
  [BigInt, { expected: "an integer", validate: (value) => (isInteger(value) ? { value: BigInt(value) } : { issues: [] }) }],
]);

const OPTIONAL = Symbol("optional");

/**
 * An argument that a job may leave out, or give as null: the handler gets undefined. No required
 * one stands behind it.
 * @param {unknown} spec as in `args`
 */
const optional = (spec) => ({ [OPTIONAL]: spec });

/**
 * @param {any} schema of zod, valibot and others: Standard Schema, `safeParse`, or `parse`
 * @returns {Kind | undefined} undefined if it is none
 */
function schemaKind(schema) {
  const expected = "what its schema accepts";
  const standard = schema?.["~standard"];
  if (typeof standard?.validate === "function") return { expected, validate: (value) => standard.validate(value) };
  if (typeof schema?.parse !== "function") return undefined;
  return { expected, validate: (value) => parseWith(schema, value) };
}

/** @param {any} schema @param {any} value @returns {Result} */
function parseWith(schema, value) {
  try {
    if (typeof schema.safeParse !== "function") return { value: schema.parse(value) };
    const { success, data, error } = schema.safeParse(value);
    return success ? { value: data } : { issues: error?.issues ?? [] };
  } catch {
    return { issues: [] }; // The message of the error may quote the value.
  }
}

/**
 * Where a schema does not fit; not the issue's message, which may quote the value.
 * @param {any} issues
 */
function placeOf(issues) {
  const path = issues[0]?.path;
  if (!Array.isArray(path) || path.length === 0) return "";
  const names = path.map((part) => String(part?.key ?? part));
  return `, at ${names.map((name) => (/^\w{1,40}$/.test(name) ? name : "?")).join(".")}`;
}

/** @param {any} value */
function describe(value) {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  if (typeof value === "bigint") return "an integer beyond 2^53";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

/** The arguments that a handler takes. */
class Args {
  #least;

  /** @param {string} where @param {any} specs */
  constructor(where, specs) {
    if (!Array.isArray(specs)) throw new TypeError(`${where}: args is an array: { args: [String, "integer"] }`);
    const isOptional = specs.map((spec) => typeof spec === "object" && spec !== null && OPTIONAL in spec);
    this.#least = isOptional.lastIndexOf(false) + 1;
    if (isOptional.slice(0, this.#least).includes(true)) throw new TypeError(`${where}: the optional arguments come last`);
    /** @type {Kind[]} */
    this.kinds = specs.map((spec, at) => {
      const of = isOptional[at] ? spec[OPTIONAL] : spec;
      const found = KINDS.get(of) ?? schemaKind(of);
      if (found !== undefined) return found;
      const known = 'String, Number, "integer", BigInt, Boolean, Array, Object, "any", optional(...), or a schema';
      throw new TypeError(`${where}: args[${at}] is none of ${known}`);
    });
  }

  /**
   * @param {any[]} args of a job
   * @returns {any[] | Promise<any[]>} a value for each argument; throws, or rejects with,
   *   InvalidArgs
   */
  read(args) {
    const most = this.kinds.length;
    if (args.length > most) throw new InvalidArgs(`args[${most}]: expected nothing, received ${describe(args[most])}`);
    const values = this.kinds.map((_, at) => this.#readOne(at, args[at]));
    // Only for asynchronous schemas: a handler begins at once, before a cancel can come.
    return values.some((value) => value instanceof Promise) ? Promise.all(values) : values;
  }

  /** @param {number} at @param {any} value */
  #readOne(at, value) {
    const { expected, validate } = this.kinds[at];
    if (at >= this.#least && (value === undefined || value === null)) return undefined;
    const checked = (/** @type {Result} */ result) => {
      if (!result.issues) return result.value;
      const place = placeOf(result.issues);
      throw new InvalidArgs(`args[${at}]: expected ${expected}, received ${describe(value)}${place}`);
    };
    const result = validate(value);
    if (!(result instanceof Promise)) return checked(result);
    const later = result.then(checked);
    later.catch(() => {}); // Another argument may fail before: nobody waits for this one then.
    return later;
  }
}

module.exports = { Args, optional };
