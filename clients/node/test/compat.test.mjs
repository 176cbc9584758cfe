// The names of the SDK: what its README and examples do has to run.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test as nodeTest } from "node:test";
import { fileURLToPath } from "node:url";
import { OJSWorker } from "../compat.mjs";
import { Release, patchConsole } from "../ojs-worker.mjs";
import { HELLO, job, listen } from "./fake-init.mjs";

/** Nothing here takes long; the limit is for a hang, on the slowest machine. */
const test = (name, body) => nodeTest(name, { timeout: 60_000 }, body);

/** A worker, and what was logged when it was made. */
function made(config) {
  const lines = [];
  const undo = patchConsole({ write: (line) => lines.push(JSON.parse(line)) });
  try {
    return { sdk: new OJSWorker(config), lines };
  } finally {
    undo();
  }
}

test("a handler and middleware of the SDK run with its context", async () => {
  const { sdk } = made({ url: "http://localhost", queues: ["a"], concurrency: 2 });
  sdk.use("count", async (ctx, next) => {
    ctx.metadata.set("n", 1);
    return next();
  });
  sdk.register("a", async (ctx) => [ctx.job.args, ctx.attempt, ctx.queue, ctx.metadata.get("n"), ctx.signal.aborted, ctx.ojs.id]);
  assert.deepEqual((await sdk.perform("a", [1], { id: "j" })).result, [[1], 1, "default", 1, false, "j"]);
});

test("an option that neither the SDK nor ojs-init has is a warning", () => {
  const { lines } = made({ colour: 1, url: "http://localhost" });
  assert.deepEqual(lines.map(({ severity }) => severity), ["WARN", "INFO"]);
  assert.match(lines[0].message, /colour: no such option; there are concurrency, url/);
});

test("middleware has a name, and may be put before or after another, or be taken out", async () => {
  const { sdk } = made({});
  const named = (name) => async (_ctx, next) => `${name}(${await next()})`;
  sdk.use("logging", named("logging")).use("metrics", named("metrics")).use(named("last"));
  sdk.middleware.insertBefore("metrics", "auth", named("auth")).insertAfter("logging", "tracing", named("tracing"));
  sdk.middleware.prepend("first", named("first")).remove("logging");
  assert.deepEqual([sdk.middleware.has("auth"), sdk.middleware.has("logging"), sdk.middleware.length], [true, false, 5]);
  assert.deepEqual(sdk.middleware.entries().map(({ name }) => name), ["first", "tracing", "auth", "metrics", "middleware_2"]);
  sdk.register("a", () => "x");
  assert.equal((await sdk.perform("a")).result, "first(tracing(auth(metrics(last(x)))))");
  assert.throws(() => sdk.middleware.insertBefore("nobody", "n", named("n")), /no middleware nobody/);
  sdk.middleware.clear();
  assert.equal((await sdk.perform("a")).result, "x");
});

test("events tell of jobs that are done and that failed, and a listener that fails costs no job", async () => {
  const { sdk } = made({});
  const seen = [];
  sdk.events.on("job.completed", () => {
    throw new Error("no");
  });
  const off = sdk.events.on("job.failed", (event) => seen.push(event));
  sdk.events.onAny((event) => void seen.push(event.type));
  sdk.register("a", ({ job: { args } }) => {
    assert.equal(sdk.activeJobCount, 1);
    if (args[0] === "fail") throw new RangeError("far");
    if (args[0] === "release") throw new Release("not mine");
    return 7;
  });
  const undo = patchConsole({ write: () => {} });
  try {
    assert.equal((await sdk.perform("a", ["done"])).result, 7);
    assert.equal((await sdk.perform("a", ["fail"])).outcome, "fail");
    off();
    await sdk.perform("a", ["fail"]);
    await sdk.perform("a", ["release"]);
  } finally {
    undo();
  }
  const [completed, failed, ...rest] = seen;
  assert.deepEqual([completed, failed.type, rest], ["job.completed", "job.failed", ["job.failed", "job.failed"]]);
  assert.deepEqual([failed.specversion, failed.data.job_type, failed.data.error.message], ["1.0", "a", "far"]);
  assert.equal(sdk.activeJobCount, 0);
});

const COMPAT = fileURLToPath(new URL("../compat.mjs", import.meta.url));

/** As in the SDK's README, with what stands behind start. */
const PROGRAM = `
  import { OJSWorker } from ${JSON.stringify(COMPAT)};
  const worker = new OJSWorker({ concurrency: 2 });
  const said = [worker.currentState];
  worker.events.on("worker.started", ({ data }) => said.push("started " + data.concurrency));
  worker.register("a", async () => [...said, worker.currentState, worker.activeJobCount]);
  worker.register("hang", () => new Promise(() => {}));
  worker.events.on("worker.stopped", () => console.log("stopped"));
  await worker.start();
  said.push("behind start");
  process.on("SIGUSR2", async () => {
    await worker.stop();
    console.log("behind stop, " + worker.currentState);
  });
  process.on("SIGTERM", async () => {
    await worker.stop();
    process.exit(0);
  });
`;

async function started(t) {
  const { path, accept } = await listen(t);
  const env = { ...process.env, OJS_SOCKET: path, NODE_TEST_CONTEXT: "" };
  const accepted = accept();
  const child = spawn(process.execPath, ["--input-type=module", "-e", PROGRAM], { env });
  t.after(() => child.kill("SIGKILL"));
  const out = [];
  child.stdout.setEncoding("utf8").on("data", (text) => out.push(text));
  const init = await accepted;
  init.send(HELLO);
  assert.equal((await init.frame()).type, "ready");
  init.send(job("a"));
  assert.deepEqual((await init.frame()).result, ["terminated", "started 2", "behind start", "running", 1]);
  return { init, child, ended: once(child, "close"), said: () => out.join("") };
}

test("start resolves when the worker works, stop when it has ended, and the process ends by itself", async (t) => {
  const { init, child, ended, said } = await started(t);
  child.kill("SIGUSR2");
  assert.equal((await init.frame()).concurrency, 0);
  const { job_id } = await init.frame();
  init.send({ type: "error", code: "not_held", message: "no", job_id });
  const [status] = await ended;
  assert.deepEqual([status, said()], [0, "stopped\nbehind stop, terminated\n"]);
});

test("a SIGTERM that leaves a job ends the process with 143, also where the program stops the worker and exits with 0", async (t) => {
  const { init, child, ended } = await started(t);
  init.send(job("hang"));
  await init.framesUntilPong();
  child.kill("SIGTERM");
  assert.deepEqual(await ended, [143, null]);
});
