// The lines of one connection to ojs-init.
"use strict";

/** @typedef {"progress" | "checkpoint" | "heartbeat"} ReportKind */
/** @typedef {{ line: string, written: Promise<boolean>, settle: (isWritten: boolean) => void }} Waiting */

/** Cuts a stream of bytes into lines. */
class LineReader {
  /** Pieces of the incomplete line, joined once: a frame of megabytes would else be copied at each read. @type {Buffer[]} */
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
      const line = this.#pieces.length === 1 ? this.#pieces[0] : Buffer.concat(this.#pieces);
      this.#pieces = [];
      yield line.toString("utf8"); // Only whole lines: a read may end inside a character.
    }
    if (from < chunk.length) this.#pieces.push(chunk.subarray(from));
  }
}

/** @param {string} line @returns {Waiting} */
function waiting(line) {
  /** @type {(isWritten: boolean) => void} */
  let settle = () => {};
  const written = new Promise((/** @type {(isWritten: boolean) => void} */ resolve) => (settle = resolve));
  return { line, written, settle };
}

/**
 * Writes frames. Answers are always written, because there are no more of them than jobs. While the socket is full, the
 * link keeps only the newest report of each kind of a job.
 */
class Link {
  #socket;
  #unwritten = 0;
  /** @type {(() => void) | undefined} */
  #onWritten;
  /** @type {Map<object, Map<ReportKind, Waiting>>} by job and kind */
  #waiting = new Map();

  /** @param {import("node:net").Socket} socket */
  constructor(socket) {
    this.#socket = socket;
    socket.on("drain", () => this.#writeWaiting());
    socket.on("close", () => this.#abandon());
  }

  /** @param {string} line @param {(isWritten: boolean) => void} [settle] called once the kernel has the line, or never will */
  write(line, settle) {
    this.#unwritten++;
    this.#socket.write(line + "\n", (error) => {
      settle?.(!error);
      if (--this.#unwritten === 0) this.#onWritten?.();
    });
  }

  /**
   * @param {object} job
   * @param {ReportKind} kind
   * @param {string} line
   * @returns {Promise<boolean>} whether the kernel has the line, or a newer one that took its place
   */
  report(job, kind, line) {
    const ofJob = this.#waiting.get(job) ?? new Map();
    const older = ofJob.get(kind);
    const item = older ? { ...older, line } : waiting(line);
    if (this.#socket.writableNeedDrain) this.#waiting.set(job, ofJob.set(kind, item));
    else this.write(line, item.settle);
    return item.written;
  }

  /** Before the answer of a job: its newest checkpoint goes out first, and its other reports are dropped. @param {object} job */
  settle(job) {
    const ofJob = this.#waiting.get(job);
    const checkpoint = ofJob?.get("checkpoint");
    this.#waiting.delete(job);
    for (const item of ofJob?.values() ?? []) if (item !== checkpoint) item.settle(false);
    if (checkpoint !== undefined) this.write(checkpoint.line, checkpoint.settle);
  }

  /** @param {() => void} callback called once the kernel has all frames, which then outlive this process */
  whenWritten(callback) {
    this.#onWritten = callback;
    if (this.#unwritten === 0) callback();
  }

  #writeWaiting() {
    const all = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const ofJob of all) for (const { line, settle } of ofJob.values()) this.write(line, settle);
  }

  #abandon() {
    for (const ofJob of this.#waiting.values()) for (const { settle } of ofJob.values()) settle(false);
    this.#waiting.clear();
  }
}

module.exports = { LineReader, Link };
