// One connection to ojs-init, and the program's side of it: handlers, middleware, run.
"use strict";

const { createConnection } = require("node:net");
const { checkNames } = require("./errors.cjs");
const { fits } = require("./frames.cjs");
const { Jobs, asMs } = require("./jobs.cjs");
const { parseJson, toJson } = require("./json.cjs");
const { LineReader, LineWriter } = require("./lines.cjs");
const { perform } = require("./perform.cjs");
const { RUN_OPTIONS, parentOf, thisChild } = require("./processes.cjs");
const { Registry, checkOptions } = require("./registry.cjs");
const { VERSION } = require("./version.cjs");

const PROTOCOL = 1;
/** After SIGTERM the page allows half a second; the rest of it is for a slow machine. */
const STOP_WITHIN_MS = 350;
/** A job that nobody has: what ojs-init says about it tells how far it has read. */
const NOBODYS_JOB = "ojs-worker-nobody";
/** The modes of ojs-init in which it gives no socket to the worker. */
const MODES_WITHOUT_SOCKET = ["gateway", "exec", "none"];
/** Milliseconds that ojs-init has to say so. */
const SETTLE_TIME = 2_000;

/** After the end: ojs-init asks a worker to end that is about to, and that must not look like a crash. */
const ignoreSignal = () => {};

/** Handlers, and the connection that brings their jobs: one for each process. See {@link work}. */
class Worker {
  #registry = new Registry();
  #options;
  #jobs;
  /** @type {import("node:net").Socket | undefined} */
  #socket;
  /** Set with the socket, before any frame. */
  #writer = /** @type {LineWriter} */ (/** @type {unknown} */ (undefined));
  #lines = new LineReader();
  #concurrency = 1;
  #isRun = false;
  #greeted = false;
  #saidNotOffered = false;
  /** No job comes any more: exit when nothing is held. */
  #terminating = false;
  /** Another process has taken this one's place: the same. */
  #retired = false;
  #isStopAsked = false;
  #state = "running";
  /** @type {((status: number) => void) | undefined} undefined before run and after the end */
  #resolve;
  /** @type {NodeJS.Timeout | undefined} */
  #deadline;
  /** @type {import("./processes.cjs").Child | undefined} the line to the process that started this one */
  #child;
  /** @type {import("./processes.cjs").Parent | undefined} of several processes, where this is their parent */
  #parent;

  /** @param {import("./registry.cjs").WorkerOptions} [options] */
  constructor(options = {}) {
    checkOptions(options);
    this.#options = { ...options, client: String(options.client ?? `ojs-node ${VERSION}`) };
    for (const [type, handler] of Object.entries(options.handlers ?? {})) this.#registry.add(type, handler);
    for (const middleware of options.middleware ?? []) this.#registry.use(middleware);
    this.#jobs = new Jobs(this.#registry, this.#options, this.#out(), () => this.#answered());
  }

  /** @returns {import("./jobs.cjs").Out} */
  #out() {
    return {
      write: (line) => this.#writer.write(line),
      offer: (job, kind, line) => this.#writer.offer(job, kind, line),
      settle: (job) => this.#writer.settle(job),
    };
  }

  /**
   * Registers a handler.
   * @param {string | string[]} types the job type, or several; "*" is for every type without a handler of its own
   * @param {import("./registry.cjs").Handler} handler
   * @returns {this}
   */
  job(types, handler) {
    this.#refuseAfterRun("job");
    this.#registry.add(types, handler);
    return this;
  }

  /**
   * Puts a function around each handler; the first one is the outermost.
   * @param {import("./registry.cjs").Middleware} middleware
   * @returns {this}
   */
  use(middleware) {
    this.#refuseAfterRun("use");
    this.#registry.use(middleware);
    return this;
  }

  /** @param {string} name */
  #refuseAfterRun(name) {
    if (this.#isRun) throw new Error(`worker.${name}(): ojs-init knows the handlers already; register before run()`);
  }

  /**
   * Runs a handler in this process, as a job that ojs-init brought: for tests.
   * @param {string} type
   * @param {any[]} [args]
   * @param {import("./perform.cjs").PerformOptions} [options]
   * @returns {Promise<import("./perform.cjs").Outcome>}
   */
  perform(type, args = [], options = {}) {
    return perform(this.#registry, this.#options, type, args, options);
  }

  /**
   * Connects and works until the end. Exit with the status then, and soon: the connection stays open until the process
   * ends, since ojs-init takes a closed one for a broken worker.
   * @param {import("./processes.cjs").RunOptions} [options]
   * @returns {Promise<number>} the exit status; it does not reject
   */
  run(options = {}) {
    if (this.#isRun) throw new Error("run() was called already; a worker connects only once");
    checkNames("worker.run()", options, RUN_OPTIONS);
    if (this.#registry.isEmpty) throw new TypeError("handlers: there are none; worker.job(type, handler) comes first");
    this.#isRun = true;
    this.#child = thisChild(options);
    const log = (/** @type {string} */ text) => this.#jobs.log(text, "warn");
    if (this.#child === undefined) {
      this.#parent = parentOf(options, this.#options.concurrency, log);
      if (this.#parent !== undefined) return this.#runParent(this.#parent);
    }
    return this.#serve();
  }

  /** @param {import("./processes.cjs").Parent} parent */
  #runParent(parent) {
    const status = parent.run();
    if (this.#isStopAsked) parent.finish();
    return status;
  }

  /**
   * Takes no more jobs, finishes those that are held, and ends then as always: `run` resolves, `start` ends the process.
   * In any of several processes it is the end of all.
   */
  stop() {
    if (this.#isStopAsked) return;
    this.#isStopAsked = true;
    this.#parent?.finish();
    this.#child?.finish();
    if (this.#greeted) this.#retire();
  }

  /** As ojs-init says: "running", "quiet" or "terminate". */
  get state() {
    return this.#state;
  }

  /**
   * Works until the end, and ends the process.
   * @param {import("./processes.cjs").RunOptions} [options]
   * @returns {Promise<never>}
   */
  async start(options) {
    const status = await this.run(options);
    return process.exit(status); // Not exitCode: a handler that hangs must not keep the process.
  }

  /** @returns {Promise<number>} */
  #serve() {
    return new Promise((resolve) => {
      this.#resolve = resolve;
      process.on("SIGTERM", this.#onSigterm); // Before connecting: from then on ojs-init may send it.
      const path = this.#options.socketPath ?? process.env.OJS_SOCKET;
      if (path) return this.#connect(path);
      const mode = process.env.OJS_MODE ?? "";
      const why = MODES_WITHOUT_SOCKET.includes(mode)
        ? `, because ojs-init runs in mode ${mode}: leave OJS_MODE out, or set it to socket`
        : ": this is a worker for ojs-init, which starts it and gives it jobs. " +
          `Run it as: ojs-init -- node ${process.argv[1] ?? "worker.mjs"}`;
      this.#jobs.log(`OJS_SOCKET is not set${why}`, "error");
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
      if (!connected) {
        this.#jobs.log(`cannot connect to ${path} (${error.message}). Does ojs-init run, as the same user?`, "error");
      }
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
    this.#jobs.log("ignored a line from ojs-init that is not a frame", "warn");
    return undefined;
  }

  /** @param {Record<string, any>} frame */
  #receive(frame) {
    switch (frame.type) {
      case "hello":
        return this.#onHello(frame);
      case "job":
        return this.#jobs.take(frame);
      case "lifecycle":
        return this.#onLifecycle(frame);
      case "cancel":
        return this.#jobs.cancel(frame.job_id, frame.reason, frame.grace_ms);
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
      this.#jobs.log(`ojs-init speaks protocol ${frame.protocol}, this library only ${PROTOCOL}. Update the library.`, "error");
      return this.#end(1);
    }
    this.#greeted = true;
    if (Number.isSafeInteger(frame.max_frame) && frame.max_frame > 0) this.#jobs.maxFrame = frame.max_frame;
    this.#state = String(frame.state ?? this.#state);
    if (frame.state === "terminate") return this.#terminate(undefined);
    if (this.#isStopAsked) return this.#end(0); // Nobody has been told that we take jobs.
    const offered = Number.isSafeInteger(frame.concurrency) && frame.concurrency > 0 ? frame.concurrency : 1;
    this.#concurrency = this.#child?.share ?? Math.min(this.#options.concurrency ?? offered, offered);
    const line = this.#readyLine(this.#concurrency);
    if (fits(line, this.#jobs.maxFrame)) {
      this.#writer.write(line);
      return this.#child?.ready(() => this.#retire(), () => this.stop());
    }
    const count = this.#registry.types?.length;
    this.#jobs.log(`the names of all ${count} job types do not fit into a frame of ${this.#jobs.maxFrame} bytes`, "error");
    this.#end(1);
  }

  /** @param {number} concurrency */
  #readyLine(concurrency) {
    const { ping, client } = this.#options;
    const types = this.#registry.types;
    return JSON.stringify({ type: "ready", protocol: PROTOCOL, concurrency, types, ping: Boolean(ping), ok: false, client });
  }

  /** @param {Record<string, any>} frame */
  #onLifecycle(frame) {
    this.#jobs.log(`${frame.state} (${frame.reason})`, "info");
    this.#state = String(frame.state);
    // Nothing to do for quiet and running: ojs-init decides what it sends.
    if (frame.state === "terminate") this.#terminate(frame.remaining_ms);
  }

  /** @param {unknown} remainingMs */
  #terminate(remainingMs) {
    this.#terminating = true;
    this.#jobs.terminate(remainingMs);
    this.#exitIfIdle();
  }

  /**
   * Another process has taken this one's place, or the program wants no more. Jobs may be on their way here until ojs-init has read that we take no
   * more; its word about a job that nobody has comes behind the last of them.
   */
  #retire() {
    if (this.#terminating || this.#jobs.isStopping || !this.#resolve) return;
    this.#writer.write(this.#readyLine(0));
    this.#writer.write(JSON.stringify({ type: "heartbeat", job_id: NOBODYS_JOB }));
    setTimeout(() => this.#settled(), SETTLE_TIME).unref();
  }

  #settled() {
    this.#retired = true;
    this.#exitIfIdle();
  }

  /** @param {Record<string, any>} frame */
  #onError(frame) {
    if (frame.job_id === NOBODYS_JOB) return this.#settled();
    // A backend without progress answers every progress like this: once is enough for a log.
    const again = frame.code === "not_offered" && this.#saidNotOffered;
    this.#saidNotOffered ||= frame.code === "not_offered";
    const about = frame.job_id === undefined ? "" : ` (job ${frame.job_id})`;
    if (!again) this.#jobs.log(`ojs-init says ${frame.code}: ${frame.message}${about}`, "warn");
    if (frame.code === "unsupported_protocol") return this.#end(1);
    if (frame.code === "lost") this.#jobs.lost(frame.job_id);
  }

  // --- the end

  #answered() {
    this.#child?.jobDone();
    this.#exitIfIdle();
  }

  #onSigterm = () => {
    if (this.#jobs.isStopping) return;
    this.#jobs.isStopping = true;
    // Whoever starts workers again must see that this one left jobs behind: 128 + SIGTERM.
    this.#deadline = setTimeout(() => this.#end(143), STOP_WITHIN_MS);
    this.#jobs.cancelAll("shutdown", STOP_WITHIN_MS);
    this.#exitIfIdle();
  };

  #exitIfIdle() {
    if (!(this.#terminating || this.#retired || this.#jobs.isStopping) || this.#jobs.count > 0) return;
    if (!this.#greeted) return this.#end(0);
    this.#writer.whenWritten(() => {
      if (this.#jobs.count === 0) this.#end(0);
    });
  }

  /** ojs-init is gone, or has given up on us: nobody takes answers any more. */
  #closed() {
    if (!this.#resolve) return;
    if (this.#greeted) this.#jobs.log("ojs-init closed the socket; this worker ends", "error");
    this.#end(1, this.#greeted && !this.#terminating);
    this.#jobs.cancelAll("lost", 0);
  }

  /**
   * @param {number} status
   * @param {boolean} [another] whether another process may do better. After a SIGTERM, too: ojs-init sends it to one
   *   process whose handler outlived its timeout, and the others and their parent go on.
   */
  #end(status, another = (this.#retired || this.#jobs.isStopping) && !this.#terminating && !this.#isStopAsked) {
    const resolve = this.#resolve;
    if (resolve === undefined) return;
    this.#resolve = undefined;
    this.#jobs.isOver = true;
    clearTimeout(this.#deadline);
    process.off("SIGTERM", this.#onSigterm);
    if (process.listenerCount("SIGTERM") === 0) process.on("SIGTERM", ignoreSignal);
    // Open, but no reason to go on: a program that has nothing else to do ends by itself.
    this.#socket?.unref();
    if (this.#child !== undefined) process.channel?.unref();
    if (this.#child === undefined || another) return resolve(status);
    this.#child.over(() => resolve(status));
  }
}

/**
 * Works until ojs-init says that it is enough, then ends the process. Call it once in each process that works.
 * @param {import("./registry.cjs").WorkerOptions} options
 * @param {import("./processes.cjs").RunOptions} [runOptions]
 * @returns {Promise<never>}
 */
async function work(options, runOptions) {
  return new Worker(options).start(runOptions);
}

module.exports = { Worker, work };
