/**
 * A worker for ojs-init (worker socket, protocol version 1), for Node.js 18 or later. No dependencies.
 *
 *     import { work } from "./ojs-worker.mjs";
 *     await work({ concurrency: 4, handlers: { "mail.send": async (job) => send(...job.args) } });
 *
 * The protocol is described in docs/worker-socket.md; comments here say why, not what the protocol is.
 * @module
 */

import { randomBytes } from "node:crypto";
import { createConnection } from "node:net";

export const VERSION = "0.1.0";

const PROTOCOL = 1;
const DEFAULT_MAX_FRAME = 4 * 1024 * 1024;
const MAX_DEPTH = 100;
const MAX_TYPES = 10000;
const MAX_CONCURRENCY = 10000;
const MAX_NAME_BYTES = 1024;
const MAX_BACKTRACE = 50;
/** After SIGTERM the page allows half a second; the rest of it is for a slow machine. */
const STOP_WITHIN_MS = 350;

// ---------------------------------------------------------------------------------------------------------------------
// What a handler may throw
// ---------------------------------------------------------------------------------------------------------------------

/**
 * @typedef {object} JobErrorOptions
 * @property {string} [code] short and stable; your own codes begin with `x_` (default: `handler_error`)
 * @property {string} [type] the class of the error (default: that of `cause`, or of this error)
 * @property {object} [details] anything more, as JSON
 * @property {unknown} [cause] the error behind it
 */

/** A failure that the handler means. Throw {@link Retry} or {@link Discard}, or a class that extends one of them. */
export class JobError extends Error {
  /**
   * @param {string} message for a person
   * @param {boolean} retryable whether another attempt may help
   * @param {JobErrorOptions} [options]
   */
  constructor(message, retryable, options = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.name = new.target.name;
    this.retryable = retryable;
    this.code = options.code ?? "handler_error";
    this.type = options.type ?? (options.cause instanceof Error ? className(options.cause) : undefined) ?? this.name;
    this.details = options.details;
  }
}

/** The job failed; another attempt may help. */
export class Retry extends JobError {
  /** @param {string} message @param {JobErrorOptions} [options] */
  constructor(message = "the job failed, another attempt may help", options) {
    super(message, true, options);
  }
}

/** The job failed, and no other attempt will help. */
export class Discard extends JobError {
  /** @param {string} message @param {JobErrorOptions} [options] */
  constructor(message = "the job failed for good", options) {
    super(message, false, options);
  }
}

/** The job was not processed: it goes back to the queue and no attempt is counted. */
export class Release extends Error {
  /** @param {string} [reason] for the log */
  constructor(reason) {
    super(reason ?? "released");
    this.name = "Release";
    this.reason = reason === undefined ? undefined : String(reason);
  }
}

/** What `job.signal` is aborted with: `signal.reason`, and what `signal.throwIfAborted()` throws. */
export class Cancelled extends Error {
  /**
   * @param {string} reason shutdown, timeout, cancelled, lost, closed (ojs-init is gone), or one of a later version
   * @param {number} graceMs how long there is to answer
   */
  constructor(reason, graceMs) {
    super(`the job was cancelled (${reason})`);
    this.name = "Cancelled";
    this.reason = reason;
    this.graceMs = graceMs;
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// JSON with large integers
// ---------------------------------------------------------------------------------------------------------------------

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
export function parseJson(text) {
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
export function toJson(value) {
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

// ---------------------------------------------------------------------------------------------------------------------
// Lines
// ---------------------------------------------------------------------------------------------------------------------

/** Cuts a stream of bytes into lines. */
export class LineReader {
  /** Pieces of the line that is not complete; joined once, or a frame of megabytes would be copied for each read.
   * @type {Buffer[]} */
  #pieces = [];

  /**
   * @param {Buffer} chunk
   * @returns {Generator<string>} the lines that are complete now
   */
  *push(chunk) {
    let from = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
      this.#pieces.push(chunk.subarray(from, end));
      from = end + 1;
      yield this.#takeLine();
    }
    if (from < chunk.length) this.#pieces.push(chunk.subarray(from));
  }

  #takeLine() {
    const line = this.#pieces.length === 1 ? this.#pieces[0] : Buffer.concat(this.#pieces);
    this.#pieces = [];
    return line.toString("utf8"); // Only now: a read may end inside a character.
  }
}

/**
 * Writes frames. An answer is always written, and there are never more of them than jobs. Progress, checkpoints and
 * heartbeats have no such bound: while ojs-init does not read, only the newest of each kind is kept.
 */
class LineWriter {
  #socket;
  #unwritten = 0;
  /** @type {(() => void) | undefined} */
  #whenWritten;
  /** @type {Map<Job, Map<string, string>>} job, kind, line */
  #waiting = new Map();

  /** @param {import("node:net").Socket} socket */
  constructor(socket) {
    this.#socket = socket;
    socket.on("drain", () => this.#writeWaiting());
  }

  /** @param {string} line */
  write(line) {
    this.#unwritten++;
    this.#socket.write(line + "\n", () => {
      if (--this.#unwritten === 0) this.#whenWritten?.();
    });
  }

  /** @param {Job} job @param {"progress" | "checkpoint" | "heartbeat"} kind @param {string} line */
  offer(job, kind, line) {
    if (!this.#socket.writableNeedDrain) return this.write(line);
    const ofJob = this.#waiting.get(job) ?? new Map();
    this.#waiting.set(job, ofJob.set(kind, line));
  }

  /**
   * Before the answer: what the next attempt needs goes out first. The rest means nothing any more, and may not
   * follow the answer.
   * @param {Job} job
   */
  settle(job) {
    const checkpoint = this.#waiting.get(job)?.get("checkpoint");
    this.#waiting.delete(job);
    if (checkpoint !== undefined) this.write(checkpoint);
  }

  /** @param {() => void} callback once all is with the kernel, where the end of this process does not touch it */
  whenWritten(callback) {
    this.#whenWritten = callback;
    if (this.#unwritten === 0) callback();
  }

  #writeWaiting() {
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const ofJob of waiting) for (const line of ofJob.values()) this.write(line);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Frames to ojs-init
// ---------------------------------------------------------------------------------------------------------------------

/** @param {string} line @param {number} maxFrame */
function fits(line, maxFrame) {
  return Buffer.byteLength(line) <= maxFrame;
}

/**
 * Adds a field with JSON of the user to a frame, if ojs-init would accept the frame then. One that it refuses counts as
 * malformed, and an answer that it refuses leaves the job unanswered.
 * @param {object} frame
 * @param {string} field
 * @param {unknown} value
 * @param {number} maxFrame
 * @returns {{ line: string, problem?: string, isTooLarge?: boolean }} the frame, and why the field is not in it
 */
function frameWith(frame, field, value, maxFrame) {
  const bare = /** @type {string} */ (toJson(frame));
  if (value === undefined) return { line: bare };
  let json;
  try {
    json = toJson(value);
  } catch (error) {
    return { line: bare, problem: `cannot be written as JSON (${className(error)}); give plain data` };
  }
  if (json === undefined) return { line: bare, problem: `is a ${typeof value}, which is not JSON` };
  if (depthOf(json) >= MAX_DEPTH) return { line: bare, problem: `is nested deeper than ${MAX_DEPTH - 1} levels` };
  const line = `${bare.slice(0, -1)},${JSON.stringify(field)}:${json}}`;
  if (fits(line, maxFrame)) return { line };
  const problem = `does not fit into a frame of ${maxFrame} bytes; store it elsewhere and give its key`;
  return { line: bare, problem, isTooLarge: true };
}

/**
 * @typedef {object} Failure
 * @property {string} message
 * @property {string} [code]
 * @property {string} [type]
 * @property {boolean} retryable
 * @property {object} [details]
 * @property {string[]} [backtrace]
 */

/**
 * A `fail` that fits, whatever the error carries: better a poor failure than none.
 * @param {string} jobId
 * @param {Failure} failure
 * @param {number} maxFrame
 */
function failLine(jobId, failure, maxFrame) {
  const { details, backtrace, ...short } = failure;
  const attempts = [{ ...failure, details: asDetails(details) }, { ...short, backtrace }, short];
  for (const error of attempts) {
    const { line, problem } = frameWith({ type: "fail", job_id: jobId }, "error", error, maxFrame);
    if (problem === undefined) return line;
  }
  const error = { message: "the error is too large for a frame", retryable: failure.retryable };
  return JSON.stringify({ type: "fail", job_id: jobId, error });
}

/** `details` has to be an object, or ojs-init refuses the frame. @param {unknown} details */
function asDetails(details) {
  if (details === undefined || details === null) return undefined;
  return typeof details === "object" && !Array.isArray(details) ? details : { value: details };
}

/** @param {string} jobId @param {string | undefined} reason @param {number} maxFrame */
function releaseLine(jobId, reason, maxFrame) {
  return frameWith({ type: "release", job_id: jobId }, "reason", reason, maxFrame).line;
}

// ---------------------------------------------------------------------------------------------------------------------
// Whatever was thrown
// ---------------------------------------------------------------------------------------------------------------------

/** @param {any} error @returns {string} */
function className(error) {
  const { name } = error;
  if (typeof name === "string" && name !== "" && name !== "Error") return name;
  return error.constructor?.name || "Error"; // A subclass that did not set its name.
}

/**
 * @param {any} thrown
 * @returns {Failure}
 */
function asFailure(thrown) {
  if (!(thrown instanceof Error)) {
    const text = typeof thrown?.message === "string" ? thrown.message : String(thrown);
    return { message: `the handler threw ${text}`, code: "handler_error", retryable: true };
  }
  const meant = thrown instanceof JobError ? thrown : undefined;
  const type = String(meant?.type ?? className(thrown));
  return {
    message: String(thrown.message || type),
    code: String(meant?.code ?? "handler_error"),
    type,
    retryable: meant ? Boolean(meant.retryable) : true,
    details: meant?.details,
    backtrace: backtraceOf(thrown),
  };
}

/** @param {Error} error */
function backtraceOf(error) {
  const lines = String(error.stack ?? "").split("\n");
  const frames = lines.map((line) => line.trim()).filter((line) => line.startsWith("at "));
  return frames.length > 0 ? frames.slice(0, MAX_BACKTRACE) : undefined;
}

// ---------------------------------------------------------------------------------------------------------------------
// Job
// ---------------------------------------------------------------------------------------------------------------------

/**
 * What a job needs from its worker.
 * @typedef {object} JobPort
 * @property {(job: Job, kind: "progress" | "checkpoint" | "heartbeat", line: string) => void} offer
 * @property {() => number} maxFrame
 * @property {() => number} terminateAt
 * @property {(text: string) => void} log
 */

/** A job, as its handler sees it. */
export class Job {
  #port;
  #held = true;
  #reports = false;
  #abort = new AbortController();
  #timeoutAt;
  #graceUntil = Infinity;

  /**
   * @param {Record<string, any>} envelope
   * @param {unknown} lastCheckpoint
   * @param {JobPort} port
   */
  constructor(envelope, lastCheckpoint, port) {
    /** @readonly @type {string} the same in each delivery */
    this.id = envelope.id;
    /** @readonly @type {string} */
    this.type = envelope.type;
    /** @readonly @type {string} */
    this.queue = typeof envelope.queue === "string" ? envelope.queue : "default";
    /** @readonly @type {number | undefined} which attempt this is; where the count begins is the backend's business */
    this.attempt = Number.isSafeInteger(envelope.attempt) ? envelope.attempt : undefined;
    /** @readonly @type {any[]} */
    this.args = Array.isArray(envelope.args) ? envelope.args : [];
    /** @readonly @type {Record<string, any>} what the producer added: trace ids, tenant and the like */
    this.meta = isObject(envelope.meta) ? envelope.meta : {};
    /** @readonly @type {Record<string, any>} all that the backend sent */
    this.envelope = envelope;
    /** @readonly @type {any} the state that an earlier attempt saved last, or null */
    this.lastCheckpoint = lastCheckpoint ?? null;
    this.#port = port;
    this.#timeoutAt = performance.now() + timeoutOf(envelope);
  }

  /** Aborted when the job is to stop; `signal.reason` is a {@link Cancelled}. Give it to fetch, timers and the like. */
  get signal() {
    return this.#abort.signal;
  }

  /** @returns {string | undefined} why the job is to stop: shutdown, timeout, cancelled, lost, closed, or others */
  get cancelReason() {
    return this.#abort.signal.reason?.reason;
  }

  /** @returns {number} milliseconds until the job has to be over as far as is known; Infinity without a limit */
  remainingMs() {
    const end = this.signal.aborted ? this.#graceUntil : Math.min(this.#timeoutAt, this.#port.terminateAt());
    return Math.max(0, end - performance.now());
  }

  /** Tells the backend that the job is alive. Not needed: ojs-init keeps the reservation by itself. */
  heartbeat() {
    this.#offer("heartbeat", JSON.stringify({ type: "heartbeat", job_id: this.id }));
  }

  /**
   * Tells how far the job is. As often as you like: the newest counts.
   * @param {number} progress 0 to 1
   * @param {string} [message] for a person
   * @param {unknown} [data] JSON, about 4 KB at most
   */
  progress(progress, message, data) {
    if (typeof progress !== "number" || Number.isNaN(progress)) {
      throw new TypeError("job.progress(): give a number from 0 to 1 first");
    }
    const within = Math.min(1, Math.max(0, progress)); // 1.0000000000000002 is no reason to fail a job.
    const text = message === undefined || message === null ? undefined : String(message);
    this.#report("progress", { type: "progress", job_id: this.id, progress: within, message: text }, "data", data);
  }

  /**
   * Saves what the next attempt needs to go on from here; it finds it in `job.lastCheckpoint`.
   * @param {unknown} state JSON, about 1 MiB at most
   * @returns {boolean} whether it was sent; one that cannot be sent is logged, and does not fail the job
   */
  checkpoint(state) {
    return this.#report("checkpoint", { type: "checkpoint", job_id: this.id }, "state", state ?? null);
  }

  /**
   * @param {"progress" | "checkpoint"} kind
   * @param {object} frame
   * @param {string} field
   * @param {unknown} value
   */
  #report(kind, frame, field, value) {
    const { line, problem } = frameWith(frame, field, value, this.#port.maxFrame());
    if (problem !== undefined || !fits(line, this.#port.maxFrame())) {
      this.#port.log(`job ${this.id}: ${kind} was not sent: ${problem ? `its ${field} ${problem}` : "it is too long"}`);
      return false;
    }
    this.#reports = true;
    return this.#offer(kind, line);
  }

  /** @param {"progress" | "checkpoint" | "heartbeat"} kind @param {string} line */
  #offer(kind, line) {
    if (this.#held) this.#port.offer(this, kind, line);
    return this.#held;
  }

  /** @internal Whether an error about this job can be about a frame of this delivery. */
  get _reports() {
    return this.#reports;
  }

  /** @internal @param {string} reason @param {number} graceMs */
  _cancel(reason, graceMs) {
    if (this.signal.aborted) return; // The first reason stays: the handler acts on it already.
    this.#graceUntil = performance.now() + graceMs;
    this.#abort.abort(new Cancelled(reason, graceMs));
  }

  /** @internal The job is answered: nothing more may be said about it. */
  _close() {
    this.#held = false;
  }
}

/** @param {unknown} value @returns {value is Record<string, any>} */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @param {Record<string, any>} envelope @returns {number} milliseconds */
function timeoutOf({ timeout_ms: ms, timeout: seconds }) {
  if (typeof ms === "number" || typeof ms === "bigint") return Number(ms);
  return typeof seconds === "number" ? seconds * 1000 : Infinity;
}

// ---------------------------------------------------------------------------------------------------------------------
// Worker
// ---------------------------------------------------------------------------------------------------------------------

/**
 * @callback Handler
 * @param {Job} job
 * @returns {unknown} the result, or a promise of it; undefined is none
 */

/**
 * @typedef {object} WorkerOptions
 * @property {Record<string, Handler>} handlers by job type
 * @property {number} [concurrency] most jobs at once (default: as many as ojs-init allows, OJS_CONCURRENCY)
 * @property {boolean} [ping] whether ojs-init shall also check on this process while it works; only for handlers that
 *   never block the event loop for 10 s (default false)
 * @property {string} [client] name and version for the log of ojs-init
 * @property {(error: unknown, job: Job) => void} [onError] called with each error that a handler did not mean (default: its
 *   stack goes to standard error)
 * @property {(text: string) => void} [log] for one line (default: standard error)
 * @property {string} [socketPath] instead of $OJS_SOCKET, for tests
 */

/** Ids and messages come from elsewhere; a line break in one would look like a line of its own in the log. */
const CONTROLS = /[\u0000-\u001f\u007f]+/g;

/** In a stack the line breaks are meant. */
const CONTROLS_OF_A_STACK = /[\u0000-\u0009\u000b-\u001f\u007f]+/g;

/** Every option there is; any other is a misspelt one. */
const OPTIONS = ["handlers", "concurrency", "ping", "client", "onError", "log", "socketPath"];

/** After the end: ojs-init asks a worker to end that is about to, and that must not look like a crash. */
const ignoreSignal = () => {};

/** One connection to ojs-init. One for each process: see {@link work}. */
export class Worker {
  /** @type {Map<string, Handler>} */
  #handlers;
  #options;
  #log;
  /** @type {Map<string, Job>} */
  #held = new Map();
  /** @type {import("node:net").Socket | undefined} */
  #socket;
  /** Set with the socket, before any frame. */
  #writer = /** @type {LineWriter} */ (/** @type {unknown} */ (undefined));
  #lines = new LineReader();
  #maxFrame = DEFAULT_MAX_FRAME;
  #greeted = false;
  #saidNotOffered = false;
  /** No job comes any more: exit when nothing is held. */
  #terminating = false;
  /** SIGTERM: exit in a moment, whatever is held. */
  #stopping = false;
  #terminateAt = Infinity;
  /** @type {((status: number) => void) | undefined} undefined before run and after the end */
  #resolve;
  /** @type {NodeJS.Timeout | undefined} */
  #deadline;
  /** @type {JobPort} */
  #port;

  /** @param {WorkerOptions} options */
  constructor(options) {
    checkOptions(options);
    this.#options = {
      ...options,
      ping: Boolean(options.ping),
      client: String(options.client ?? `ojs-node ${VERSION}`),
    };
    this.#handlers = new Map(Object.entries(options.handlers));
    const log = options.log ?? ((text) => console.error(`ojs-worker: ${text}`));
    this.#log = (/** @type {string} */ text) => log(text.replace(CONTROLS, " "));
    this.#port = {
      offer: (job, kind, line) => this.#writer.offer(job, kind, line),
      maxFrame: () => this.#maxFrame,
      terminateAt: () => this.#terminateAt,
      log: this.#log,
    };
  }

  /**
   * Connects and works until the end. Exit with the status then, and soon: the connection stays open until the process
   * ends, since ojs-init takes a closed one for a broken worker.
   * @returns {Promise<number>} the exit status; it does not reject
   */
  run() {
    if (this.#socket || this.#resolve) throw new Error("run() was called already; a worker connects only once");
    return new Promise((resolve) => {
      this.#resolve = resolve;
      process.on("SIGTERM", this.#onSigterm); // Before connecting: from then on ojs-init may send it.
      const path = this.#options.socketPath ?? process.env.OJS_SOCKET;
      if (path) return this.#connect(path);
      this.#log(
        "OJS_SOCKET is not set: this is a worker for ojs-init, which starts it and gives it jobs. " +
          `Run it as: ojs-init -- node ${process.argv[1] ?? "worker.mjs"}`,
      );
      this.#end(1);
    });
  }

  /** @param {string} path */
  #connect(path) {
    let connected = false;
    const socket = (this.#socket = createConnection({ path }));
    this.#writer = new LineWriter(socket);
    socket.on("connect", () => (connected = true));
    socket.on("data", (chunk) => this.#read(chunk));
    socket.on("end", () => this.#closed());
    socket.on("close", () => this.#closed());
    socket.on("error", (error) => {
      if (!connected) this.#log(`cannot connect to ${path} (${error.message}). Does ojs-init run, as the same user?`);
      this.#closed();
    });
  }

  // --- reading

  /** @param {Buffer} chunk */
  #read(chunk) {
    for (const line of this.#lines.push(chunk)) {
      if (!this.#resolve) return;
      const frame = this.#parse(line);
      if (frame) this.#receive(frame);
    }
  }

  /** @param {string} line */
  #parse(line) {
    try {
      const frame = parseJson(line);
      if (typeof frame?.type === "string") return frame;
    } catch {
      // Said below, without the error: its message quotes the line, and arguments do not belong into a log.
    }
    this.#log("ignored a line from ojs-init that is not a frame");
    return undefined;
  }

  /** @param {Record<string, any>} frame */
  #receive(frame) {
    switch (frame.type) {
      case "hello":
        return this.#onHello(frame);
      case "job":
        return this.#onJob(frame);
      case "lifecycle":
        return this.#onLifecycle(frame);
      case "cancel":
        return this.#held.get(frame.job_id)?._cancel(String(frame.reason), asMs(frame.grace_ms));
      case "ping":
        return this.#writer.write(/** @type {string} */ (toJson({ type: "pong", id: frame.id })));
      case "error":
        return this.#onError(frame);
    }
    // `ok` needs nothing, and what a later version sends is for later clients.
  }

  /** @param {Record<string, any>} frame */
  #onHello(frame) {
    if (this.#greeted) return;
    if (frame.protocol !== PROTOCOL) {
      this.#log(`ojs-init speaks protocol ${frame.protocol}, this library only ${PROTOCOL}. Update the library.`);
      return this.#end(1);
    }
    this.#greeted = true;
    if (Number.isSafeInteger(frame.max_frame) && frame.max_frame > 0) this.#maxFrame = frame.max_frame;
    if (frame.state === "terminate") return this.#terminate(undefined);
    const { concurrency = frame.concurrency ?? 1, ping, client } = this.#options;
    const types = [...this.#handlers.keys()];
    const line = JSON.stringify({ type: "ready", protocol: PROTOCOL, concurrency, types, ping, client });
    if (fits(line, this.#maxFrame)) return this.#writer.write(line);
    this.#log(`the names of all ${types.length} job types do not fit into a frame of ${this.#maxFrame} bytes`);
    this.#end(1);
  }

  /** @param {Record<string, any>} frame */
  #onLifecycle(frame) {
    this.#log(`${frame.state} (${frame.reason})`);
    // Nothing to do for quiet and running: ojs-init decides what it sends.
    if (frame.state === "terminate") this.#terminate(frame.remaining_ms);
  }

  /** @param {unknown} remainingMs */
  #terminate(remainingMs) {
    this.#terminating = true;
    this.#terminateAt = performance.now() + asMs(remainingMs);
    this.#exitIfIdle();
  }

  /** @param {Record<string, any>} frame */
  #onError(frame) {
    // A backend without progress answers every progress like this: once is enough for a log.
    const again = frame.code === "not_offered" && this.#saidNotOffered;
    this.#saidNotOffered ||= frame.code === "not_offered";
    const about = frame.job_id === undefined ? "" : ` (job ${frame.job_id})`;
    if (!again) this.#log(`ojs-init says ${frame.code}: ${frame.message}${about}`);
    if (frame.code === "unsupported_protocol") return this.#end(1);
    if (frame.code !== "lost") return;
    // It may also be about the answer to an earlier delivery of the same job. That must not stop this one, so only a
    // delivery that sent something that can be answered like this is meant.
    const job = this.#held.get(frame.job_id);
    if (job?._reports) job._cancel("lost", 0);
  }

  // --- jobs

  /** @param {Record<string, any>} frame */
  #onJob(frame) {
    const id = frame.job?.id;
    if (typeof id !== "string" || this.#held.has(id)) {
      return this.#log("ignored a job without an id, or one that is held already. That is a bug in ojs-init.");
    }
    const job = new Job(frame.job, frame.checkpoint, this.#port);
    this.#held.set(id, job);
    const handler = this.#handlers.get(job.type);
    if (this.#stopping) return this.#answer(job, releaseLine(id, "shutdown", this.#maxFrame));
    if (!handler) return this.#answer(job, this.#noHandler(job));
    void this.#work(job, handler);
  }

  /**
   * The only place that runs a handler, and it answers once however the handler ends.
   * @param {Job} job
   * @param {Handler} handler
   */
  async #work(job, handler) {
    let line;
    try {
      // The first part of the handler runs at once, so its listeners are there before a cancel can come.
      const result = await handler(job);
      line = this.#ackLine(job, result);
    } catch (thrown) {
      line = this.#thrownLine(job, thrown);
    }
    this.#answer(job, line);
  }

  /** @param {Job} job @param {string} line */
  #answer(job, line) {
    if (this.#held.get(job.id) !== job) return;
    this.#held.delete(job.id); // Before writing: the same id may come right after.
    job._close();
    if (!this.#resolve) return;
    this.#writer.settle(job);
    this.#writer.write(line);
    this.#exitIfIdle();
  }

  /** @param {Job} job @param {unknown} result */
  #ackLine(job, result) {
    const frame = { type: "ack", job_id: job.id };
    const { line, problem, isTooLarge } = frameWith(frame, "result", result, this.#maxFrame);
    if (problem === undefined) return line;
    if (isTooLarge) {
      // The work is done. A failure would do it again, with the same result.
      this.#log(`job ${job.id} (${job.type}): done, but its result is dropped: it ${problem}`);
      return line;
    }
    // A mistake in the handler, which the next attempt would make again.
    const error = new Discard(`the handler's result is not JSON: it ${problem}`, { type: "InvalidResult" });
    this.#log(`job ${job.id} (${job.type}) failed: ${error.message}`);
    return failLine(job.id, asFailure(error), this.#maxFrame);
  }

  /** @param {Job} job */
  #noHandler(job) {
    const message = `this worker has no handler for the job type ${job.type}`;
    this.#log(`job ${job.id}: ${message}`);
    return failLine(job.id, { message, code: "handler_not_found", retryable: true }, this.#maxFrame);
  }

  /** @param {Job} job @param {unknown} thrown */
  #thrownLine(job, thrown) {
    try {
      if (thrown instanceof Release) return releaseLine(job.id, thrown.reason, this.#maxFrame);
      if (thrown instanceof JobError) return failLine(job.id, asFailure(thrown), this.#maxFrame);
      if (job.signal.aborted) return this.#gaveUpLine(job, thrown);
      return this.#unexpectedLine(job, thrown);
    } catch {
      // A thrown value can be anything, even a Proxy that throws when it is looked at.
      const message = "the handler threw something that cannot be read";
      return failLine(job.id, { message, code: "handler_error", retryable: true }, this.#maxFrame);
    }
  }

  /** The handler stopped because of the cancel and left the answer to us. @param {Job} job @param {unknown} thrown */
  #gaveUpLine(job, thrown) {
    if (job.cancelReason !== "timeout") return releaseLine(job.id, job.cancelReason, this.#maxFrame);
    const message = "the job was stopped after its timeout";
    const { backtrace } = asFailure(thrown);
    const failure = { message, code: "timeout", type: "TimeoutError", retryable: true, backtrace };
    return failLine(job.id, failure, this.#maxFrame);
  }

  /** @param {Job} job @param {unknown} thrown */
  #unexpectedLine(job, thrown) {
    const failure = asFailure(thrown);
    this.#log(`job ${job.id} (${job.type}) failed: ${failure.type ?? "something thrown that is no Error"}`);
    try {
      (this.#options.onError ?? showStack)(thrown, job);
    } catch (error) {
      this.#log(`onError threw an error itself: ${className(error)}`);
    }
    return failLine(job.id, failure, this.#maxFrame);
  }

  // --- the end

  #onSigterm = () => {
    if (this.#stopping) return;
    this.#stopping = true;
    // Whoever starts workers again must see that this one left jobs behind: 128 + SIGTERM.
    this.#deadline = setTimeout(() => this.#end(143), STOP_WITHIN_MS);
    this.#cancelAll("shutdown", STOP_WITHIN_MS);
    this.#exitIfIdle();
  };

  #exitIfIdle() {
    if (!(this.#terminating || this.#stopping) || this.#held.size > 0) return;
    if (!this.#greeted) return this.#end(0);
    this.#writer.whenWritten(() => {
      if (this.#held.size === 0) this.#end(0);
    });
  }

  /** ojs-init is gone, or has given up on us: nobody takes answers any more. */
  #closed() {
    if (!this.#resolve) return;
    if (this.#greeted) this.#log("ojs-init closed the socket; this worker ends");
    this.#end(1);
    this.#cancelAll("closed", 0);
  }

  /** @param {string} reason @param {number} graceMs */
  #cancelAll(reason, graceMs) {
    for (const job of this.#held.values()) job._cancel(reason, graceMs);
  }

  /** @param {number} status */
  #end(status) {
    const resolve = this.#resolve;
    this.#resolve = undefined;
    clearTimeout(this.#deadline);
    process.off("SIGTERM", this.#onSigterm);
    if (process.listenerCount("SIGTERM") === 0) process.on("SIGTERM", ignoreSignal);
    resolve?.(status);
  }
}

/** Whoever looks for the mistake needs the stack, and the backend's copy of it is elsewhere. @param {unknown} thrown */
function showStack(thrown) {
  if (thrown instanceof Error) console.error(String(thrown.stack ?? thrown).replace(CONTROLS_OF_A_STACK, " "));
}

/** A duration of the protocol; without one there is no limit. @param {unknown} value */
function asMs(value) {
  return typeof value === "number" ? value : Infinity;
}

/** @param {WorkerOptions} options */
function checkOptions(options) {
  const { handlers, concurrency = 1 } = options ?? {};
  const unknown = Object.keys(options ?? {}).filter((name) => !OPTIONS.includes(name));
  if (unknown.length > 0) throw new TypeError(`${unknown.join(", ")}: no such option; there are ${OPTIONS.join(", ")}`);
  const types = Object.keys(handlers ?? {});
  if (types.length === 0 || types.length > MAX_TYPES) {
    throw new TypeError(`handlers: give an object with 1 to ${MAX_TYPES} functions, by job type`);
  }
  for (const type of types) checkHandler(type, handlers[type]);
  if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > MAX_CONCURRENCY) {
    throw new RangeError(`concurrency: give an integer from 1 to ${MAX_CONCURRENCY}`);
  }
}

/** @param {string} type @param {unknown} handler */
function checkHandler(type, handler) {
  if (typeof handler !== "function") throw new TypeError(`handlers: that of ${JSON.stringify(type)} is not a function`);
  const bytes = Buffer.byteLength(type);
  if (bytes < 1 || bytes > MAX_NAME_BYTES) {
    throw new RangeError(`handlers: a job type has 1 to ${MAX_NAME_BYTES} bytes, one of yours has ${bytes}`);
  }
}

/**
 * Works until ojs-init says that it is enough, then ends the process. Call it once in each process that works; with
 * node:cluster or child_process that is each child.
 * @param {WorkerOptions} options
 * @returns {Promise<never>}
 */
export async function work(options) {
  const status = await new Worker(options).run();
  return process.exit(status); // Not exitCode: a handler that hangs must not keep the process.
}
