// Several processes in place of one: the parent, and a child's line to it.
"use strict";

const { constants } = require("node:os");

/** Its types are those of the ESM form, where it is the default. */
const cluster = /** @type {import("node:cluster").Cluster} */ (/** @type {unknown} */ (require("node:cluster")));

const RUN_OPTIONS = ["processes", "maxJobs", "maxAge", "maxMemory"];

/** Tells a child its share, and that it is one. */
const SHARE = "OJS_WORKER_SHARE";
const DEFAULT_CONCURRENCY = 10;
const MAX_PROCESSES = 1_000;
const MAX_SECONDS = 30 * 24 * 3_600;

/** A child that lives less long than this, in milliseconds, died young. */
const YOUNG = 10_000;
/** Milliseconds before one that died young twice is replaced; it doubles each time. */
const FIRST_PAUSE = 100;
const LONGEST_PAUSE = 5_000;

/** Before so many jobs, and so many milliseconds, memory does not count: a cache has to fill first. */
const MEMORY_JOBS = 10;
const MEMORY_AGE = 60_000;
const LOOK_EVERY = 1_000;
/** Milliseconds that a child's last word may take. */
const LAST_WORD = 200;

/**
 * @typedef {object} RunOptions
 * @property {number} [processes] how many; each takes its share of the concurrency
 * @property {number} [maxJobs] jobs after which a process is replaced; it does a few more until the next one is ready
 * @property {number} [maxAge] the same in seconds
 * @property {number} [maxMemory] the same in bytes of resident memory; counts after 10 jobs or a minute
 */

/** @typedef {"ready" | "worn" | "over" | "finish"} Word */

/** A child's line to its parent. */
class Child {
  #limits;
  #jobs = 0;
  #bornAt = performance.now();
  #lookedAt = 0;
  #isWorn = false;
  #maxMemory;

  /** @param {number} share @param {RunOptions} limits */
  constructor(share, limits) {
    /** @readonly how many jobs at once */
    this.share = share;
    this.#limits = limits;
    this.#maxMemory = limits.maxMemory ?? Infinity;
    // Without its parent a child goes on: ojs-init sees to it. Node would end it here, with its jobs.
    const self = cluster.worker;
    self?.on("disconnect", () => void (self.exitedAfterDisconnect = true));
  }

  /**
   * The connection takes jobs.
   * @param {() => void} retire called when another process has taken this one's place
   * @param {() => void} finish called when the worker as a whole is to end
   */
  ready(retire, finish) {
    process.on("message", (/** @type {any} */ message) => {
      if (message?.ojs_worker === "retire") retire();
      if (message?.ojs_worker === "finish") finish();
    });
    const memory = process.memoryUsage.rss();
    // Another one would be no smaller: replacing it would never end.
    const isLarge = memory >= this.#maxMemory;
    if (isLarge) this.#maxMemory = Infinity;
    tell("ready", isLarge ? memory : undefined);
    if (this.#limits.maxAge === undefined && this.#maxMemory === Infinity) return;
    setInterval(() => this.#look(), LOOK_EVERY).unref();
  }

  /** The worker as a whole is to end, this process as well. */
  finish() {
    tell("finish");
  }

  /** A job is answered. */
  jobDone() {
    this.#jobs++;
    this.#look();
  }

  /** The worker as a whole ends, and no other process shall begin. @param {() => void} then */
  over(then) {
    const timer = setTimeout(then, LAST_WORD);
    tell("over", undefined, () => {
      clearTimeout(timer);
      then();
    });
  }

  #look() {
    if (this.#isWorn || !this.#shallGo()) return;
    this.#isWorn = true;
    tell("worn");
  }

  #shallGo() {
    const { maxJobs = Infinity, maxAge = Infinity } = this.#limits;
    const now = performance.now();
    const age = now - this.#bornAt;
    if (this.#jobs >= maxJobs || age >= maxAge * 1000) return true;
    if (this.#maxMemory === Infinity || (this.#jobs < MEMORY_JOBS && age < MEMORY_AGE)) return false;
    if (now - this.#lookedAt < LOOK_EVERY) return false;
    this.#lookedAt = now;
    return process.memoryUsage.rss() >= this.#maxMemory;
  }
}

/** @param {Word} word @param {number} [memory] @param {() => void} [told] */
function tell(word, memory, told = () => {}) {
  // A parent that is gone is no reason to end: ojs-init sees to that.
  if (process.connected && process.send) process.send({ ojs_worker: word, memory }, undefined, undefined, told);
  else told();
}

/** @typedef {import("node:cluster").Worker} Fork */

/** A place that one process has at a time. */
class Slot {
  /** @type {Fork | undefined} */
  current;
  /** @type {Fork | undefined} the one that is to take its place, until it is ready */
  next;
  /** How many died young, one after another. */
  young = 0;
  /** @type {NodeJS.Timeout | undefined} */
  timer;

  /** @param {number} number @param {number} share */
  constructor(number, share) {
    this.number = number;
    this.share = share;
  }
}

/** The process that starts the others. It holds no connection. */
class Parent {
  #slots;
  #log;
  #maxMemory;
  /** @type {Slot[]} those that want a new process; one at a time, so that there is never more than one too many */
  #worn = [];
  /** @type {Fork | undefined} replaced already, at its last jobs */
  #leaving;
  /** @type {Slot | undefined} */
  #replacing;
  /** @type {Map<Fork, { slot: Slot, bornAt: number, isReady: boolean }>} */
  #alive = new Map();
  #isStopping = false;
  #saidMemory = false;
  #worst = 0;
  /** @type {(status: number) => void} */
  #resolve = () => {};

  /** @param {number[]} shares @param {RunOptions} options @param {(text: string) => void} log */
  constructor(shares, options, log) {
    this.#slots = shares.map((share, index) => new Slot(index + 1, share));
    this.#maxMemory = options.maxMemory;
    this.#log = log;
  }

  /** @returns {Promise<number>} the worst status, when all have ended */
  run() {
    return new Promise((resolve) => {
      this.#resolve = resolve;
      for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, this.#onSignal);
      for (const slot of this.#slots) this.#fork(slot, "current");
    });
  }

  /** @param {Slot} slot @param {"current" | "next"} place */
  #fork(slot, place) {
    /** @type {Fork} */
    let fork;
    try {
      fork = cluster.fork({ [SHARE]: String(slot.share) });
    } catch (error) {
      return this.#notBegun(slot, place, error); // Most errors are an event, but not all.
    }
    slot[place] = fork;
    this.#alive.set(fork, { slot, bornAt: performance.now(), isReady: false });
    fork.on("message", (message) => this.#onMessage(fork, message));
    fork.on("error", (error) => {
      // One that has a pid has lost its channel only; "exit" tells. One without never began, and "exit" does not come.
      if (fork.process.pid === undefined) this.#onNotBegun(fork, error);
    });
    fork.on("exit", (code, signal) => this.#onExit(fork, code, /** @type {NodeJS.Signals | null} */ (signal)));
  }

  /** @param {Fork} fork @param {Error} error */
  #onNotBegun(fork, error) {
    const slot = this.#alive.get(fork)?.slot;
    this.#alive.delete(fork);
    if (cluster.workers) delete cluster.workers[fork.id]; // Only "exit" would do that.
    if (slot === undefined) return;
    if (this.#isStopping) return this.#endIfAlone();
    const place = fork === slot.next ? "next" : "current";
    slot[place] = undefined;
    this.#notBegun(slot, place, error);
  }

  /** No process, mostly since there are too many of them or too little memory. @param {Slot} slot @param {"current" | "next"} place @param {any} error */
  #notBegun(slot, place, error) {
    const pause = Math.max(FIRST_PAUSE, pauseAfter(slot, 0));
    this.#log(`process ${slot.number} cannot be started (${error.message}); another try is in ${pause} ms`);
    if (place === "next") return this.#nextDied(slot, pause);
    slot.timer = setTimeout(() => this.#fork(slot, "current"), pause);
  }

  /** @param {Fork} fork @param {any} message */
  #onMessage(fork, message) {
    const slot = this.#alive.get(fork)?.slot;
    if (slot === undefined) return;
    switch (message?.ojs_worker) {
      case "ready":
        return this.#onReady(fork, slot, message.memory);
      case "worn":
        this.#worn.push(slot);
        return this.#replaceOne();
      case "over":
        return this.#stop();
      case "finish":
        return this.finish();
    }
  }

  /** @param {Fork} fork @param {Slot} slot @param {number | undefined} memory */
  #onReady(fork, slot, memory) {
    const life = this.#alive.get(fork);
    if (life) life.isReady = true;
    if (memory !== undefined && !this.#saidMemory) {
      this.#saidMemory = true;
      const numbers = `it has ${memory} bytes before its first job, and maxMemory is ${this.#maxMemory}`;
      this.#log(`a process is larger than it may be right after its start: ${numbers}. maxMemory is not applied to it; raise it`);
    }
    if (slot.next !== fork) return;
    const old = slot.current;
    slot.current = fork;
    slot.next = undefined;
    this.#replacing = undefined;
    this.#leaving = old;
    if (old?.isConnected()) old.send({ ojs_worker: "retire" });
  }

  /** Starts the next replacement, when the one before is through. */
  #replaceOne() {
    if (this.#isStopping || this.#leaving || this.#replacing) return;
    const slot = this.#worn.shift(); // Of those that are alive: who dies is taken out.
    if (slot === undefined) return;
    this.#replacing = slot;
    this.#fork(slot, "next");
  }

  /** @param {Fork} fork @param {number | null} code @param {NodeJS.Signals | null} signal */
  #onExit(fork, code, signal) {
    const life = this.#alive.get(fork);
    this.#alive.delete(fork);
    if (life === undefined) return;
    if (this.#isStopping) {
      // One that was just starting held nothing: the signal that we sent ended it, and that is in order.
      const isEarly = !life.isReady && signal === "SIGTERM";
      this.#worst = Math.max(this.#worst, isEarly ? 0 : statusOf(code, signal));
      return this.#endIfAlone();
    }
    const { slot } = life;
    if (fork === this.#leaving) {
      this.#leaving = undefined;
      if (statusOf(code, signal) !== 0) this.#say(fork, slot, code, signal, "another has its place already");
      return this.#replaceOne();
    }
    const pause = pauseAfter(slot, performance.now() - life.bornAt);
    this.#say(fork, slot, code, signal, pause === 0 ? "another is started" : `another is started in ${pause} ms`);
    if (fork === slot.next) return this.#nextDied(slot, pause);
    this.#worn = this.#worn.filter((each) => each !== slot);
    slot.current = slot.next; // The replacement is on its way already.
    slot.next = undefined;
    if (slot.current) {
      this.#replacing = undefined;
      return this.#replaceOne();
    }
    slot.timer = setTimeout(() => this.#fork(slot, "current"), pause);
  }

  /** @param {Slot} slot @param {number} pause */
  #nextDied(slot, pause) {
    slot.next = undefined;
    slot.timer = setTimeout(() => {
      this.#replacing = undefined;
      if (slot.current) this.#worn.unshift(slot);
      this.#replaceOne();
    }, pause);
  }

  /** @param {Fork} fork @param {Slot} slot @param {number | null} code @param {string | null} signal @param {string} then */
  #say(fork, slot, code, signal, then) {
    const how = signal ? `was ended by ${signal}` : `ended with status ${code}`;
    this.#log(`process ${slot.number} (pid ${fork.process.pid}) ${how}; ${then}`);
  }

  /** No more jobs, for none of them; those that are held are finished. */
  finish() {
    this.#stop();
    for (const [fork, { isReady }] of this.#alive) {
      if (isReady && fork.isConnected()) fork.send({ ojs_worker: "finish" });
      else fork.process.kill("SIGTERM"); // It holds nothing yet.
    }
  }

  #onSignal = () => {
    this.#stop();
    for (const fork of this.#alive.keys()) fork.process.kill("SIGTERM");
  };

  #stop() {
    this.#isStopping = true;
    for (const slot of this.#slots) clearTimeout(slot.timer);
    this.#endIfAlone();
  }

  #endIfAlone() {
    if (this.#alive.size === 0) this.#resolve(this.#worst);
  }
}

/** @param {Slot} slot @param {number} lived how long its process did, in milliseconds @returns {number} until the next one */
function pauseAfter(slot, lived) {
  slot.young = lived < YOUNG ? slot.young + 1 : 0;
  return slot.young < 2 ? 0 : Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (slot.young - 2));
}

/** @param {number | null} code @param {NodeJS.Signals | null} signal */
function statusOf(code, signal) {
  if (signal) return 128 + constants.signals[signal];
  return code ?? 1;
}

/** @param {RunOptions} options @returns {Child | undefined} what this process is, if a parent of ours started it */
function thisChild(options) {
  const share = process.env[SHARE];
  if (!cluster.isWorker || share === undefined) return undefined;
  delete process.env[SHARE]; // What a handler starts is no child of this kind.
  return new Child(Number(share), options);
}

/**
 * @param {RunOptions} options
 * @param {number | undefined} concurrency of all together
 * @param {(text: string) => void} log
 * @returns {Parent | undefined} of them; undefined when one process is enough
 */
function parentOf(options, concurrency, log) {
  check(options);
  const { processes } = options;
  if (processes === undefined) return undefined;
  if (!cluster.isPrimary) {
    throw new Error("processes: this process is a child of your own cluster; leave the option out, or call start in the parent");
  }
  const offered = Number(process.env.OJS_CONCURRENCY ?? DEFAULT_CONCURRENCY);
  const known = Number.isSafeInteger(offered) && offered > 0 ? offered : DEFAULT_CONCURRENCY;
  const total = Math.min(concurrency ?? known, known);
  const count = Math.min(processes, total);
  if (count < processes) log(`${processes} processes, but only ${total} jobs at once: ${count} processes are started`);
  const rest = total % count;
  const shares = Array.from({ length: count }, (_, index) => Math.floor(total / count) + (index < rest ? 1 : 0));
  return new Parent(shares, options, log);
}

/** @param {RunOptions} options */
function check({ processes, maxJobs, maxAge, maxMemory }) {
  checkWhole("processes", processes, MAX_PROCESSES);
  checkWhole("maxJobs", maxJobs, Number.MAX_SAFE_INTEGER);
  checkWhole("maxMemory", maxMemory, Number.MAX_SAFE_INTEGER);
  if (maxAge !== undefined && !(typeof maxAge === "number" && maxAge > 0 && maxAge <= MAX_SECONDS)) {
    throw new RangeError(`maxAge: give a number of seconds above 0, ${MAX_SECONDS} at most`);
  }
  if (processes === undefined && (maxJobs ?? maxAge ?? maxMemory) !== undefined) {
    throw new TypeError("maxJobs, maxAge and maxMemory need processes: worker.run({ processes: 1, maxJobs: 1000 })");
  }
}

/** @param {string} name @param {unknown} value @param {number} most */
function checkWhole(name, value, most) {
  if (value === undefined || (Number.isSafeInteger(value) && Number(value) >= 1 && Number(value) <= most)) return;
  throw new RangeError(`${name}: give an integer from 1 to ${most}`);
}

module.exports = { Child, Parent, RUN_OPTIONS, parentOf, thisChild };
