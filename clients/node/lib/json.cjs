// JSON with integers of any size, and a strict look at what is no JSON.
"use strict";

const { randomBytes } = require("node:crypto");
const { className } = require("./stack.cjs");

/*
 * JSON.parse reads 9007199254740993 as 9007199254740992. An id that is wrong by one is worse than
 * an id of another type, so integers beyond 2^53 become BigInts. JSON.parse has no hook for that
 * before Node 22: the text is marked before it is parsed. The mark is random, so no input contains
 * it by design.
 */
const MARK = `bigint ${randomBytes(16).toString("hex")} `;
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, "g");
const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const INTEGER = /^-?\d+$/;
/** ojs-init takes 100 levels, of which the frame is one. */
const MAX_DEPTH = 99;

/**
 * JSON.parse, but integers that a number cannot hold exactly become BigInts.
 * @param {string} text
 * @returns {any}
 */
function parseJson(text) {
  const plain = JSON.parse(text); // First, because it finds every mistake, and mostly nothing more is needed.
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
 * @returns {string | undefined} undefined for what JSON has nothing for: undefined, functions,
 *   symbols
 */
function toJson(value) {
  try {
    return JSON.stringify(value);
  } catch {
    // A BigInt, mostly. Anything else throws again.
    const text = JSON.stringify(value, (_key, item) => (typeof item === "bigint" ? MARK + item : item));
    return text?.replace(MARKED, "$1");
  }
}

/**
 * Strict JSON: a value that JSON.stringify would change silently is refused.
 * @param {unknown} value
 * @returns {{ json: string, problem?: undefined } | { json?: undefined, problem: string }}
 *   `problem`: what the value is or holds, without the value
 */
function checkedJson(value) {
  try {
    const json = toJson(value);
    if (json === undefined) return { problem: `is a ${typeof value}` };
    if (depthOf(json) > MAX_DEPTH) return { problem: `is nested deeper than ${MAX_DEPTH} levels` };
    const problem = lossOf(value, json);
    return problem === undefined ? { json } : { problem };
  } catch (error) {
    return { problem: `cannot be written as JSON (${className(error)})` };
  }
}

/** @param {string} text valid JSON */
function markLargeIntegers(text) {
  // No single regular expression: those recurse, and a string may have megabytes.
  let out = "";
  let from = 0;
  for (let open = text.indexOf('"'); open >= 0; open = text.indexOf('"', from)) {
    const end = endOfString(text, open);
    out += text.slice(from, open).replace(NUMBER, markIfLarge) + text.slice(open, end);
    from = end;
  }
  return out + text.slice(from).replace(NUMBER, markIfLarge);
}

/** @param {string} digits */
const markIfLarge = (digits) =>
  INTEGER.test(digits) && !Number.isSafeInteger(Number(digits)) ? `"${MARK}${digits}"` : digits;

/**
 * @param {string} text
 * @param {number} open where the string begins; the end is that after the closing quote
 */
function endOfString(text, open) {
  for (let at = text.indexOf('"', open + 1); ; at = text.indexOf('"', at + 1)) {
    let slashes = 0;
    while (text[at - 1 - slashes] === "\\") slashes++;
    if (slashes % 2 === 0) return at + 1; // An even number: the quote itself is not escaped.
  }
}

/**
 * @param {string} text valid JSON
 * @returns {number} how deep arrays and objects are nested; 0 for a short text
 */
function depthOf(text) {
  if (text.length < 2 * MAX_DEPTH) return 0;
  let depth = 0;
  let deepest = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 34) at = endOfString(text, at) - 1; // "
    else if (code === 91 || code === 123) deepest = Math.max(deepest, ++depth); // [ {
    else if (code === 93 || code === 125) depth--; // ] }
  }
  return deepest;
}

/**
 * What JSON.stringify loses: it writes null for NaN, and {} for a Map or a promise that was not
 * awaited.
 * @param {unknown} value
 * @param {string} json what was written for it
 * @returns {string | undefined}
 */
function lossOf(value, json) {
  // The look at each item is slow, and these signs of a loss are rare.
  if (!json.includes("null") && !json.includes("{}")) return undefined;
  /** @type {string | undefined} */
  let loss;
  JSON.stringify(value, (_key, item) => {
    if (typeof item === "number" && !Number.isFinite(item)) loss ??= `holds ${item}`;
    else if (isEmptyInstance(item)) loss ??= `holds a ${className(item)}`;
    return typeof item === "bigint" ? 0 : item;
  });
  return loss;
}

/** An object of a class, without fields that JSON could have. @param {any} item */
function isEmptyInstance(item) {
  if (typeof item !== "object" || item === null || Array.isArray(item) || Object.keys(item).length > 0) return false;
  // A plain object of another realm (vm, Jest) has a prototype of its own.
  return (Object.getPrototypeOf(item)?.constructor?.name ?? "Object") !== "Object";
}

module.exports = { checkedJson, parseJson, toJson };
