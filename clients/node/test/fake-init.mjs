// The side of ojs-init, as much of it as the tests need: a socket, frames out, frames in, in order.
// Nothing here waits for a time: each wait ends with a frame or the end of the connection, or the
// test's own timeout.

import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { once } from "node:events";
import { Worker } from "../ojs-worker.mjs";

export const HELLO = {
  type: "hello",
  protocol: 1,
  worker_id: "worker_test",
  state: "running",
  concurrency: 10,
  queues: ["default"],
  max_frame: 4194304,
};

/** One connection of a worker, seen from ojs-init. */
class Connection {
  #socket;
  #rest = "";
  #lines = [];
  #waiting = [];
  #ended = false;

  constructor(socket) {
    this.#socket = socket;
    socket.setEncoding("utf8");
    socket.on("data", (text) => this.#onData(text));
    socket.on("error", () => {});
    socket.on("close", () => this.#onClose());
  }

  #onData(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop();
    for (const line of lines) this.#give(line);
  }

  #give(line) {
    const waiting = this.#waiting.shift();
    if (waiting) waiting(line);
    else this.#lines.push(line);
  }

  #onClose() {
    this.#ended = true;
    for (const waiting of this.#waiting.splice(0)) waiting(undefined);
  }

  /** @param {...(object | string)} frames in one write */
  send(...frames) {
    const lines = frames.map((frame) => (typeof frame === "string" ? frame : JSON.stringify(frame)));
    this.#socket.write(lines.map((line) => line + "\n").join(""));
  }

  /** Bytes as they are. */
  sendRaw(bytes) {
    return new Promise((resolve) => this.#socket.write(bytes, resolve));
  }

  /** @returns {Promise<string | undefined>} the next line; undefined at the end */
  line() {
    if (this.#lines.length > 0) return Promise.resolve(this.#lines.shift());
    if (this.#ended) return Promise.resolve(undefined);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** @returns {Promise<any>} the next frame */
  async frame() {
    const line = await this.line();
    if (line === undefined) throw new Error("the worker closed the connection instead of sending a frame");
    return JSON.parse(line);
  }

  /**
   * All frames up to the pong of a ping that is sent now: what the worker had to say until then.
   */
  async framesUntilPong() {
    const id = 987654321;
    this.send({ type: "ping", id });
    const frames = [];
    for (;;) {
      const frame = await this.frame();
      if (frame.type === "pong" && frame.id === id) return frames;
      frames.push(frame);
    }
  }

  pause() {
    this.#socket.pause();
  }

  resume() {
    this.#socket.resume();
  }

  close() {
    this.#socket.destroy();
  }
}

/** A listening socket, removed with the test. @param {import("node:test").TestContext} t */
export async function listen(t) {
  const dir = mkdtempSync(join(tmpdir(), "ojs-node-"));
  const path = join(dir, "s");
  const server = createServer();
  const sockets = new Set();
  server.on("connection", (socket) => sockets.add(socket));
  server.listen(path);
  await once(server, "listening");
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
    rmSync(dir, { recursive: true, force: true });
  });
  const accept = async () => new Connection((await once(server, "connection"))[0]);
  return { path, accept };
}

/**
 * A worker in this process that is connected, greeted and ready.
 * @param {import("node:test").TestContext} t
 * @param {import("../ojs-worker.mjs").WorkerOptions} options
 * @param {object} [hello] other fields for hello
 */
export async function startWorker(t, options, hello = {}) {
  const { path, accept } = await listen(t);
  const log = [];
  const worker = new Worker({ socketPath: path, log: (text, severity, error) => log.push([severity, text, error]), ...options });
  const accepted = accept();
  const status = worker.run();
  const init = await accepted;
  init.send({ ...HELLO, ...hello });
  const ready = await init.frame();
  return { init, status, log, ready, worker };
}

/**
 * A job frame.
 * @param {string} type
 * @param {any[]} [args]
 * @param {object} [more] of the envelope
 */
export function job(type, args = [], { id = "j1", ...more } = {}) {
  return { type: "job", job: { id, type, queue: "default", attempt: 0, args, ...more } };
}

export const cancel = (reason, graceMs = 1000) => ({ type: "cancel", job_id: "j1", reason, grace_ms: graceMs });

export const terminate = { type: "lifecycle", state: "terminate", reason: "sigterm", remaining_ms: 60_000 };
