import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as nodeTest } from "node:test";
import { fileURLToPath } from "node:url";
import { HELLO } from "./fake-init.mjs";

/** The limit is for a hang, on the slowest machine. */
const test = (name, body) => nodeTest(name, { timeout: 120_000 }, body);

const WORKER = fileURLToPath(new URL("processes-worker.mjs", import.meta.url));

/** The side of ojs-init for many connections: it gives jobs to who has room, and knows who has which. */
class Pool {
  /** @type {Set<any>} connections that are open */
  open = new Set();
  /** How many connections there were. */
  count = 0;
  waiting = [];
  /** Jobs that are on their way when a worker says that it takes no more. */
  late = [];
  /** @type {any[]} answers, in order */
  answers = [];
  /** @type {string[]} jobs that were with a connection when it closed */
  lost = [];
  #changed = [];
  #isOver = false;

  connect(socket) {
    const connection = { socket, room: 0, most: 0, held: new Set(), number: ++this.count, rest: "" };
    this.open.add(connection);
    socket.setEncoding("utf8");
    socket.on("data", (text) => {
      const lines = (connection.rest + text).split("\n");
      connection.rest = lines.pop();
      for (const line of lines) this.#receive(connection, JSON.parse(line));
      this.give();
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      this.open.delete(connection);
      this.lost.push(...connection.held);
      this.#tell();
    });
    this.send(connection, { ...HELLO, state: this.#isOver ? "terminate" : "running" });
  }

  send(connection, frame) {
    connection.socket.write(JSON.stringify(frame) + "\n");
  }

  #receive(connection, frame) {
    if (frame.type === "ready") {
      if (frame.concurrency === 0) this.#giveOne(connection, this.late);
      connection.room = frame.concurrency;
      connection.most = Math.max(connection.most, frame.concurrency);
    } else if (connection.held.delete(frame.job_id)) this.answers.push({ ...frame, connection: connection.number });
    else this.send(connection, { type: "error", code: "not_held", message: "not held", job_id: frame.job_id });
    this.#tell();
  }

  give() {
    for (const connection of this.open) {
      while (connection.held.size < connection.room && this.waiting.length > 0) {
        this.#giveOne(connection, this.waiting);
      }
    }
  }

  #giveOne(connection, jobs) {
    const job = jobs.shift();
    if (job !== undefined) this.giveTo(connection, job);
  }

  giveTo(connection, job) {
    connection.held.add(job.id);
    this.send(connection, { type: "job", job });
  }

  enqueue(type, count, args = [], first = 0) {
    for (let n = first; n < first + count; n++) this.waiting.push({ id: `${type}-${n}`, type, args, queue: "default", attempt: 1 });
    this.give();
  }

  #tell() {
    for (const check of this.#changed) check();
  }

  /** Waits until something is so. */
  until(isSo) {
    return new Promise((resolve) => {
      const check = () => isSo() && resolve(undefined);
      this.#changed.push(check);
      check();
    });
  }

  terminate() {
    this.#isOver = true;
    for (const connection of this.open) {
      connection.room = 0;
      this.send(connection, { type: "lifecycle", state: "terminate", reason: "sigterm", remaining_ms: 25000 });
    }
  }

  get shares() {
    return [...this.open].map(({ most }) => most).sort();
  }
}

async function start(t, run, env = {}) {
  const dir = mkdtempSync(join(tmpdir(), "ojs-node-"));
  const path = join(dir, "s");
  const pool = new Pool();
  const server = createServer((socket) => pool.connect(socket));
  server.listen(path);
  await once(server, "listening");
  const { NODE_TEST_CONTEXT: _, ...clean } = process.env;
  const child = spawn(process.execPath, [WORKER], {
    env: { ...clean, OJS_CONCURRENCY: "10", ...env, OJS_SOCKET: path, RUN: JSON.stringify(run) },
    stdio: ["ignore", "inherit", "pipe"],
  });
  let log = "";
  child.stderr.setEncoding("utf8").on("data", (text) => (log += text));
  const ended = once(child, "exit");
  t.after(() => {
    if (child.exitCode === null) child.kill("SIGKILL");
    for (const { socket } of pool.open) socket.destroy(); // Then the children end, too.
    server.close();
    rmSync(dir, { recursive: true, force: true });
  });
  return { pool, child, ended, log: () => log };
}

test("each process has its share, and a terminate ends all of them with status 0", async (t) => {
  const { pool, ended } = await start(t, { processes: 3 });
  await pool.until(() => pool.shares.join() === "3,3,4");
  pool.enqueue("share", 3);
  await pool.until(() => pool.answers.length === 3);
  assert.deepEqual(pool.answers.map(({ result }) => result), [null, null, null]);
  pool.terminate();
  assert.deepEqual(await ended, [0, null]);
});

test("no process has a share of none", async (t) => {
  const { pool, ended, log } = await start(t, { processes: 4 }, { OJS_CONCURRENCY: "2" });
  await pool.until(() => pool.shares.join() === "1,1");
  pool.terminate();
  assert.deepEqual(await ended, [0, null]);
  assert.match(log(), /4 processes, but only 2 jobs at once/);
});

test("stop in one of several processes ends all of them with status 0, when what they hold is finished", async (t) => {
  const { pool, ended } = await start(t, { processes: 2 });
  await pool.until(() => pool.shares.join() === "5,5");
  pool.enqueue("pid", 6, [300]);
  pool.enqueue("stop", 1);
  assert.deepEqual(await ended, [0, null]);
  assert.deepEqual([pool.answers.filter(({ type }) => type === "ack").length, pool.lost, pool.count], [7, [], 2]);
});

test("a process that dies is replaced", async (t) => {
  const { pool, ended, log } = await start(t, { processes: 2 });
  await pool.until(() => pool.shares.join() === "5,5");
  pool.enqueue("die", 1);
  await pool.until(() => pool.count === 3 && pool.shares.join() === "5,5");
  assert.deepEqual(pool.lost, ["die-0"]);
  assert.match(log(), /was ended by SIGKILL; another is started/);
  pool.terminate();
  assert.deepEqual(await ended, [0, null]);
});

const numbers = (from, to) => Array.from({ length: to - from }, (_, index) => from + index);

for (const how of ["throws", "tells"]) {
  const broken = (...starts) => ({ BROKEN: JSON.stringify({ how, starts }) });

  test(`a process that cannot be started is tried again after a pause (the start ${how})`, async (t) => {
    const { pool, ended, log } = await start(t, { processes: 2 }, broken(2, 3, 5));
    await pool.until(() => pool.shares.join() === "5,5");
    assert.equal(log().match(/process 2 cannot be started \(.*\); another try is in 100 ms/g)?.length, 2);
    pool.enqueue("die", 1);
    await pool.until(() => pool.count === 3 && pool.shares.join() === "5,5");
    pool.terminate();
    assert.deepEqual(await ended, [0, null]);
  });

  test(`SIGTERM ends a parent whose process cannot be started (the start ${how})`, async (t) => {
    const { pool, child, ended, log } = await start(t, { processes: 2 }, broken(...numbers(2, 100)));
    await pool.until(() => pool.count === 1);
    while (!log().includes("cannot be started")) await once(child.stderr, "data");
    child.kill("SIGTERM");
    assert.deepEqual(await ended, [0, null]);
  });

  test(`a process keeps its place until the one that replaces it can be started (the start ${how})`, async (t) => {
    const { pool, ended } = await start(t, { processes: 1, maxJobs: 1 }, broken(2));
    pool.enqueue("pid", 1, [0]);
    await pool.until(() => pool.count === 2 && pool.open.size === 1);
    pool.terminate();
    assert.deepEqual(await ended, [0, null]);
  });
}

for (const [how, type, status] of [["leaves its job", "pid", 143], ["gives its job back", "stoppable", 0]]) {
  test(`a process that gets SIGTERM alone and ${how} is replaced, and so is the next one that dies`, async (t) => {
    const { pool, ended, log } = await start(t, { processes: 2 });
    await pool.until(() => pool.shares.join() === "5,5");
    const [connection] = pool.open;
    pool.giveTo(connection, { id: "who", type: "pid", args: [0] });
    await pool.until(() => pool.answers.length === 1);
    // When the second one is answered, the first one has begun.
    pool.giveTo(connection, { id: "stuck", type, args: [600_000] });
    pool.giveTo(connection, { id: "through", type: "pid", args: [0] });
    await pool.until(() => pool.answers.length === 2);
    process.kill(pool.answers[0].result, "SIGTERM");
    await pool.until(() => pool.count === 3 && pool.shares.join() === "5,5");
    assert.match(log(), new RegExp(`ended with status ${status}; another is started`));
    assert.deepEqual(pool.lost, status === 0 ? [] : ["stuck"]);
    pool.enqueue("die", 1);
    await pool.until(() => pool.count === 4 && pool.shares.join() === "5,5");
    pool.terminate();
    assert.deepEqual(await ended, [0, null]);
  });
}

test("SIGTERM to the parent reaches the others, and the worst status is its own", async (t) => {
  const { pool, child, ended } = await start(t, { processes: 2 });
  await pool.until(() => pool.shares.join() === "5,5");
  pool.enqueue("pid", 1, [600_000]); // Nobody lets it end: left unanswered, that is 143.
  child.kill("SIGTERM");
  assert.deepEqual(await ended, [143, null]);
  assert.deepEqual(pool.lost, ["pid-0"]);
});

test("with few jobs a process none is lost and none is done twice, and capacity never falls below all but one", async (t) => {
  const { pool, ended, log } = await start(t, { processes: 3, maxJobs: 1 });
  await pool.until(() => pool.shares.join() === "3,3,4");
  let least = Infinity;
  let most = 0;
  const watch = () => {
    const room = [...pool.open].reduce((sum, { room }) => sum + room, 0);
    least = Math.min(least, room);
    most = Math.max(most, pool.open.size);
    return false;
  };
  void pool.until(watch);
  let given = 0;
  await pool.until(() => {
    // As many jobs as it takes to see ten processes, however slowly they start.
    if (pool.count < 10 && pool.waiting.length < 10) pool.enqueue("pid", 100, [5], (given += 100));
    return pool.count >= 10 && pool.answers.length + pool.lost.length >= given;
  });
  assert.deepEqual(pool.lost, []);
  assert.equal(pool.answers.length, given);
  assert.equal(new Set(pool.answers.map(({ job_id }) => job_id)).size, given);
  assert.ok(pool.answers.every(({ type }) => type === "ack"));
  assert.ok(least >= 6, `${least} places at the least`);
  assert.ok(most <= 4, `${most} processes at the most`);
  pool.terminate();
  assert.deepEqual(await ended, [0, null]);
  assert.equal(log().includes("ended with status"), false, log());
});

test("a job that was on its way to a process that makes place is done by it", async (t) => {
  const { pool, ended } = await start(t, { processes: 1, maxJobs: 1 }, { OJS_CONCURRENCY: "1" });
  pool.late.push({ id: "late", type: "pid", args: [0] });
  pool.enqueue("pid", 1, [0]);
  await pool.until(() => pool.answers.length + pool.lost.length === 2);
  assert.deepEqual(pool.answers.map(({ job_id, connection }) => [job_id, connection]), [["pid-0", 1], ["late", 1]]);
  pool.terminate();
  assert.deepEqual(await ended, [0, null]);
});

test("a process goes after its age, and one that is too large from the start is a warning, no loop", async (t) => {
  const { pool, ended, log } = await start(t, { processes: 1, maxAge: 1, maxMemory: 1000 });
  await pool.until(() => pool.count === 2 && pool.shares.join() === "10");
  pool.terminate();
  assert.deepEqual(await ended, [0, null]);
  assert.equal(log().split("right after its start").length, 2);
  assert.match(log(), /it has \d+ bytes before its first job, and maxMemory is 1000/);
});

test("wrong run options are told", async (t) => {
  const { ended, log } = await start(t, { maxJobs: 3 });
  assert.deepEqual(await ended, [1, null]);
  assert.match(log(), /maxJobs, maxAge and maxMemory need processes/);
});
