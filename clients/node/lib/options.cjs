// Options that a program gives.
"use strict";

/**
 * Refuses an option that does not exist: a misspelt one that is ignored is a mistake that nobody
 * sees.
 * @param {string} where the function or class that takes the options
 * @param {object | undefined | null} options
 * @param {string[]} known
 */
function checkNames(where, options, known) {
  if (options === undefined || options === null) return;
  if (typeof options !== "object") throw new TypeError(`${where}: give the options as an object`);
  const unknown = Object.keys(options).filter((name) => !known.includes(name));
  if (unknown.length === 0) return;
  throw new TypeError(`${unknown.join(", ")}: no such option; there are ${known.join(", ")} (${where})`);
}

/**
 * @param {string} where
 * @param {unknown} seconds
 * @returns {number} milliseconds
 */
function secondsToMs(where, seconds) {
  const ms = typeof seconds === "number" ? Math.ceil(seconds * 1000) : NaN;
  if (Number.isSafeInteger(ms) && ms >= 0) return ms;
  throw new RangeError(`${where} is a number of seconds from 0 on, not ${String(seconds)}`);
}

/** @param {unknown} value @returns {value is Record<string, any>} */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

module.exports = { checkNames, isObject, secondsToMs };
