// The lines of one connection to ojs-init.
"use strict";

/** @typedef {"progress" | "checkpoint" | "heartbeat"} ReportKind */
/** @typedef {{ line: string, settle: (isWritten: boolean | Promise<boolean>) => void }} Waiting */

/** Cuts a stream of bytes into lines. */
class LineReader {
  /**
   * Pieces of the incomplete line, joined once: a frame of megabytes would else be copied at each
   * read.
   * @type {Buffer[]}
   */
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

/**
 * Writes frames. Answers are always written, because there are no more of them than jobs. While the
 * socket is full, the link keeps only the newest report of each kind of a job.
 */
class Link {
  #socket;
  #onWritten;
  #unwritten = 0;
  /** @type {Map<object, Map<ReportKind, Waiting>>} by job and kind */
  #waiting = new Map();

  /**
   * @param {import("node:net").Socket} socket
   * @param {() => void} onWritten called each time that `isWritten` has become true
   */
  constructor(socket, onWritten) {
    this.#socket = socket;
    this.#onWritten = onWritten;
    socket.on("drain", () => this.#release(({ line, settle }) => this.write(line, settle)));
    socket.on("close", () => this.#release(({ settle }) => settle(false)));
  }

  /**
   * @param {string} line
   * @param {(isWritten: boolean) => void} [settle] called once the kernel has the line, or never
   *   will
   */
  write(line, settle) {
    this.#unwritten++;
    this.#socket.write(line + "\n", (error) => {
      settle?.(!error);
      if (--this.#unwritten === 0) this.#onWritten();
    });
  }

  /**
   * @param {object} job
   * @param {ReportKind} kind
   * @param {string} line
   * @returns {Promise<boolean>} whether the kernel has the line, or a newer one that took its place
   */
  report(job, kind, line) {
    /** @type {Waiting | undefined} */
    let older;
    const written = new Promise((/** @type {Waiting["settle"]} */ settle) => {
      if (!this.#socket.writableNeedDrain) return this.write(line, settle);
      const ofJob = this.#waiting.get(job) ?? new Map();
      older = ofJob.get(kind);
      this.#waiting.set(job, ofJob.set(kind, { line, settle }));
    });
    older?.settle(written);
    return written;
  }

  /**
   * Before the answer of a job: its newest checkpoint goes out first, and its other reports are
   * dropped.
   * @param {object} job
   */
  settle(job) {
    const ofJob = this.#waiting.get(job);
    const checkpoint = ofJob?.get("checkpoint");
    this.#waiting.delete(job);
    for (const item of ofJob?.values() ?? []) if (item !== checkpoint) item.settle(false);
    if (checkpoint !== undefined) this.write(checkpoint.line, checkpoint.settle);
  }

  /** Whether the kernel has all frames, which then outlive this process. */
  get isWritten() {
    return this.#unwritten === 0;
  }

  /** @param {(item: Waiting) => void} act with each report that waits */
  #release(act) {
    const all = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const ofJob of all) for (const item of ofJob.values()) act(item);
  }
}

module.exports = { LineReader, Link };
