// One connection to ojs-init, from the connect to the end of the process.
"use strict";

const { createConnection } = require("node:net");
const { HeldJobs } = require("./held.cjs");
const { parseJson } = require("./json.cjs");
const { LineReader, Link } = require("./link.cjs");
const { surviveClosedLog } = require("./log.cjs");

const PROTOCOL = 1;
/** Milliseconds that handlers have to clean up after ojs-init closed the connection. */
const CLEANUP_TIME = 250;
/**
 * The id of no job: the error that ojs-init sends about it tells that it has read what came before.
 */
const NO_JOB = "ojs-worker-stop";
/** The id in front of a job that JSON.parse refuses. Beyond that nobody knows whose an `id` is. */
const JOB_ID = /^\{"type":"job","job_id":("(?:[^"\\]|\\.)*")/;
/** The modes of ojs-init in which the worker gets no socket. */
const MODES_WITHOUT_SOCKET = ["gateway", "exec", "none"];

/** For the person who started the program. */
function whyNoSocket() {
  const mode = process.env.OJS_MODE ?? "";
  return MODES_WITHOUT_SOCKET.includes(mode)
    ? `, because ojs-init runs in mode ${mode}: leave OJS_MODE out, or set it to socket`
    : `: this is a worker for ojs-init. Run it as: ojs-init -- node ${process.argv[1] ?? "worker.mjs"}`;
}

class Session {
  #services;
  #options;
  #lines = new LineReader();
  /** @type {import("node:net").Socket | undefined} */
  #socket;
  /** Set with the socket. @type {Link} */
  #link = /** @type {any} */ (undefined);
  /** Set with the socket. @type {HeldJobs} */
  #held = /** @type {any} */ (undefined);
  /** Set by run. @type {(status: number) => void} */
  #resolve = () => {};
  #isGreeted = false;
  #isStopAsked = false;
  /** Exit once no job is held. */
  #isEnding = false;
  #isClosed = false;
  #isOver = false;
  #saidNotOffered = false;
  /** As ojs-init says: "running", "quiet" or "terminate". */
  state = "running";

  /**
   * @param {import("./held.cjs").Services} services
   * @param {import("./worker.cjs").WorkerOptions} options
   */
  constructor(services, options) {
    this.#services = services;
    this.#options = options;
  }

  /** @returns {Promise<number>} the exit status; it does not reject */
  run() {
    return new Promise((resolve) => {
      this.#resolve = resolve;
      surviveClosedLog();
      process.on("SIGTERM", this.#onSigterm); // Before the connect, because ojs-init may send it from then on.
      const path = this.#options.socketPath ?? process.env.OJS_SOCKET;
      if (path) this.#connect(path);
      else this.#fail(`OJS_SOCKET is not set${whyNoSocket()}`);
    });
  }

  /** Takes no more jobs and ends once those that are held are answered. */
  stop() {
    if (this.#isStopAsked) return;
    this.#isStopAsked = true;
    if (!this.#isGreeted || this.#isEnding) return;
    // Jobs may be on their way until ojs-init has read that no more are taken.
    this.#write(this.#ready(0));
    this.#write({ type: "heartbeat", job_id: NO_JOB });
  }

  /** @param {string} path */
  #connect(path) {
    const socket = (this.#socket = createConnection({ path }));
    this.#link = new Link(socket, () => this.#exitIfIdle());
    this.#held = new HeldJobs(this.#services, this.#link, () => this.#exitIfIdle());
    socket.on("data", (chunk) => this.#read(chunk));
    socket.on("end", () => this.#closed());
    socket.on("close", () => this.#closed());
    socket.on("error", (error) => {
      if (!socket.connecting && socket.bytesRead > 0) return this.#closed();
      this.#fail(`cannot connect to ${path} (${error.message}). Does ojs-init run, as the same user?`);
    });
  }

  /** @param {object} frame */
  #write(frame) {
    this.#link.write(JSON.stringify(frame));
  }

  /** @param {Buffer} chunk */
  #read(chunk) {
    for (const line of this.#lines.push(chunk)) {
      if (this.#isOver || this.#isClosed) return;
      let frame;
      try {
        frame = parseJson(line);
      } catch {
        // Logged below without the error, whose message quotes the line: arguments do not belong
        // into a log.
      }
      if (typeof frame?.type === "string") this.#receive(frame);
      else this.#refuse(line);
    }
  }

  /**
   * Fails a job that the parser refuses, for example because it is nested too deep.
   * @param {string} line
   */
  #refuse(line) {
    const id = JOB_ID.exec(line)?.[1];
    const error = { retryable: false, code: "invalid_job", message: "Node.js cannot read the job" };
    if (id !== undefined) this.#write({ type: "fail", job_id: JSON.parse(id), error });
    this.#services.log("ignored a line from ojs-init that is not a frame", "warn");
  }

  /** @param {Record<string, any>} frame */
  #receive(frame) {
    if (frame.type === "job") this.#held.take(frame);
    else if (frame.type === "cancel") this.#held.cancel(frame.job_id, frame.reason, frame.grace_ms);
    else if (frame.type === "ping") this.#write({ type: "pong", id: frame.id });
    else if (frame.type === "hello") this.#onHello(frame);
    else if (frame.type === "lifecycle") this.#onLifecycle(frame);
    else if (frame.type === "error") this.#onError(frame);
    // `ok` needs nothing, and frames of a later version are for later clients.
  }

  /** @param {Record<string, any>} frame */
  #onHello(frame) {
    if (frame.protocol !== PROTOCOL) {
      return this.#fail(`ojs-init speaks protocol ${frame.protocol}, this library only ${PROTOCOL}: update the library`);
    }
    this.#isGreeted = true;
    if (frame.max_frame > 0) this.#held.maxFrame = frame.max_frame;
    this.state = String(frame.state ?? this.state);
    if (this.state === "terminate" || this.#isStopAsked) return this.#end(0);
    const offered = frame.concurrency > 0 ? frame.concurrency : 1;
    const ready = this.#ready(Math.min(this.#options.concurrency ?? offered, offered));
    const size = Buffer.byteLength(JSON.stringify(ready));
    if (size > this.#held.maxFrame) {
      const most = `ojs-init takes ${this.#held.maxFrame} (worker.max_frame)`;
      return this.#fail(`the ready with the job types has ${size} bytes, and ${most}`);
    }
    this.#write(ready);
  }

  /** @param {number} concurrency */
  #ready(concurrency) {
    const { types } = this.#services.registry;
    const [ping, client] = [Boolean(this.#options.ping), String(this.#options.client)];
    return { type: "ready", protocol: PROTOCOL, concurrency, types, ping, ok: false, client };
  }

  /** @param {Record<string, any>} frame */
  #onLifecycle(frame) {
    this.state = String(frame.state);
    // Nothing to do for quiet and running: ojs-init decides which jobs it sends.
    if (this.state === "terminate") {
      this.#held.terminate(frame.remaining_ms);
      this.#endWhenIdle();
    }
    this.#services.log(`${frame.state} (${frame.reason})`, "info");
  }

  /** @param {Record<string, any>} frame */
  #onError({ code, message, job_id: id }) {
    if (id === NO_JOB) return this.#endWhenIdle();
    if (code === "unsupported_protocol") return this.#fail(`ojs-init refuses protocol ${PROTOCOL}: ${message}`);
    // A backend without progress answers each progress so: one line is enough.
    if (code === "not_offered" && this.#saidNotOffered) return;
    this.#saidNotOffered ||= code === "not_offered";
    this.#services.log(`error ${code} from ojs-init: ${message}${id === undefined ? "" : ` (job ${id})`}`, "warn");
  }

  /** Only a `cancel` frame ends handlers. SIGTERM ends the worker once they have ended. */
  #onSigterm = () => {
    if (this.#isGreeted) this.stop();
    else this.#end(0);
  };

  #endWhenIdle() {
    this.#isEnding = true;
    this.#exitIfIdle();
  }

  #exitIfIdle() {
    if (!this.#isEnding || this.#isOver || this.#held.jobs.size > 0) return;
    if (this.#isClosed) this.#end(1);
    else if (this.#link.isWritten) this.#end(0);
  }

  /** ojs-init is gone, or has given up on this process: nobody takes answers any more. */
  #closed() {
    if (this.#isOver || this.#isClosed) return;
    this.#isClosed = true;
    const held = this.#held.jobs.size;
    if (held === 0) {
      this.#end(0);
    } else {
      this.#isEnding = true;
      setTimeout(() => this.#end(1), CLEANUP_TIME); // Also if handlers hang.
      this.#held.abandon();
    }
    this.#services.log("ojs-init closed the socket; this worker ends", held > 0 ? "error" : "warn");
  }

  /** @param {string} message */
  #fail(message) {
    this.#services.log(message, "error");
    this.#end(1);
  }

  /** @param {number} status */
  #end(status) {
    this.#isOver = true;
    process.off("SIGTERM", this.#onSigterm);
    // ojs-init sends SIGTERM to a worker that is about to exit. That must not end it with a signal.
    if (process.listenerCount("SIGTERM") === 0) process.on("SIGTERM", () => {});
    // The connection stays open until the process ends, but is no reason for the process to go on.
    this.#socket?.unref();
    this.#resolve(status); // Only the first status counts.
  }
}

module.exports = { Session };
