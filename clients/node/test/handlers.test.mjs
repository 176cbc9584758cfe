// What a handler may do, and what becomes of its job.

import assert from "node:assert/strict";
import { once } from "node:events";
import { test as nodeTest } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import * as api from "../ojs-worker.mjs";
import { Discard, InvalidArgs, Release, Retry, Worker, currentJob, logFields, optional, patchConsole } from "../ojs-worker.mjs";

/** Nothing here takes long; the limit is for a hang, on the slowest machine. */
const test = (name, body) => nodeTest(name, { timeout: 60_000 }, body);

const fails = (error) => () => {
  throw error;
};

/** A worker with one handler, and the lines of its log. */
function one(handler, ...more) {
  const log = [];
  const worker = new Worker({ log: (text, severity, error) => log.push([severity, text, error]) });
  return Object.assign(worker.job("a", handler, ...more), { lines: log });
}

// --- outcomes

test("arguments and results go through JSON", async () => {
  const seen = [];
  const worker = one((job) => {
    seen.push(job.args, job.id, job.queue, job.meta, job.isLastAttempt);
    return { at: new Date(0), nothing: undefined };
  });
  const options = { id: "x", queue: "q", meta: { k: 1 }, attempt: 3, maxAttempts: 3 };
  const { outcome, result } = await worker.perform("a", [new Date(0), 2n ** 64n], options);
  assert.deepEqual(seen, [[new Date(0).toISOString(), 2n ** 64n], "x", "q", { k: 1 }, true]);
  assert.deepEqual([outcome, result], ["ack", { at: new Date(0).toISOString() }]);
  await assert.rejects(worker.perform("a", [NaN]), /the job is no JSON: it holds NaN/);
});

class NoAddress extends Discard {}

const ENDS = [
  [new Retry("later", { after: 1.5, code: "x_l", details: { n: 1 } }), { message: "later", code: "x_l", type: "Retry", retryable: true, details: { n: 1, retry_after_ms: 1500 } }],
  [new NoAddress("no", { cause: new TypeError("oh") }), { message: "no", code: "handler_error", type: "TypeError", retryable: false }],
  [new NoAddress("no"), { message: "no", code: "handler_error", type: "NoAddress", retryable: false }],
  [new TypeError("oh"), { message: "oh", code: "handler_error", type: "TypeError", retryable: true }],
  [new Error(""), { message: "Error", code: "handler_error", type: "Error", retryable: true }],
  ["text", { message: "the handler threw text", code: "handler_error", retryable: true }],
  [new Proxy({}, { get: fails(new Error("x")), getPrototypeOf: fails(new Error("y")) }), { message: "the handler threw something that cannot be read", code: "handler_error", type: "JobError", retryable: true }],
];

for (const [thrown, expected] of ENDS) {
  test(`a handler fails: ${JSON.stringify(expected)}`, async () => {
    const { outcome, error } = await one(fails(thrown)).perform("a");
    const { backtrace: _, ...rest } = error;
    assert.equal(outcome, "fail");
    assert.deepEqual(rest, expected);
  });
}

test("a backtrace has the handler's own frames alone", async () => {
  const { error } = await one(function sendMail() {
    throw new Error("no");
  }).perform("a");
  assert.match(error.backtrace[0], /sendMail/);
  assert.ok(error.backtrace.every((frame) => !frame.includes("/lib/") && !frame.includes("node:internal")));
});

const circular = {};
circular.self = circular;
const nested = (depth) => (depth === 1 ? [] : [nested(depth - 1)]);

for (const [name, value] of Object.entries({ NaN: NaN, "a Map": { m: new Map() }, "a promise": [Promise.resolve(1)], "a function": () => {}, circular, "100 levels": nested(100) })) {
  test(`a result that is no JSON (${name}) is dropped, with an error in the log, and the job is done`, async () => {
    const worker = one(() => value);
    assert.deepEqual((({ outcome, result }) => [outcome, result])(await worker.perform("a", [], { id: "j7" })), ["ack", null]);
    const [[severity, text]] = worker.lines;
    assert.equal(severity, "error");
    assert.match(text, /^job j7 \(a\): done, but acknowledged without its result, which is no JSON: it /);
  });
}

test("a release goes back, after a time if it says one", async () => {
  assert.equal((await one(fails(new Release("not mine", { after: 2 }))).perform("a")).reason, "not mine");
  assert.throws(() => new Release("no", { after: -1 }), /Release: after is a number of seconds from 0 on, not -1/);
  assert.throws(() => new Discard("no", { after: 1 }), /after: no such option; there are code, type, details, cause/);
});

// --- cancels

test("job.sleep rejects at once when the job is cancelled, and the answer follows the reason", async () => {
  const sleeps = one((job) => job.sleep(1e12));
  assert.equal((await sleeps.perform("a", [], { cancel: "cancelled" })).reason, "cancelled");
  assert.equal((await sleeps.perform("a", [], { cancel: "shutdown", cancelAfterMs: 5 })).reason, "shutdown");
  const { error } = await sleeps.perform("a", [], { timeoutMs: 5 });
  assert.deepEqual([error.code, error.type, error.retryable], ["timeout", "Timeout", true]);
  assert.deepEqual(sleeps.lines, []);
});

test("a handler may wait for many things at once without a warning", async (t) => {
  const warnings = [];
  const listen = (warning) => warnings.push(warning.name);
  process.on("warning", listen);
  t.after(() => process.off("warning", listen));
  const worker = one((job) => Promise.all(Array.from({ length: 30 }, () => job.sleep(1))).then(() => {}));
  assert.equal((await worker.perform("a")).outcome, "ack");
  assert.deepEqual(warnings, []);
});

test("a handler that ends by itself after a cancel decides, and an error of its own is in the log", async () => {
  const after = (end) => one(async (job) => {
    if (!job.signal.aborted) await once(job.signal, "abort");
    return end(job);
  });
  assert.equal((await after((job) => job.cancelReason).perform("a", [], { cancel: "timeout" })).result, "timeout");
  assert.equal((await after(fails(new Discard("no"))).perform("a", [], { cancel: "timeout" })).error.retryable, false);
  const wrong = after(fails(new TypeError("oh")));
  assert.equal((await wrong.perform("a", [], { cancel: "lost" })).reason, "lost");
  assert.equal(wrong.lines[0][0], "warn");
});

test("stopping comes first, with the time that is left", async () => {
  const worker = one(async (job) => {
    const before = job.remaining();
    await once(job.stopping, "abort");
    const left = job.remaining();
    await once(job.signal, "abort");
    return [before, left > 0 && left <= 50, job.cancelReason];
  });
  const { result } = await worker.perform("a", [], { stoppingMs: 50, stoppingAfterMs: 5 });
  assert.deepEqual(result, [null, true, "shutdown"]);
});

test("remainingMs is until the timeout, the end of the worker, or the end of the grace", async () => {
  const worker = one(async (job) => {
    const first = job.remainingMs();
    await job.sleep(1e6).catch(() => {});
    return [Math.ceil(first / 1000), job.remainingMs() <= 1000];
  });
  const { result } = await worker.perform("a", [], { timeoutMs: 60_000, cancel: "shutdown", cancelAfterMs: 5 });
  assert.deepEqual(result, [60, true]);
});

test("a timeout of 0 is none", async () => {
  const { result } = await one((job) => job.remainingMs()).perform("a", [], { timeoutMs: 0 });
  assert.equal(result, null);
});

test("perform rejects when a handler hangs", async () => {
  const hangs = one(() => new Promise(() => {}));
  await assert.rejects(hangs.perform("a", [], { giveUpAfterMs: 10 }), /has not ended within 10 ms; .* giveUpAfterMs/);
  await assert.rejects(hangs.perform("a", [], { cancel: "lost", graceMs: 10 }), /not ended 10 ms after its cancel \(lost\)/);
});

test("progress and checkpoints are in the outcome", async () => {
  const worker = one(async (job) => {
    job.progress(1.0000000000000002, "half", { n: 1 });
    assert.throws(() => job.progress("half"), TypeError);
    await assert.rejects(job.checkpoint(() => {}), /job.checkpoint\(\): the state is a function/);
    assert.equal(await job.checkpoint({ at: job.lastCheckpoint }), true);
  });
  const { checkpoints, progress } = await worker.perform("a", [], { checkpoint: 7 });
  assert.deepEqual(checkpoints, [{ at: 7 }]);
  assert.deepEqual(progress, [{ progress: 1, message: "half", data: { n: 1 } }]);
});

// --- typed arguments

/** As zod, valibot and others have it. */
const standard = (validate) => ({ "~standard": { validate } });

const FITTING = [
  [[String, "integer"], ["ann", 2], ["ann", 2]],
  [[Number, Boolean, Array, Object, "any"], [1.5, true, [], {}, null], [1.5, true, [], {}, null]],
  [[BigInt, BigInt], [7, 2n ** 60n], ["bigint 7", `bigint ${2n ** 60n}`]],
  [[String, optional(Number)], ["a"], ["a", undefined]],
  [[String, optional(Number)], ["a", null], ["a", undefined]],
  [[standard((value) => ({ value: value + 1 }))], [1], [2]],
  [[standard(async (value) => ({ value: value + 1 }))], [1], [2]],
  [[{ safeParse: (data) => ({ success: true, data: -data }), parse: fails(new Error("unused")) }], [1], [-1]],
  [[{ parse: (value) => -value }], [1], [-1]],
];

for (const [args, given, expected] of FITTING) {
  test(`arguments ${JSON.stringify(given, (_, v) => (typeof v === "bigint" ? String(v) : v))} come one by one, the job behind them`, async () => {
    let seen;
    const worker = one({ args }, (...all) => void (seen = all));
    assert.equal((await worker.perform("a", given)).outcome, "ack");
    assert.equal(seen.pop().type, "a");
    assert.deepEqual(seen.map((value) => (typeof value === "bigint" ? `bigint ${value}` : value)), expected);
  });
}

const issue = { message: "secret", path: [{ key: "items" }, 0, "a b"] };

const UNFITTING = [
  [[String, "integer"], ["secret"], "args[1]: expected an integer, received nothing"],
  [[String, "integer"], [7, 1], "args[0]: expected a string, received a number"],
  [["integer"], [1.5], "args[0]: expected an integer, received a number"],
  [["integer"], [2n ** 60n], "args[0]: expected an integer, received an integer beyond 2^53"],
  [[Object], [["secret"]], "args[0]: expected an object, received an array"],
  [["any"], [], "args[0]: expected a value, received nothing"],
  [[optional(String)], [{}], "args[0]: expected a string, received an object"],
  [[String], ["a", "secret"], "args[1]: expected nothing, received a string"],
  [[standard(() => ({ issues: [issue] }))], ["secret"], "args[0]: expected what its schema accepts, received a string, at items.0.?"],
  [[standard(async () => ({ issues: [{}] }))], [null], "args[0]: expected what its schema accepts, received null"],
  [[standard(async () => ({ issues: [{}] })), String], [1, 2], "args[1]: expected a string, received a number"],
  [[{ parse: fails(new Error("secret")) }], [1], "args[0]: expected what its schema accepts, received a number"],
];

for (const [args, given, message] of UNFITTING) {
  test(`a job that does not fit fails for good: ${message}`, async () => {
    const worker = one({ args }, () => "ran");
    const { error } = await worker.perform("a", given);
    const { backtrace: _, ...rest } = error;
    assert.deepEqual(rest, { message, code: "invalid_args", type: "InvalidArgs", retryable: false });
    assert.equal(worker.lines[0][0], "error");
  });
}

test("a handler whose signature cannot work is refused, with one that would", () => {
  assert.throws(() => one((job, to) => to), /has 2 parameters, and gets the job alone\. Write \(job\) => .*\{ args: \[String/);
  assert.throws(() => one({ args: [String] }, (to, body, job) => job), /3 parameters for 1 arguments and the job: write \(arg0, job\) =>/);
  assert.throws(() => one({ args: ["text"] }, () => {}), /args\[0\] is none of String, Number, "integer"/);
  assert.throws(() => one({ args: [optional(String), String] }, () => {}), /optional arguments come last/);
  assert.throws(() => one({ arg: [] }, () => {}), /arg: no such option; there are args/);
  assert.throws(() => one("handler"), /give a job type, or several, and a function/);
  assert.throws(() => one(() => {}).job("a", () => {}), /"a" has a handler already/);
  for (const fits of [() => {}, (job) => job, (job, to = 1) => to, (...all) => all]) one(fits);
  assert.throws(() => new Worker({ concurency: 3 }), /^TypeError: concurency: no such option; there are handlers, middleware,/);
  assert.throws(() => new Worker({ concurrency: 0 }), /concurrency: give an integer from 1 on/);
  assert.throws(() => new Worker().run(), /there are no handlers/);
});

// --- events and middleware

test("completed and failed are emitted once for each job, whatever the kind of failure", async () => {
  const told = [];
  const worker = new Worker({ log: () => {} })
    .on("failed", (job, error) => told.push([job.type, error.type ?? error.message]))
    .on("completed", (job, result) => told.push([job.type, result]))
    .job("done", () => 1)
    .job("mistake", fails(new Error("oh")))
    .job("retry", fails(new Retry("later")))
    .job("discard", fails(new Discard("no")))
    .job("args", { args: [String] }, () => {})
    .job("late", (job) => job.sleep(1e6))
    .job("back", fails(new Release("no")));
  for (const type of ["done", "mistake", "retry", "discard", "args", "unknown", "back"]) await worker.perform(type);
  await worker.perform("late", [], { timeoutMs: 1 });
  await worker.perform("late", [], { cancel: "lost" });
  assert.deepEqual(told, [["done", 1], ["mistake", "oh"], ["retry", "Retry"], ["discard", "Discard"], ["args", "InvalidArgs"], ["unknown", "HandlerNotFound"], ["late", "Timeout"]]);
});

test("a listener that fails, at once or later, costs nothing but a line in the log", async () => {
  const worker = one(() => 1);
  const told = [];
  worker.on("completed", fails(new TypeError("x"))).on("completed", async () => fails(new RangeError("y"))());
  worker.once("completed", () => told.push(1));
  for (let turn = 0; turn < 2; turn++) assert.equal((await worker.perform("a")).outcome, "ack");
  await sleep(1);
  assert.deepEqual(told, [1]);
  assert.deepEqual(worker.lines.map(([, text]) => text.split(": ")[1]).sort(), ["RangeError", "RangeError", "TypeError", "TypeError"]);
});

test("middleware goes outermost first, changes the result, and sees wrong arguments", async () => {
  const around = (name) => async (job, next) => {
    (job.locals.names ??= []).push(name);
    return `${name}(${await next()})`;
  };
  const both = new Worker({ middleware: [around("outer")] }).use(around("inner")).job("a", (job) => job.locals.names.join());
  for (let turn = 0; turn < 2; turn++) assert.equal((await both.perform("a")).result, "outer(inner(outer,inner))");
  let seen;
  const watched = one({ args: [String] }, () => {}).use((_job, next) => next().catch((error) => Promise.reject((seen = error))));
  await watched.perform("a", [1]);
  assert.ok(seen instanceof InvalidArgs);
});

// --- the log

/** The lines of the patched console while the body runs. */
async function logged(body, options = {}) {
  const lines = [];
  const undo = patchConsole({ write: (line) => lines.push(JSON.parse(line)), ...options });
  try {
    await body();
  } finally {
    undo();
  }
  return lines;
}

test("each line of a handler names its job, also behind an await and of a library", async () => {
  const talks = new Worker().job("a", async (job) => {
    console.info("begins %s", job.id);
    await sleep(1);
    console.error("oh", new TypeError("no"));
    console.debug("only where it is wanted");
    assert.equal(currentJob(), job);
  });
  const meta = { traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01` };
  const lines = await logged(async () => {
    await Promise.all([talks.perform("a", [], { id: "1", meta }), talks.perform("a", [], { id: "2", meta: { log_level: "debug" } })]);
    console.log("outside\nof it");
  });
  const of = (id) => lines.filter((line) => line.ojs?.job_id === id);
  assert.deepEqual(of("1").map((line) => line.message), ["begins 1", "oh TypeError: no"]);
  assert.deepEqual(of("2").map((line) => line.severity), ["INFO", "ERROR", "DEBUG"]);
  assert.deepEqual(of("1")[0].trace, { trace_id: "a".repeat(32), span_id: "b".repeat(16) });
  assert.deepEqual(of("1")[0].ojs, { job_id: "1", job_type: "a", queue: "default", attempt: 1 });
  assert.deepEqual([lines.at(-1).ojs, logFields()], [undefined, {}]);
});

test("a failed job is one line, with the stacks of the error and its causes: a warning while attempts are left", async () => {
  const worker = new Worker().job("a", fails(new RangeError("far", { cause: new Error("near") })));
  const lines = await logged(async () => {
    await worker.perform("a", [], { attempt: 1, maxAttempts: 2 });
    await worker.perform("a", [], { attempt: 2, maxAttempts: 2 });
  });
  assert.deepEqual(lines.map(({ severity }) => severity), ["WARN", "ERROR"]);
  assert.match(lines[0].error.stack, /^RangeError: far\n +at [^]*Caused by: Error: near\n +at /);
});

test("an error of megabytes is whole in the answer, and cut in the log", async () => {
  const worker = new Worker().job("a", fails(new Error("x".repeat(3e6))));
  const lines = await logged(async () => assert.equal((await worker.perform("a")).error.message.length, 3e6));
  assert.ok(JSON.stringify(lines).length < 50_000);
});

test("a log function that fails costs no job its answer", async (t) => {
  const said = t.mock.method(console, "error", () => {});
  for (const log of [fails(new Error("x")), async () => fails(new Error("x"))()]) {
    assert.equal((await new Worker({ log }).job("a", fails(new Error("no"))).perform("a")).outcome, "fail");
    await sleep(1);
  }
  assert.match(said.mock.calls.map(({ arguments: [text] }) => text).join("\n"), /log function failed[^]*log function failed/);
});

test("import and require give the same names and classes", async () => {
  const { default: required } = await import("../ojs-worker.cjs");
  assert.deepEqual(Object.keys(api).sort(), Object.keys(required).sort());
  assert.equal(api.Discard, required.Discard);
});
