// Typed arguments of handlers.
"use strict";

const { InvalidArgs } = require("./errors.cjs");

/**
 * @typedef {object} Kind
 * @property {string} expected
 * @property {(value: any) => any} read the argument for the handler; `Mismatch` if the value does not fit
 */

/** What a value did not meet. */
class Mismatch {
  /** @param {string} [hint] */
  constructor(hint = "") {
    this.hint = hint;
  }
}

/** @typedef {(value: any) => boolean} Test */

/** @param {string} expected @param {Test} fits @returns {Kind} */
const kind = (expected, fits) => ({ expected, read: (value) => (fits(value) ? value : new Mismatch()) });

/** @type {Map<unknown, Kind>} */
const KINDS = new Map(
  /** @type {[unknown, Kind][]} */ ([
    [String, kind("a string", (value) => typeof value === "string")],
    [Number, kind("a number", (value) => typeof value === "number")],
    [Boolean, kind("a boolean", (value) => typeof value === "boolean")],
    [Array, kind("an array", Array.isArray)],
    [Object, kind("an object", (value) => typeof value === "object" && value !== null && !Array.isArray(value))],
    ["integer", kind("an integer", Number.isSafeInteger)],
    ["any", kind("a value", () => true)],
    [BigInt, { expected: "an integer", read: asBigInt }],
  ]),
);

/** @param {any} value */
function asBigInt(value) {
  return typeof value === "bigint" || Number.isSafeInteger(value) ? BigInt(value) : new Mismatch();
}

/** The mark of an optional argument. */
class Optional {
  /** @param {unknown} spec */
  constructor(spec) {
    this.spec = spec;
  }
}

/**
 * An argument that a job may leave out, or give as null: the handler gets undefined. Only the last ones can be optional.
 * @param {unknown} spec as in `args`
 */
function optional(spec) {
  return new Optional(spec);
}

/**
 * A schema of zod, valibot and others: Standard Schema, `safeParse`, or `parse`.
 * @param {any} schema
 * @returns {Kind | undefined}
 */
function schemaKind(schema) {
  const expected = "what its schema accepts";
  const standard = schema?.["~standard"]?.validate;
  if (typeof standard === "function") {
    const read = (/** @type {any} */ { issues, value }) => (issues === undefined ? value : new Mismatch(hintOf(issues)));
    return {
      expected,
      read: (value) => {
        const result = standard(value);
        return result instanceof Promise ? result.then(read) : read(result);
      },
    };
  }
  if (typeof schema?.safeParse === "function") {
    return {
      expected,
      read: (value) => {
        const { success, data, error } = schema.safeParse(value);
        return success ? data : new Mismatch(hintOf(error?.issues));
      },
    };
  }
  if (typeof schema?.parse !== "function") return undefined;
  return {
    expected,
    read: (value) => {
      try {
        return schema.parse(value);
      } catch {
        return new Mismatch(); // Its message may quote the value.
      }
    },
  };
}

/** Where a schema does not fit. Never its message, which may quote the value. @param {any} issues @returns {string} */
function hintOf(issues) {
  const path = issues?.[0]?.path;
  if (!Array.isArray(path) || path.length === 0) return "";
  const names = path.map((/** @type {any} */ part) => String(part?.key ?? part));
  return `, at ${names.map((name) => (/^\w{1,40}$/.test(name) ? name : "?")).join(".")}`;
}

/** @param {any} value */
function describe(value) {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (typeof value === "bigint") return "an integer beyond 2^53";
  if (Array.isArray(value)) return "an array";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

/** The arguments that a handler takes. */
class Args {
  /** @type {Kind[]} */
  #kinds;
  #least;

  /** @param {string} type @param {unknown} specs */
  constructor(type, specs) {
    if (!Array.isArray(specs)) throw new TypeError(`${type}: args is an array: { args: [String, "integer"] }`);
    const isOptional = specs.map((spec) => spec instanceof Optional);
    this.#least = isOptional.includes(true) ? isOptional.indexOf(true) : specs.length;
    if (isOptional.slice(this.#least).includes(false)) {
      throw new TypeError(`${type}: args[${isOptional.lastIndexOf(false)}] is required, and stands behind an optional one`);
    }
    this.#kinds = specs.map((spec, at) => {
      const of = spec instanceof Optional ? spec.spec : spec;
      const found = KINDS.get(of) ?? schemaKind(of);
      if (found !== undefined) return found;
      const known = 'String, Number, "integer", BigInt, Boolean, Array, Object, "any", optional(...), or a schema';
      throw new TypeError(`${type}: args[${at}] is none of ${known}`);
    });
  }

  get length() {
    return this.#kinds.length;
  }

  /**
   * @param {any[]} args
   * @returns {any[] | Promise<any[]>} one value for each argument; throws InvalidArgs
   */
  read(args) {
    const most = this.#kinds.length;
    if (args.length > most) throw new InvalidArgs(`args[${most}]: expected ${most} arguments, received ${args.length}`);
    const values = this.#kinds.map(({ read, expected }, at) => {
      const value = args[at];
      if (at >= this.#least && (value === undefined || value === null)) return undefined;
      if (value === undefined) throw this.#invalid(at, expected, value, "");
      const given = read(value);
      return given instanceof Promise ? given.then((late) => this.#checked(late, at, value)) : this.#checked(given, at, value);
    });
    // Only for asynchronous schemas: a handler begins at once, before a cancel can come.
    return values.some((value) => value instanceof Promise) ? Promise.all(values) : values;
  }

  /** @param {any} given @param {number} at @param {any} value */
  #checked(given, at, value) {
    if (given instanceof Mismatch) throw this.#invalid(at, this.#kinds[at].expected, value, given.hint);
    return given;
  }

  /** @param {number} at @param {string} expected @param {any} value @param {string} hint */
  #invalid(at, expected, value, hint) {
    return new InvalidArgs(`args[${at}]: expected ${expected}, received ${describe(value)}${hint}`);
  }
}

module.exports = { Args, optional };
