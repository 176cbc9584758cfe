// A worker as a program of its own: how it ends, and what it says.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test as nodeTest } from "node:test";
import { Worker } from "../ojs-worker.mjs";
import { HELLO, job, listen } from "./fake-init.mjs";

/** Nothing here takes long; the limit is for a hang, on the slowest machine. */
const test = (name, body) => nodeTest(name, { timeout: 60_000 }, body);

const LIBRARY = new URL("../ojs-worker.mjs", import.meta.url).href;

/** A worker program with one handler, `hang`, that does what its text says. */
function program(t, env, hang = "new Promise(() => {})") {
  const code = `import { work } from ${JSON.stringify(LIBRARY)};
    import { setTimeout as sleep } from "node:timers/promises";
    await work({ concurrency: 2, handlers: { hang: (job) => ${hang} } });`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", code], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "ignore", "pipe"],
  });
  t.after(() => child.kill("SIGKILL"));
  return child;
}

test("no socket: the program says what to do and ends with 1", async (t) => {
  for (const [path, words] of [["", /OJS_SOCKET is not set/], ["/nowhere/at/all", /cannot connect to \/nowhere/]]) {
    const child = program(t, { OJS_SOCKET: path });
    let said = "";
    child.stderr.on("data", (text) => (said += text));
    const [status] = await once(child, "close");
    assert.equal(status, 1);
    assert.match(said, words);
  }
});

test("a handler that wants more than the job is refused when it is registered", () => {
  const refused = { name: "TypeError", message: /"a" has 2 parameters.*\(job\) =>.*job\.args/ };
  assert.throws(() => new Worker({ handlers: { a: (job, to) => to } }), refused);
  assert.throws(() => new Worker().job("a", async (job, to) => to), refused);
  for (const fits of [() => {}, (job) => job, (job, to = 1) => to, (...all) => all]) new Worker().job("a", fits);
});

async function startProgram(t, hang) {
  const { path, accept } = await listen(t);
  const accepted = accept();
  const child = program(t, { OJS_SOCKET: path }, hang);
  const exit = once(child, "exit");
  const init = await accepted;
  init.send(HELLO);
  await init.frame();
  init.send(job("hang"));
  await init.framesUntilPong();
  return { init, child, exit };
}

test("SIGTERM ends a process whose handlers hang, and with it the connection", async (t) => {
  const { init, child, exit } = await startProgram(t);
  child.kill("SIGTERM");
  assert.deepEqual(await exit, [143, null]);
  assert.equal(await init.line(), undefined);
});

test("SIGTERM: a handler that stops gets its answer out", async (t) => {
  const { init, child, exit } = await startProgram(t, "sleep(1e8, 0, job)");
  child.kill("SIGTERM");
  assert.deepEqual(await init.frame(), { type: "release", job_id: "j1", reason: "shutdown" });
  assert.deepEqual(await exit, [0, null]);
});

test("a closed socket ends a process whose handlers hang", async (t) => {
  const { init, exit } = await startProgram(t);
  init.close();
  assert.deepEqual(await exit, [1, null]);
});

test("an answer of megabytes is written whole before the end", async (t) => {
  const large = "new Promise((done) => job.signal.onabort = () => done('x'.repeat(4e6)))";
  const { init, exit } = await startProgram(t, large);
  init.pause();
  init.send({ type: "lifecycle", state: "terminate", reason: "sigterm", remaining_ms: 60000 }, { type: "cancel", job_id: "j1", reason: "shutdown", grace_ms: 1000 });
  init.resume();
  assert.equal((await init.frame()).result.length, 4e6);
  assert.deepEqual(await exit, [0, null]);
});

test("the stack of a handler's error is on standard error, unless onError takes it", async (t) => {
  const { path, accept } = await listen(t);
  const accepted = accept();
  const program = `import { work } from ${JSON.stringify(new URL("../ojs-worker.mjs", import.meta.url).href)};
    await work({ handlers: { boom: function sendMail() { throw new TypeError("ka\x1b[2Jputt"); } } });`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", program], {
    env: { ...process.env, OJS_SOCKET: path },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text) => (said += text));
  const init = await accepted;
  init.send(HELLO);
  await init.frame();
  init.send(job("boom"));
  assert.equal((await init.frame()).type, "fail");
  init.send({ type: "lifecycle", state: "terminate", reason: "sigterm", remaining_ms: 1000 });
  await once(child, "close");
  assert.match(said, /TypeError: ka \[2Jputt\n +at .*sendMail/);
});

test("a SIGTERM that comes when the worker has ended already does not change its status", async (t) => {
  const { path, accept } = await listen(t);
  const accepted = accept();
  const program = `import { Worker } from ${JSON.stringify(new URL("../ojs-worker.mjs", import.meta.url).href)};
    const status = await new Worker({ handlers: { a: () => {} } }).run();
    process.stdout.write("over");
    setTimeout(() => process.exit(status), 30_000);
    process.stdin.on("data", () => process.exit(status));`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", program], {
    env: { ...process.env, OJS_SOCKET: path },
    stdio: ["pipe", "pipe", "ignore"],
  });
  const init = await accepted;
  init.send(HELLO);
  await init.frame();
  init.send({ type: "lifecycle", state: "terminate", reason: "sigterm", remaining_ms: 1000 });
  await once(child.stdout, "data");
  child.kill("SIGTERM");
  child.stdin.write("go");
  assert.deepEqual(await once(child, "close"), [0, null]);
});

test("a program that only waits for run() ends by itself, with status 0", async (t) => {
  const { path, accept } = await listen(t);
  const accepted = accept();
  const program = `import { Worker } from ${JSON.stringify(new URL("../ojs-worker.mjs", import.meta.url).href)};
    await new Worker({ handlers: { a: () => {} } }).run();`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", program], {
    env: { ...process.env, OJS_SOCKET: path },
    stdio: "ignore",
  });
  t.after(() => child.kill("SIGKILL"));
  const ended = once(child, "exit");
  const init = await accepted;
  init.send(HELLO);
  await init.frame();
  init.send({ type: "lifecycle", state: "terminate", reason: "sigterm", remaining_ms: 1000 });
  assert.deepEqual(await ended, [0, null]);
});
