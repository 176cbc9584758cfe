// Log lines that name their job, in the shape of the Open Job Spec's logging extension.
"use strict";

const { AsyncLocalStorage } = require("node:async_hooks");
const { format } = require("node:util");
const { checkNames } = require("./options.cjs");
const { className, stackOf } = require("./stack.cjs");

/** @typedef {"trace" | "debug" | "info" | "warn" | "error" | "fatal"} Severity */
/** @typedef {(text: string, severity: Severity, error?: unknown) => void} Log */

/** @type {Record<Severity, number>} */
const SEVERITIES = { trace: 1, debug: 5, info: 9, warn: 13, error: 17, fatal: 21 };
/** Characters of a message, and of a stack. */
const MAX_TEXT = 10_000;
const TRACEPARENT = /^[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(?:-|$)/;
/**
 * Ids and messages come from elsewhere; a line break in one would look like a line of its own in
 * the log.
 */
const CONTROLS = /[\u0000-\u001f\u007f]+/g; // eslint-disable-line no-control-regex
/** In a stack the line breaks are meant. */
const CONTROLS_IN_STACK = /[\u0000-\u0009\u000b-\u001f\u007f]+/g; // eslint-disable-line no-control-regex

/** @type {AsyncLocalStorage<import("./job.cjs").Job>} */
const jobs = new AsyncLocalStorage();

/**
 * Runs a function as part of a job: its log lines name the job.
 * @param {import("./job.cjs").Job} job
 * @param {() => void} body
 */
const withJob = (job, body) => jobs.run(job, body);

/**
 * @returns {import("./job.cjs").Job | undefined} the job whose handler runs here, also behind each
 *   `await` of it
 */
const currentJob = () => jobs.getStore();

/** @param {unknown} text @returns {Severity | undefined} */
function asSeverity(text) {
  const name = String(text).toLowerCase().replace("warning", "warn");
  return Object.hasOwn(SEVERITIES, name) ? /** @type {Severity} */ (name) : undefined;
}

/** The level of ojs-init itself. */
const defaultLevel = () => asSeverity(process.env.OJS_LOG_LEVEL) ?? "info";

/**
 * Whether a line is to be logged: by the job's own `meta.log_level` if it has one, else by `level`.
 * @param {Severity} severity of the line
 * @param {Severity} [level] of the program (default: `OJS_LOG_LEVEL`, else info)
 */
function isLogged(severity, level = defaultLevel()) {
  const least = asSeverity(currentJob()?.meta.log_level) ?? level;
  return SEVERITIES[severity] >= SEVERITIES[least];
}

/**
 * The fields of the job whose handler runs, for a logger of your own (pino: `mixin: logFields`).
 * @returns {{ ojs?: Record<string, unknown>, trace?: Record<string, string> }} empty outside of a
 *   handler
 */
function logFields() {
  const job = currentJob();
  if (job === undefined) return {};
  const ojs = { job_id: job.id, job_type: job.type, queue: job.queue, attempt: job.attempt };
  const [, trace_id, span_id] = TRACEPARENT.exec(job.traceparent ?? "") ?? [];
  return trace_id === undefined ? { ojs } : { ojs, trace: { trace_id, span_id } };
}

/**
 * One line of JSON, with the job's fields while a handler runs.
 * @param {Severity} severity
 * @param {string} message
 * @param {{ error?: unknown, attributes?: Record<string, unknown> }} [more]
 * @returns {string} without a line break
 */
function formatLog(severity, message, more = {}) {
  const known = asSeverity(severity) ?? "info";
  const record = {
    timestamp: new Date().toISOString(),
    severity: known.toUpperCase(),
    severity_number: SEVERITIES[known],
    message: cut(String(message)),
    category: "worker",
    component: "handler",
    ...logFields(),
    error: more.error === undefined ? undefined : describe(more.error),
  };
  try {
    return JSON.stringify({ ...record, attributes: more.attributes });
  } catch {
    return JSON.stringify({ ...record, attributes: { dropped: "they are not JSON" } });
  }
}

/** @param {any} error */
function describe(error) {
  const isError = error instanceof Error;
  const message = cut(isError ? String(error.message) : format("%s", error));
  return { type: className(error), message, stack: isError ? cut(stackOf(error)) : undefined };
}

/** @param {string} text */
const cut = (text) => (text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT - 1)}…`);

/** Writes a record in place of the console, while it is patched. @type {Log | undefined} */
let record;

/** @type {Record<string, Severity>} */
const CONSOLE = { trace: "debug", debug: "debug", log: "info", info: "info", warn: "warn", error: "error" };

/**
 * From here on `console.log` and its like write one line of JSON each to standard error, those of
 * libraries included, with the fields of the job whose handler runs.
 * @param {{ level?: Severity, write?: (line: string) => void }} [options] `level`: the least
 *   severity of lines outside of jobs with a `meta.log_level` (default: `OJS_LOG_LEVEL`, else
 *   info). `write`: in place of standard error
 * @returns {() => void} takes it back
 */
function patchConsole(options = {}) {
  checkNames("patchConsole", options, ["level", "write"]);
  const level = options.level === undefined ? defaultLevel() : asSeverity(options.level);
  if (level === undefined) {
    throw new TypeError(`patchConsole: no level ${String(options.level)}; there are ${Object.keys(SEVERITIES).join(", ")}`);
  }
  surviveClosedLog();
  const write = options.write ?? ((line) => void process.stderr.write(`${line}\n`));
  const before = { ...console };
  const earlier = record;
  /** @type {Log} */
  const log = (text, severity, error) => {
    if (isLogged(severity, level)) write(formatLog(severity, text, { error }));
  };
  record = log;
  for (const [method, severity] of Object.entries(CONSOLE)) {
    /** @type {any} */ (console)[method] = (/** @type {unknown[]} */ ...args) => {
      // The first error has a field of its own, with its stack.
      const error = args.find((arg) => arg instanceof Error);
      const shown = args.map((arg) => (arg instanceof Error ? `${className(arg)}: ${arg.message}` : arg));
      log(format(...shown), severity, error);
    };
  }
  return () => {
    Object.assign(console, before);
    record = earlier;
  };
}

const ignore = () => {};

/** The worker goes on when nobody reads its log any more. */
const surviveClosedLog = () => process.stderr.off("error", ignore).on("error", ignore);

/**
 * The library's own log: the program's function if it gives one, else the patched console, else
 * plain text.
 * @param {Log | undefined} custom
 * @returns {Log} never throws: a logger that fails must not cost a job its answer
 */
function libraryLog(custom) {
  return (text, severity, error) => {
    const line = cut(text).replace(CONTROLS, " ");
    guarded(
      () => (custom ?? record ?? writeText)(line, severity, error),
      (thrown) => writeText(`${line} (the log function failed: ${className(thrown)})`),
    );
  };
}

/** @param {string} text @param {Severity} [_severity] @param {unknown} [error] */
function writeText(text, _severity, error) {
  const stack = error instanceof Error ? `\n${cut(stackOf(error)).replace(CONTROLS_IN_STACK, " ")}` : "";
  console.error(`ojs-worker: ${text}${stack}`);
}

/**
 * Calls a function of the program, which may throw, or return a promise that rejects.
 * @param {() => unknown} call
 * @param {(error: unknown) => void} complain
 */
function guarded(call, complain) {
  try {
    const returned = call();
    if (returned instanceof Promise) returned.catch(complain);
  } catch (error) {
    complain(error);
  }
}

module.exports = { currentJob, formatLog, guarded, isLogged, libraryLog, logFields, patchConsole, surviveClosedLog, withJob };
