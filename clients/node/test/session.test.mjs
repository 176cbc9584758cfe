// The connection, beyond what the shared sessions play.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test as nodeTest } from "node:test";
import { cancel, HELLO, job, listen, startWorker, terminate } from "./fake-init.mjs";

/** Nothing here takes long; the limit is for a hang, on the slowest machine. */
const test = (name, body) => nodeTest(name, { timeout: 60_000 }, body);

const untilCancelled = (job) => job.sleep(1e8);

test("ready has the smaller concurrency and the types, and the frames of answers begin with type and job_id", async (t) => {
  const handlers = { a: () => 1, b: () => { throw new Error("no"); } };
  const { init, ready } = await startWorker(t, { handlers, concurrency: 4 });
  assert.deepEqual([ready.concurrency, ready.types, ready.client], [4, ["a", "b"], "ojs-node 0.1.0"]);
  init.send(job("a"), job("b", [], { id: "j2" }));
  const lines = [await init.line(), await init.line()].sort();
  assert.equal(lines[0], '{"type":"ack","job_id":"j1","result":1}');
  assert.match(lines[1], /^\{"type":"fail","job_id":"j2","error":\{"retryable":true,"code":"handler_error","type":"Error","message":"no",/);
  assert.equal((await startWorker(t, { handlers: { "*": () => {} } })).ready.types, undefined);
});

test("job ids and types with any character, and jobs without a type", async (t) => {
  const { init } = await startWorker(t, { handlers: { ["__proto__"]: ({ id }) => id, "*": ({ type }) => type } });
  for (const id of ["__proto__", '\u0000 "\\\n\u2028😀']) {
    init.send(job("__proto__", [], { id }));
    assert.deepEqual(await init.frame(), { type: "ack", job_id: id, result: id });
  }
  init.send(job("toString"));
  assert.equal((await init.frame()).result, "toString");
  for (const type of [undefined, null, 7, ["a"]]) {
    init.send({ type: "job", job: { id: "j1", type, args: 5, queue: 7, attempt: "x", meta: [1] } });
    assert.equal((await init.frame()).error.code, "handler_not_found");
  }
});

test("lines that are no frames are ignored, and not quoted in the log", async (t) => {
  const { init, log } = await startWorker(t, { handlers: { a: () => {} } });
  init.send("", "secret", "[1]", "null", '{"type":1}', '{"type":"job"}', '{"type":"job","job":{"id":1}}', '{"type":"toString"}');
  assert.deepEqual(await init.framesUntilPong(), []);
  assert.ok(log.length > 0 && !log.join().includes("secret"));
});

test("a job that is held and comes again is not run twice, and nothing follows its answer", async (t) => {
  const runs = [];
  const wait = (job) => {
    runs.push(job);
    return untilCancelled(job);
  };
  const { init } = await startWorker(t, { handlers: { wait } });
  init.send(job("wait"), job("wait"), cancel("lost"), cancel("shutdown"));
  assert.deepEqual(await init.frame(), { type: "release", job_id: "j1", reason: "lost" });
  runs[0].progress(0.5);
  runs[0].heartbeat();
  assert.equal(await runs[0].checkpoint({}), false);
  assert.deepEqual(await init.framesUntilPong(), []);
  assert.equal(runs.length, 1);
});

test("not_offered is logged once, other errors each time, on one line", async (t) => {
  const { init, log } = await startWorker(t, { handlers: { a: () => {} } });
  const error = (code) => ({ type: "error", code, message: "two\nlines", job_id: "j9" });
  init.send(error("not_offered"), error("not_offered"), error("x_later"), error("x_later"));
  assert.deepEqual(await init.framesUntilPong(), []);
  assert.equal(log.length, 3);
  assert.ok(log.every(([, text]) => !text.includes("\n")));
});

test("while ojs-init does not read, only the newest report is kept, and it precedes the answer", async (t) => {
  const data = "x".repeat(100_000);
  const count = 2000;
  let saved;
  const report = (job) => {
    for (let i = 1; i <= count; i++) job.progress(i / count, undefined, data);
    saved = Array.from({ length: count }, (_, at) => job.checkpoint(at + 1));
  };
  const { init } = await startWorker(t, { handlers: { report } });
  init.pause();
  init.send(job("report"));
  init.resume(); // The handler is synchronous: it has ended when this is read.
  const frames = [];
  do frames.push(await init.frame());
  while (frames.at(-1).type !== "ack");
  assert.ok(frames.length < count, `${frames.length} frames were written to a full socket`);
  assert.deepEqual(frames.at(-2), { type: "checkpoint", job_id: "j1", state: count });
  assert.deepEqual(new Set(await Promise.all(saved)), new Set([true]));
});

test("stop ends the worker once ojs-init has read it and the last job is answered", async (t) => {
  const { init, status, worker } = await startWorker(t, { handlers: { wait: untilCancelled } });
  worker.stop();
  assert.equal((await init.frame()).concurrency, 0);
  const { job_id } = await init.frame();
  init.send(job("wait"), { type: "error", code: "not_held", message: "no", job_id }); // It was on its way.
  assert.deepEqual(await init.framesUntilPong(), []);
  init.send(cancel("cancelled"));
  assert.equal((await init.frame()).type, "release");
  assert.equal(await status, 0);
});

test("a closed socket cancels the handlers, and they have a moment to clean up", async (t) => {
  const reasons = [];
  const wait = (job) => untilCancelled(job).finally(() => reasons.push(job.cancelReason));
  const { init, status } = await startWorker(t, { handlers: { wait, hang: () => new Promise(() => {}) } });
  init.send(job("wait"), job("hang", [], { id: "j2" }));
  await init.framesUntilPong();
  init.close();
  assert.equal(await status, 1);
  assert.deepEqual(reasons, ["lost"]);
  const idle = await startWorker(t, { handlers: { wait } });
  idle.init.close();
  assert.equal(await idle.status, 0);
});

// --- as a program

const LIBRARY = new URL("../ojs-worker.mjs", import.meta.url).href;

/** A worker program with one handler, `a`, that does what its text says. */
function program(t, env, handler, stderr = "pipe") {
  const code = `import { work } from ${JSON.stringify(LIBRARY)};
    await work({ handlers: { a: (job) => { ${handler} } } });`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", code], {
    env: { ...process.env, OJS_MODE: "", ...env },
    stdio: ["ignore", "ignore", stderr],
  });
  t.after(() => child.kill("SIGKILL"));
  return child;
}

async function startProgram(t, handler) {
  const { path, accept } = await listen(t);
  const accepted = accept();
  const child = program(t, { OJS_SOCKET: path }, handler);
  const exit = once(child, "exit");
  const init = await accepted;
  init.send(HELLO);
  await init.frame();
  return { init, child, exit };
}

test("without ojs-init the program says what to do and ends with 1", async (t) => {
  const cases = [
    [{ OJS_SOCKET: "" }, /OJS_SOCKET is not set: .* Run it as: ojs-init -- node/],
    [{ OJS_SOCKET: "", OJS_MODE: "exec" }, /runs in mode exec: leave OJS_MODE out/],
    [{ OJS_SOCKET: "/nowhere/at/all" }, /cannot connect to \/nowhere/],
  ];
  for (const [env, words] of cases) {
    const child = program(t, env, "");
    let said = "";
    child.stderr.on("data", (text) => (said += text));
    assert.deepEqual(await once(child, "close"), [1, null]);
    assert.match(said, words);
  }
});

test("SIGTERM with a job: no more are taken, and only a cancel ends the handler", async (t) => {
  const { init, child, exit } = await startProgram(t, "return job.sleep(1e8)");
  init.send(job("a"));
  await init.framesUntilPong();
  child.kill("SIGTERM");
  const ready = await init.frame();
  assert.deepEqual([ready.type, ready.concurrency, ready.types], ["ready", 0, ["a"]]);
  const { job_id } = await init.frame();
  init.send({ type: "error", code: "not_held", message: "no", job_id });
  child.kill("SIGTERM");
  assert.deepEqual(await init.framesUntilPong(), []);
  init.send(cancel("shutdown"));
  assert.equal((await init.frame()).type, "release");
  assert.deepEqual(await exit, [0, null]);
});

test("a closed socket ends a process whose handlers hang", async (t) => {
  const { init, exit } = await startProgram(t, "return new Promise(() => {})");
  init.send(job("a"));
  await init.framesUntilPong();
  init.close();
  assert.deepEqual(await exit, [1, null]);
});

test("an answer of megabytes is written whole before the end", async (t) => {
  const { init, exit } = await startProgram(t, "return new Promise((done) => (job.signal.onabort = () => done('x'.repeat(4e6))))");
  init.pause();
  init.send(job("a"), terminate, cancel("shutdown"));
  init.resume();
  assert.equal((await init.frame()).result.length, 4e6);
  assert.deepEqual(await exit, [0, null]);
});

test("the worker goes on when nobody reads its log", async (t) => {
  const { init, child, exit } = await startProgram(t, "throw new Error('no')");
  child.stderr.destroy();
  for (const id of ["j1", "j2", "j3"]) {
    init.send(job("a", [], { id }));
    assert.equal((await init.frame()).job_id, id);
  }
  init.send(terminate);
  assert.deepEqual(await exit, [0, null]);
});

test("the stack of a handler's error is on standard error, without control characters", async (t) => {
  const { init, child } = await startProgram(t, "throw new TypeError('ka\\u001b[2Jputt')");
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text) => (said += text));
  init.send(job("a"), terminate);
  await once(child, "close");
  assert.match(said, /job j1 \(a\) failed: TypeError\nTypeError: ka \[2Jputt\n +at /);
});

test("a program whose run() has ended ends by itself, whatever SIGTERM comes then", async (t) => {
  const { path, accept } = await listen(t);
  const accepted = accept();
  const code = `import { Worker } from ${JSON.stringify(LIBRARY)};
    process.exitCode = await new Worker({ handlers: { a: () => {} } }).run();
    process.kill(process.pid, "SIGTERM");`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", code], { env: { ...process.env, OJS_SOCKET: path } });
  const init = await accepted;
  init.send({ ...HELLO, state: "terminate" });
  assert.deepEqual(await once(child, "exit"), [0, null]);
});
