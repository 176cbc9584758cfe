import assert from "node:assert/strict";
import { once } from "node:events";
import { createRequire } from "node:module";
import { test as nodeTest } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Discard, Release, Retry, Worker, currentJob, formatLog, isLogged, logFields, patchConsole } from "../ojs-worker.mjs";
import { job, startWorker } from "./fake-init.mjs";

/** Nothing here takes long; the limit is for a hang, on the slowest machine. */
const test = (name, body) => nodeTest(name, { timeout: 60_000 }, body);

const quiet = { log: () => {}, onError: () => {} };
const worker = (handler, options = {}) => new Worker({ ...quiet, ...options, handlers: { a: handler } });

// --- outcomes

test("perform sends arguments and result through JSON", async () => {
  const seen = [];
  const echo = worker((job) => {
    seen.push(job.args, job.id, job.queue, job.meta);
    return { at: new Date(0), nothing: undefined };
  });
  const date = new Date(0);
  const { outcome, result, error, reason } = await echo.perform("a", [date, 2n ** 64n], { id: "x", queue: "q", meta: { k: 1 } });
  assert.deepEqual(seen, [[date.toISOString(), 2n ** 64n], "x", "q", { k: 1 }]);
  assert.deepEqual([outcome, result, error, reason], ["ack", { at: date.toISOString() }, null, null]);
});

test("perform refuses arguments that are no JSON, and options that it does not know", async () => {
  const echo = worker(() => null);
  await assert.rejects(echo.perform("a", [NaN]), /what the job is made of holds NaN/);
  await assert.rejects(echo.perform("a", [], { timeout: 3 }), /^TypeError: timeout: no such option; there are id, /);
  await assert.rejects(echo.perform("a", "b"), /give a job type and its arguments/);
});

test("a type without a handler fails, retryable; the handler of * takes it where there is one", async () => {
  assert.deepEqual((await worker(() => null).perform("b")).error.code, "handler_not_found");
  const all = new Worker(quiet).job("*", (job) => job.type);
  assert.equal((await all.perform("b")).result, "b");
});

test("a job without a type is one without a handler, also where * takes every type", async (t) => {
  const ran = [];
  const { init } = await startWorker(t, { handlers: { "*": (job) => ran.push(job.id) } });
  for (const type of [undefined, null, 7, ["a"], { toString: 1 }]) {
    init.send({ type: "job", job: { id: "j1", type, args: [] } });
    const { error, ...rest } = await init.frame();
    assert.deepEqual(rest, { type: "fail", job_id: "j1" });
    assert.deepEqual(error, { message: "the job has no type", code: "handler_not_found", retryable: true });
  }
  init.send(job("b"));
  assert.equal((await init.frame()).type, "ack");
  assert.equal(ran.length, 1);
});

const ENDS = [
  [() => { throw new Retry("later", { after: 1.5, code: "x_later" }); }, { message: "later", code: "x_later", type: "Retry", retryable: true, details: { retry_after_ms: 1500 } }],
  [() => { throw new Retry("later", { after: 1, details: { n: 1 } }); }, { message: "later", code: "handler_error", type: "Retry", retryable: true, details: { n: 1, retry_after_ms: 1000 } }],
  [() => { throw new Discard("no"); }, { message: "no", code: "handler_error", type: "Discard", retryable: false }],
  [() => { throw new TypeError("oh"); }, { message: "oh", code: "handler_error", type: "TypeError", retryable: true }],
  [() => { throw new Retry("x", { after: -1 }); }, { message: "Retry: after is a number of seconds from 0 on, not -1", code: "handler_error", type: "RangeError", retryable: true }],
];

for (const [handler, expected] of ENDS) {
  test(`a handler fails with ${expected.type}: ${JSON.stringify(expected)}`, async () => {
    const { outcome, error } = await worker(handler).perform("a");
    const { backtrace, ...rest } = error;
    assert.equal(outcome, "fail");
    assert.ok(backtrace.length > 0);
    assert.deepEqual(rest, expected);
  });
}

for (const [name, value] of [["NaN", NaN], ["Infinity inside", [1 / 0]], ["a Map", { m: new Map() }], ["a promise inside", [Promise.resolve(1)]], ["a function", () => {}], ["half a surrogate pair", "\ud800"]]) {
  test(`a result that is ${name} is no JSON, and fails for good`, async () => {
    const { error } = await worker(() => value).perform("a");
    assert.equal(error.type, "InvalidResult");
    assert.equal(error.retryable, false);
    assert.match(error.message, /^the handler's result is not JSON/);
  });
}

test("onError is told of each failure that a handler did not mean, also of those that the library found", async () => {
  const told = [];
  const onError = (error, job) => told.push([error.type ?? error.message, job.type]);
  const handlers = {
    "no JSON": () => NaN,
    "a cause": () => { throw new Retry("later", { cause: new Error("away") }); },
    "a mistake": () => { throw new Error("oh"); },
    "meant": () => { throw new Discard("no"); },
  };
  const worker = new Worker({ log: () => {}, onError, handlers });
  for (const type of Object.keys(handlers)) assert.equal((await worker.perform(type)).outcome, "fail");
  assert.deepEqual(told, [["InvalidResult", "no JSON"], ["Error", "a cause"], ["oh", "a mistake"]]);
});

test("a job's timeout fails it with the code timeout, and deadline says when", async () => {
  let deadline;
  const waits = worker(async (job) => {
    deadline = job.deadline.getTime() - Date.now();
    await once(job.signal, "abort");
    job.signal.throwIfAborted();
  });
  const { error } = await waits.perform("a", [], { timeoutMs: 30 });
  assert.deepEqual([error.code, error.type, error.retryable], ["timeout", "Timeout", true]);
  assert.ok(deadline <= 30);
  assert.equal((await worker((job) => job.deadline).perform("a")).result, null);
});

test("a cancel has its reason, and a handler that goes on after it rejects", async () => {
  const gives = worker(async (job) => {
    if (!job.signal.aborted) await once(job.signal, "abort");
    throw new Release(job.cancelReason);
  });
  assert.equal((await gives.perform("a", [], { cancel: "cancelled" })).reason, "cancelled");
  const stays = worker(() => new Promise(() => {}));
  await assert.rejects(stays.perform("a", [], { cancel: "lost", graceMs: 10 }), /has not ended 10 ms after its cancel \(lost\)/);
});

test("perform gives up on a handler that hangs, and says what to do", async () => {
  const hangs = worker(() => new Promise(() => {}));
  await assert.rejects(hangs.perform("a", [], { giveUpAfterMs: 10 }), /has not ended within 10 ms; .* giveUpAfterMs/);
});

test("stopping is told at once, with the time that is left, and the cancel comes when that is over", async () => {
  const steps = worker(async (job) => {
    const before = job.remaining();
    if (!job.stopping.aborted) await once(job.stopping, "abort");
    const left = job.remaining();
    await once(job.signal, "abort");
    return [before, left > 0 && left <= 50, job.cancelReason];
  });
  assert.deepEqual((await steps.perform("a", [], { stoppingMs: 50, stoppingAfterMs: 5 })).result, [null, true, "shutdown"]);
  assert.equal((await steps.perform("a", [], { stopping: 0.05, stoppingAfterMs: 5 })).result[2], "shutdown"); // In seconds.
});

test("progress and checkpoints are in the outcome", async () => {
  const says = worker(async (job) => {
    job.progress(0.5, "half", { n: 1 });
    assert.equal(await job.checkpoint({ at: job.lastCheckpoint }), true);
  });
  const { checkpoints, progress } = await says.perform("a", [], { checkpoint: 7 });
  assert.deepEqual(checkpoints, [{ at: 7 }]);
  assert.deepEqual(progress, [{ progress: 0.5, message: "half", data: { n: 1 } }]);
});

// --- middleware

test("middleware goes outermost first, changes the result, and sees nothing of another job", async () => {
  const around = (name) => async (job, next) => {
    (job.locals.names ??= []).push(name);
    return `${name}(${await next()})`;
  };
  const both = worker((job) => job.locals.names.join(), { middleware: [around("outer")] }).use(around("inner"));
  for (let turn = 0; turn < 2; turn++) assert.equal((await both.perform("a")).result, "outer(inner(outer,inner))");
});

test("middleware may release the job, and try the handler again when it failed, but not when it went well", async () => {
  const refuse = worker(() => null).use(() => { throw new Release("not today"); });
  assert.equal((await refuse.perform("a")).reason, "not today");
  let tries = 0;
  const again = worker(() => { if (++tries < 3) throw new Error("no"); return tries; }).use(async (_job, next) => {
    for (;;) {
      try {
        return await next();
      } catch {
        // Once more.
      }
    }
  });
  assert.equal((await again.perform("a")).result, 3);
  const twice = worker(() => null).use(async (_job, next) => { await next(); return next(); });
  assert.match((await twice.perform("a")).error.message, /next\(\) was called again/);
});

// --- the log

test("each line of a handler names its job, also behind an await and of a library", async () => {
  const lines = [];
  const undo = patchConsole({ level: "info", write: (line) => lines.push(JSON.parse(line)) });
  try {
    const talks = new Worker(quiet).job("a", async (job) => {
      console.info("begins %s", job.id);
      await sleep(1);
      console.error("oh", new TypeError("no"));
      console.debug("only where it is wanted");
      assert.equal(currentJob(), job);
    });
    const meta = { traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01` };
    await Promise.all([talks.perform("a", [], { id: "1", meta }), talks.perform("a", [], { id: "2", meta: { log_level: "debug" } })]);
    console.log("outside");
  } finally {
    undo();
  }
  const of = (id) => lines.filter((line) => line.ojs?.job_id === id);
  assert.deepEqual(of("1").map((line) => line.message), ["begins 1", "oh TypeError: no"]);
  assert.deepEqual(of("2").map((line) => line.severity), ["INFO", "ERROR", "DEBUG"]);
  assert.deepEqual(of("1")[0].trace, { trace_id: "a".repeat(32), span_id: "b".repeat(16) });
  assert.deepEqual(of("1")[1].error.type, "TypeError");
  assert.deepEqual(of("1")[0].ojs, { job_id: "1", job_type: "a", queue: "default", attempt: 1 });
  assert.equal(lines.at(-1).ojs, undefined);
  assert.deepEqual([lines[0].category, lines[0].component, lines[0].severity_number], ["worker", "handler", 9]);
  assert.deepEqual(logFields(), {});
  assert.ok(isLogged("error", "warn") && !isLogged("info", "warn"));
  assert.ok(!formatLog("info", "two\nlines").includes("\n"));
});

test("a failed job's stack is in the log", async () => {
  const lines = [];
  const undo = patchConsole({ write: (line) => lines.push(JSON.parse(line)) });
  try {
    await new Worker().job("a", () => { throw new RangeError("far"); }).perform("a");
  } finally {
    undo();
  }
  assert.match(lines.find((line) => line.error)?.error.stack, /RangeError: far\n +at /);
});

test("require and import give the same classes", () => {
  const required = createRequire(import.meta.url)("../ojs-worker.cjs");
  assert.equal(required.Discard, Discard);
  assert.equal(required.VERSION, createRequire(import.meta.url)("../package.json").version);
});
