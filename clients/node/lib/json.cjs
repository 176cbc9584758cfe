// JSON with integers of any size, and a strict look at what is no JSON.
"use strict";

const { randomBytes } = require("node:crypto");

/*
 * JSON.parse turns 9007199254740993 into 9007199254740992 without a word. An id that is wrong by one is worse than an
 * id of another type, so integers beyond 2^53 become BigInts. There is no parser hook for that before Node 22: they are
 * turned into marked strings before, and back after. The mark is random, so no input can contain it by design.
 */
const MARK = `bigint ${randomBytes(16).toString("hex")} `;
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, "g");
const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const INTEGER = /^-?\d+$/;

/**
 * JSON.parse, but integers that a number cannot hold exactly become BigInts.
 * @param {string} text
 * @returns {any}
 */
function parseJson(text) {
  const plain = JSON.parse(text); // First, since it finds every mistake, and since mostly nothing more is needed.
  if (!/\d{16}/.test(text)) return plain;
  const marked = markLargeIntegers(text);
  if (marked === text) return plain;
  return JSON.parse(marked, (_key, value) =>
    typeof value === "string" && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value,
  );
}

/**
 * JSON.stringify, but BigInts are written as integers.
 * @param {unknown} value
 * @returns {string | undefined} undefined for what JSON has nothing for: undefined, functions, symbols
 */
function toJson(value) {
  try {
    return JSON.stringify(value);
  } catch {
    // A BigInt, mostly. Anything else throws again, and that error is the one to see.
    const text = JSON.stringify(value, (_key, item) => (typeof item === "bigint" ? MARK + item : item));
    return text?.replace(MARKED, "$1");
  }
}

/** @param {string} text valid JSON */
function markLargeIntegers(text) {
  let out = "";
  for (const [part, isString] of parts(text)) out += isString ? part : part.replace(NUMBER, markIfLarge);
  return out;
}

/** @param {string} digits */
function markIfLarge(digits) {
  return INTEGER.test(digits) && !Number.isSafeInteger(Number(digits)) ? `"${MARK}${digits}"` : digits;
}

/**
 * Cuts JSON into strings and what is between them. Not one regular expression for all, since those recurse, and a
 * string may have megabytes.
 * @param {string} text valid JSON
 * @returns {Generator<[string, boolean]>} each part, and whether it is a string
 */
function* parts(text) {
  let from = 0;
  for (;;) {
    const open = text.indexOf('"', from);
    if (open < 0) break;
    yield [text.slice(from, open), false];
    from = endOfString(text, open);
    yield [text.slice(open, from), true];
  }
  yield [text.slice(from), false];
}

/** @param {string} text @param {number} open where the string begins; the end is that after the closing quote */
function endOfString(text, open) {
  for (let at = text.indexOf('"', open + 1); ; at = text.indexOf('"', at + 1)) {
    let slashes = 0;
    while (text[at - 1 - slashes] === "\\") slashes++;
    if (slashes % 2 === 0) return at + 1; // An even number: the quote itself is not escaped.
  }
}

const QUOTE = 34;

/** @param {string} text valid JSON @returns {number} how deep arrays and objects are nested */
function depthOf(text) {
  let depth = 0;
  let deepest = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at) - 1;
    else if (code === 91 || code === 123) deepest = Math.max(deepest, ++depth); // [ {
    else if (code === 93 || code === 125) depth--; // ] }
  }
  return deepest;
}

/** Half a surrogate pair, as JSON.stringify writes it: what it escapes like this has no UTF-8. */
const LONE_SURROGATE = /(?:^|[^\\])(?:\\\\)*\\ud[89a-f][0-9a-f]{2}/;

/**
 * Why a value is no JSON although JSON.stringify takes it: it writes null for NaN, {} for a Map or a promise that nobody
 * awaited, and half a character for half a surrogate pair. That would be a loss without a word.
 * @param {unknown} value
 * @param {string} json what was written for it
 * @returns {string | undefined} what the value does; undefined when all is well
 */
function lossOf(value, json) {
  // The look at each value takes its time, and these signs of a loss are rare.
  if (json.includes("\\ud") && LONE_SURROGATE.test(json)) return "holds half a surrogate pair, which has no UTF-8";
  if (!json.includes("null") && !json.includes("{}")) return undefined;
  /** @type {string | undefined} */
  let loss;
  JSON.stringify(value, (_key, item) => {
    loss ??= lossOfOne(item);
    return typeof item === "bigint" ? 0 : item;
  });
  return loss;
}

/** @param {any} item */
function lossOfOne(item) {
  if (typeof item === "number" && !Number.isFinite(item)) return `holds ${item}`;
  if (typeof item !== "object" || item === null || Array.isArray(item)) return undefined;
  const prototype = Object.getPrototypeOf(item);
  if (prototype === null || prototype === Object.prototype || Object.keys(item).length > 0) return undefined;
  const name = prototype.constructor?.name;
  // A plain object of another realm (vm, Jest) has a prototype of its own.
  return name === undefined || name === "Object" ? undefined : `holds a ${name}`;
}

module.exports = { depthOf, lossOf, parseJson, toJson };
