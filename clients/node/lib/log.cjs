// Log lines that say which job they belong to, in the shape of the Open Job Spec's logging extension.
"use strict";

const { AsyncLocalStorage } = require("node:async_hooks");
const { format } = require("node:util");
const { checkNames, className, stackOf } = require("./errors.cjs");

/** @typedef {"trace" | "debug" | "info" | "warn" | "error" | "fatal"} Severity */

/** @type {Record<Severity, number>} */
const SEVERITIES = { trace: 1, debug: 5, info: 9, warn: 13, error: 17, fatal: 21 };

/** Characters of a message, and of a stack: one line must not fill the log. */
const MAX_MESSAGE = 16_384;
const MAX_STACK = 8_192;

const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-|$)/;

/** Ids and messages come from elsewhere; a line break in one would look like a line of its own in the log. */
const CONTROLS = /[\u0000-\u001f\u007f]+/g;

/** In a stack the line breaks are meant. */
const CONTROLS_OF_A_STACK = /[\u0000-\u0009\u000b-\u001f\u007f]+/g;

/** @type {AsyncLocalStorage<import("./job.cjs").Job | undefined>} */
const jobs = new AsyncLocalStorage();

/**
 * Runs a function as part of a job: what it logs, and what it calls logs, is about that job.
 * @template T
 * @param {import("./job.cjs").Job | undefined} job undefined: of none
 * @param {() => T} body
 * @returns {T}
 */
function withJob(job, body) {
  return jobs.run(job, body);
}

/** @returns {import("./job.cjs").Job | undefined} the job whose handler runs here, also behind each `await` of it */
function currentJob() {
  return jobs.getStore();
}

/** @param {unknown} text @returns {Severity | undefined} */
function asSeverity(text) {
  const name = typeof text === "string" ? text.toLowerCase() : "";
  if (name === "warning") return "warn";
  return Object.hasOwn(SEVERITIES, name) ? /** @type {Severity} */ (name) : undefined;
}

/** What the environment says, as for ojs-init itself. */
function defaultLevel() {
  return asSeverity(process.env.OJS_LOG_LEVEL) ?? "info";
}

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
 * What each line of a handler carries, for a logger of your own (pino: `mixin: logFields`).
 * @returns {{ ojs?: Record<string, unknown>, trace?: Record<string, string> }} empty outside of a handler
 */
function logFields() {
  const job = currentJob();
  if (job === undefined) return {};
  const ojs = { job_id: job.id, job_type: job.type, queue: job.queue, attempt: job.attempt };
  const trace = traceOf(job.meta);
  return trace === undefined ? { ojs } : { ojs, trace };
}

/** @param {Record<string, any>} meta @returns {Record<string, string> | undefined} */
function traceOf(meta) {
  const found = typeof meta.traceparent === "string" ? TRACEPARENT.exec(meta.traceparent) : null;
  if (found && !/^0+$/.test(found[1]) && !/^0+$/.test(found[2])) return { trace_id: found[1], span_id: found[2] };
  if (typeof meta.trace_id !== "string") return undefined;
  return typeof meta.span_id === "string"
    ? { trace_id: meta.trace_id, span_id: meta.span_id }
    : { trace_id: meta.trace_id };
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
    message: cut(String(message), MAX_MESSAGE),
    category: "worker",
    component: "handler",
    ...logFields(),
    ...(more.error === undefined ? {} : { error: describe(more.error) }),
  };
  try {
    return JSON.stringify({ ...record, attributes: more.attributes });
  } catch {
    return JSON.stringify({ ...record, attributes: { dropped: "they are not JSON" } });
  }
}

/** @param {any} error */
function describe(error) {
  if (!(error instanceof Error)) return { type: typeof error, message: cut(format("%s", error), MAX_MESSAGE) };
  return {
    type: cut(className(error), 200),
    message: cut(String(error.message), MAX_MESSAGE),
    stack: cut(stackOf(error), MAX_STACK),
  };
}

/** @param {string} text @param {number} most */
function cut(text, most) {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

/** @type {((severity: Severity, message: string, error?: unknown) => void) | undefined} while the console is patched */
let record;

/** @type {Record<string, Severity>} */
const CONSOLE = { trace: "debug", debug: "debug", log: "info", info: "info", warn: "warn", error: "error" };

/**
 * From here on `console.log` and its like write one line of JSON each to standard error, those of libraries included,
 * with the fields of the job whose handler runs.
 * @param {{ level?: Severity, write?: (line: string) => void }} [options] `level`: what is logged of jobs without a
 *   `meta.log_level` (default: `OJS_LOG_LEVEL`, else info). `write`: where to, in place of standard error
 * @returns {() => void} takes it back
 */
function patchConsole(options = {}) {
  checkNames("patchConsole", options, ["level", "write"]);
  const level = options.level === undefined ? defaultLevel() : asSeverity(options.level);
  if (level === undefined) {
    throw new TypeError(`patchConsole: no level ${String(options.level)}; there are ${Object.keys(SEVERITIES).join(", ")}`);
  }
  const write = options.write ?? ((line) => void process.stderr.write(`${line}\n`));
  const before = { ...console };
  const earlier = record;
  record = (severity, message, error) => {
    if (isLogged(severity, level)) write(formatLog(severity, message, { error }));
  };
  const to = record;
  for (const [method, severity] of Object.entries(CONSOLE)) {
    /** @type {any} */ (console)[method] = (/** @type {unknown[]} */ ...args) => {
      // An error has its own field: its stack would be in the message else.
      const error = args.find((arg) => arg instanceof Error);
      const shown = args.map((arg) => (arg instanceof Error ? `${className(arg)}: ${arg.message}` : arg));
      to(severity, format(...shown), error);
    };
  }
  return () => {
    Object.assign(console, before);
    record = earlier;
  };
}

/**
 * This library's own lines, where the program gives no `log`.
 * @param {string} text
 * @param {Severity} severity
 * @param {unknown} [error]
 */
function say(text, severity, error) {
  if (record) return record(severity, text, error);
  console.error(`ojs-worker: ${text}`);
  showStack(error);
}

/** Whoever looks for the mistake needs the stack, and the backend's copy of it is elsewhere. @param {unknown} thrown */
function showStack(thrown) {
  if (thrown instanceof Error) console.error(stackOf(thrown).replace(CONTROLS_OF_A_STACK, " "));
}

/** @param {string} text @returns {string} on one line */
function onOneLine(text) {
  return text.replace(CONTROLS, " ");
}

module.exports = { currentJob, formatLog, isLogged, logFields, onOneLine, patchConsole, say, showStack, withJob };
