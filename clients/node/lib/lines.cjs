// Lines in, lines out.
"use strict";

/** Cuts a stream of bytes into lines. */
class LineReader {
  /** Pieces of the line that is not complete; joined once, or a frame of megabytes would be copied for each read.
   * @type {Buffer[]} */
  #pieces = [];

  /**
   * @param {Uint8Array} bytes
   * @returns {Generator<string>} the lines that are complete now
   */
  *push(bytes) {
    const chunk = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
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

/** @typedef {"progress" | "checkpoint" | "heartbeat"} ReportKind */
/** @typedef {{ line: string, isOut: Promise<boolean>, tell: (isOut: boolean) => void }} Waiting */

/** @param {string} line @returns {Waiting} */
function waiting(line) {
  /** @type {(isOut: boolean) => void} */
  let tell = () => {};
  const isOut = new Promise((/** @type {(isOut: boolean) => void} */ resolve) => (tell = resolve));
  return { line, isOut, tell };
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
  /** @type {Map<object, Map<ReportKind, Waiting>>} by job and kind */
  #waiting = new Map();

  /** @param {import("node:net").Socket} socket */
  constructor(socket) {
    this.#socket = socket;
    socket.on("drain", () => this.#writeWaiting());
    socket.on("close", () => this.#abandon());
  }

  /** @param {string} line @param {(isOut: boolean) => void} [tell] called once: whether it is with the kernel */
  write(line, tell) {
    this.#unwritten++;
    this.#socket.write(line + "\n", (error) => {
      tell?.(!error);
      if (--this.#unwritten === 0) this.#whenWritten?.();
    });
  }

  /**
   * @param {object} job
   * @param {ReportKind} kind
   * @param {string} line
   * @returns {Promise<boolean>} whether it, or a newer one that took its place, is with the kernel
   */
  offer(job, kind, line) {
    const ofJob = this.#waiting.get(job) ?? new Map();
    const older = ofJob.get(kind);
    const item = older ? { ...older, line } : waiting(line);
    if (this.#socket.writableNeedDrain) this.#waiting.set(job, ofJob.set(kind, item));
    else this.write(line, item.tell);
    return item.isOut;
  }

  /**
   * Before the answer: what the next attempt needs goes out first. The rest means nothing any more, and may not
   * follow the answer.
   * @param {object} job
   */
  settle(job) {
    const ofJob = this.#waiting.get(job);
    const checkpoint = ofJob?.get("checkpoint");
    this.#waiting.delete(job);
    for (const item of ofJob?.values() ?? []) if (item !== checkpoint) item.tell(false);
    if (checkpoint !== undefined) this.write(checkpoint.line, checkpoint.tell);
  }

  /** @param {() => void} callback once all is with the kernel, where the end of this process does not touch it */
  whenWritten(callback) {
    this.#whenWritten = callback;
    if (this.#unwritten === 0) callback();
  }

  #writeWaiting() {
    const all = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const ofJob of all) for (const { line, tell } of ofJob.values()) this.write(line, tell);
  }

  #abandon() {
    for (const ofJob of this.#waiting.values()) {
      for (const { tell } of ofJob.values()) tell(false);
    }
    this.#waiting.clear();
  }
}

module.exports = { LineReader, LineWriter };
