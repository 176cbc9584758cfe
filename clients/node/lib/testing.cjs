// For tests of whole workers: the development server.
"use strict";

const { spawn } = require("node:child_process");
const { existsSync, mkdtempSync, readFileSync, rmSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { join } = require("node:path");
const { setTimeout: sleep } = require("node:timers/promises");
const { checkNames } = require("./errors.cjs");

/** Milliseconds. */
const START_WITHIN = 10_000;
const LOOK_EVERY = 20;
const ANSWER_WITHIN = 10_000;

/** `ojs-devserver` is not there. Skip the test, or install it. */
class DevserverMissing extends Error {
  /** @param {string} program */
  constructor(program) {
    super(`${program} is not there: "cargo build -p ojs-devserver" in the sources of ojs-init makes it; put it on PATH, or name it in OJS_DEVSERVER`);
    this.name = "DevserverMissing";
  }
}

/** A development server that runs: a backend in memory. */
class Devserver {
  #process;
  #dir;

  /** @param {import("node:child_process").ChildProcess} child @param {string} dir @param {string} url */
  constructor(child, dir, url) {
    this.#process = child;
    this.#dir = dir;
    /** @readonly for OJS_URL */
    this.url = url;
  }

  /**
   * @param {string} type
   * @param {any[]} [args]
   * @param {Record<string, any>} [options] as the backend knows them: `queue`, `retry`, `timeout_ms`
   * @returns {Promise<any>} the job, with its `id`
   */
  async enqueue(type, args = [], options = {}) {
    return this.#ask("POST", "/ojs/v1/jobs", { type, args, options });
  }

  /** @param {string} id @returns {Promise<any>} the job as it is now: `state`, `result`, `errors` and the rest */
  job(id) {
    return this.#ask("GET", `/ojs/v1/jobs/${encodeURIComponent(id)}`, undefined);
  }

  /** Ends it; what it knew is gone. */
  async close() {
    const child = this.#process;
    if (child.exitCode === null && child.signalCode === null) {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGKILL"); // It keeps nothing that could be saved.
      await ended;
    }
    rmSync(this.#dir, { recursive: true, force: true });
  }

  /** @param {string} method @param {string} path @param {unknown} body @returns {Promise<any>} */
  async #ask(method, path, body) {
    const answer = await fetch(this.url + path, {
      method,
      headers: { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(ANSWER_WITHIN),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: the development server says ${answer.status}: ${text.slice(0, 500)}`);
    const parsed = JSON.parse(text);
    return parsed.job ?? parsed;
  }
}

/**
 * Starts the development server on a free port.
 * @param {{ program?: string, args?: string[] }} [options] `program`: in place of OJS_DEVSERVER and PATH; `args`: more
 * @returns {Promise<Devserver>} rejects with a DevserverMissing when there is none
 */
async function devserver(options = {}) {
  checkNames("testing.devserver()", options, ["program", "args"]);
  const program = options.program ?? (process.env.OJS_DEVSERVER || "ojs-devserver");
  const dir = mkdtempSync(join(tmpdir(), "ojs-devserver-"));
  const file = join(dir, "url");
  const args = ["--listen", "127.0.0.1:0", "--port-file", file, ...(options.args ?? [])];
  const child = spawn(program, args, { stdio: "ignore" });
  /** @type {Error | undefined} */
  let failed;
  child.on("error", (/** @type {NodeJS.ErrnoException} */ error) => {
    failed = error.code === "ENOENT" || error.code === "EACCES" ? new DevserverMissing(program) : error;
  });
  child.on("exit", (code, signal) => (failed ??= new Error(`${program} ended at its start, with ${signal ?? `status ${code}`}`)));
  const until = performance.now() + START_WITHIN;
  while (failed === undefined && performance.now() < until) {
    const url = existsSync(file) ? readFileSync(file, "utf8").trim() : "";
    if (url !== "") return new Devserver(child, dir, url);
    await sleep(LOOK_EVERY);
  }
  child.kill("SIGKILL");
  rmSync(dir, { recursive: true, force: true });
  throw failed ?? new Error(`${program} was not ready within ${START_WITHIN / 1000} s`);
}

module.exports = { Devserver, DevserverMissing, devserver };
