// Classes, stacks and causes of whatever was thrown.
"use strict";

const { sep } = require("node:path");

const MAX_CAUSES = 10;

/** Frames in the library and in Node.js itself do not lead to the mistake. @param {string} frame */
const isForeign = (frame) => !frame.includes(__dirname + sep) && !/[( ]node:/.test(frame);

/**
 * The class of anything that was thrown, even of a value that throws when it is read.
 * @param {any} thrown
 * @returns {string}
 */
function className(thrown) {
  try {
    const { name } = thrown;
    if (typeof name === "string" && name !== "" && name !== "Error") return name;
    return thrown.constructor?.name || "Error"; // A subclass that did not set its name.
  } catch {
    return "something that cannot be read";
  }
}

/** The error and its causes. @param {any} thrown @returns {Error[]} */
function causesOf(thrown) {
  const causes = [];
  for (let error = thrown; error instanceof Error && causes.length <= MAX_CAUSES; error = error.cause) causes.push(error);
  return causes;
}

/** @param {Error} error @returns {string[]} one string a frame, the innermost first */
function framesOf(error) {
  const lines = String(error.stack ?? "").split("\n");
  return lines.map((line) => line.trim()).filter((line) => line.startsWith("at ") && isForeign(line));
}

/** The stacks of an error and of its causes, as a text for the log. @param {Error} error */
function stackOf(error) {
  const stacks = causesOf(error).map((each) => [`${className(each)}: ${each.message}`, ...framesOf(each)].join("\n    "));
  return stacks.join("\nCaused by: ");
}

module.exports = { causesOf, className, framesOf, stackOf };
