import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { test as nodeTest } from "node:test";
import { Discard, JobError, Release, Retry, Worker } from "../ojs-worker.mjs";
import { Jobs } from "../lib/jobs.cjs";
import { Registry } from "../lib/registry.cjs";
import { HELLO, job, listen, startWorker } from "./fake-init.mjs";

/** Nothing here takes long; the limit is for a hang, on the slowest machine. */
const test = (name, body) => nodeTest(name, { timeout: 60_000 }, body);

const aborted = async ({ signal }) => {
  if (!signal.aborted) await once(signal, "abort");
};

const cancel = (reason, id = "j1") => ({ type: "cancel", job_id: id, reason, grace_ms: 1000 });

// --- frames.jsonl

const FRAMES = readFileSync(new URL("../../fixtures/frames.jsonl", import.meta.url), "utf8")
  .split("\n")
  .filter((line) => line !== "")
  .map((line) => JSON.parse(line))
  .filter((frame) => frame.from === "ojs-init" && frame.valid);

test("frames.jsonl has lines from ojs-init", () => assert.ok(FRAMES.length > 20));

for (const { name, line } of FRAMES) {
  test(`digests: ${name}`, async (t) => {
    const isHello = JSON.parse(line).type === "hello";
    await (isHello ? digestHello(t, line) : digestFrame(t, line));
  });
}

async function digestHello(t, line) {
  const { path, accept } = await listen(t);
  const accepted = accept();
  const status = new Worker({ socketPath: path, log: () => {}, handlers: { "mail.send": () => {} } }).run();
  const init = await accepted;
  init.send(line);
  if (JSON.parse(line).state === "terminate") return assert.equal(await status, 0);
  assert.equal((await init.frame()).type, "ready");
  init.close();
  assert.equal(await status, 1);
}

async function digestFrame(t, line) {
  const { init, status } = await startWorker(t, { handlers: { "mail.send": () => {} } });
  init.send(line);
  const frame = JSON.parse(line);
  if (frame.state === "terminate") return assert.equal(await status, 0);
  if (frame.code === "unsupported_protocol") return assert.equal(await status, 1);
  if (frame.type === "job") assert.equal((await init.frame()).type, "ack");
  if (frame.type === "ping") assert.deepEqual(await init.frame(), { type: "pong", id: frame.id });
  assert.deepEqual(await init.framesUntilPong(), []);
  init.close();
  assert.equal(await status, 1);
}

// --- one answer

const NASTY = {
  "undefined": undefined,
  "null": null,
  "a string": "boom",
  "a symbol": Symbol("boom"),
  "a BigInt": 1n,
  "an object like an error": { message: "boom" },
  "a Proxy that throws": new Proxy({}, { get: trap, getPrototypeOf: trap }),
  "an error without a message": new TypeError(),
  "an error with a getter that throws": Object.defineProperty(new Error(), "message", { get: trap }),
  "details that are circular": withDetails((details) => (details.self = details)),
  "details that are too deep": withDetails((details) => (details.deep = nested(200))),
  "details that are no object": new Retry("boom", { details: [1] }),
  "a message of megabytes": new Error("x".repeat(5_000_000)),
};

function trap() {
  throw new Error("trap");
}

function withDetails(change) {
  const details = {};
  change(details);
  return new Retry("boom", { details });
}

function nested(depth) {
  let value = [];
  for (let i = 1; i < depth; i++) value = [value];
  return value;
}

for (const [name, thrown] of Object.entries(NASTY)) {
  test(`a handler throws ${name}: one fail that ojs-init accepts`, async (t) => {
    const handler = () => {
      throw thrown;
    };
    const { init } = await startWorker(t, { handlers: { nasty: handler } });
    init.send(job("nasty"));
    const line = await init.line();
    assert.ok(Buffer.byteLength(line) <= HELLO.max_frame);
    const { type, job_id, error } = JSON.parse(line);
    assert.deepEqual([type, job_id, error.retryable], ["fail", "j1", true]);
    assert.equal(typeof error.message, "string");
    assert.notEqual(error.message, "");
    assert.ok(error.details === undefined || (typeof error.details === "object" && !Array.isArray(error.details)));
    assert.deepEqual(await init.framesUntilPong(), []);
  });
}

test("an error that was meant says all about itself", async (t) => {
  class NoSuchUser extends Discard {}
  const handlers = {
    own: () => Promise.reject(new NoSuchUser("who?", { code: "x_user", details: { id: 2n ** 64n } })),
    wrapped: () => {
      throw new Retry("later", { cause: new RangeError("r") });
    },
  };
  const { init } = await startWorker(t, { handlers });
  init.send(job("own"));
  const line = await init.line();
  assert.match(line, /"id":18446744073709551616/);
  const { error } = JSON.parse(line);
  assert.equal(error.type, "NoSuchUser");
  assert.equal(error.code, "x_user");
  assert.equal(error.retryable, false);
  init.send(job("wrapped", [], { id: "j2" }));
  assert.equal((await init.frame()).error.type, "RangeError");
});

test("unexpected errors reach onError, and one that throws itself does no harm", async (t) => {
  const seen = [];
  const onError = (error, { id }) => {
    seen.push([error.message, id]);
    throw new Error("in onError");
  };
  const handlers = {
    crash: () => {
      throw new Error("secret argument");
    },
  };
  const { init, log } = await startWorker(t, { handlers, onError });
  init.send(job("crash"));
  assert.equal((await init.frame()).error.message, "secret argument");
  assert.deepEqual(seen, [["secret argument", "j1"]]);
  assert.ok(!log.join().includes("secret"));
});

for (const [what, reason] of [["an error", new Error("down")], ["nothing", undefined]]) {
  test(`an onError and a log that reject with ${what} cost neither the job its answer nor the others theirs`, async (t) => {
    const handlers = { boom: () => { throw new Error("x"); }, fine: () => 1 };
    const said = t.mock.method(console, "error", () => {});
    const { init, log } = await startWorker(t, { handlers, onError: async () => { throw reason; } });
    init.send(job("boom"));
    assert.equal((await init.frame()).type, "fail");
    init.send(job("fine"));
    assert.equal((await init.frame()).type, "ack");
    assert.match(log.at(-1), /onError threw an error itself/);
    for (const fails of [() => { throw reason; }, async () => { throw reason; }]) {
      const { init } = await startWorker(t, { handlers, log: fails });
      init.send(job("boom"), job("other", [], { id: "j2" }), job("fine", [], { id: "j3" }));
      const types = [await init.frame(), await init.frame(), await init.frame()].map(({ job_id, type }) => [job_id, type]);
      assert.deepEqual(types.sort(), [["j1", "fail"], ["j2", "fail"], ["j3", "ack"]]);
    }
    assert.match(said.mock.calls[0].arguments[0], /log itself failed/);
  });
}

test("a checkpoint that only looks like one of ours is the handler's own", async (t) => {
  const rows = async (job) => {
    for await (const _ of job.iterate([1])); // All rows, since no position can be read.
    return job.lastCheckpoint;
  };
  const { init } = await startWorker(t, { handlers: { rows } });
  const form = { ojs_resume: 1, steps: [], cursors: {} };
  const broken = [{ steps: [null] }, { steps: [["a"]] }, { steps: [[1, 2]] }, { steps: {} }, { cursors: null }, { cursors: [] }, { cursors: "" }];
  for (const part of broken) {
    const checkpoint = { ...form, ...part };
    init.send({ ...job("rows"), checkpoint });
    assert.deepEqual(await init.frame(), { type: "ack", job_id: "j1", result: checkpoint });
  }
});

test("a job that cannot be read fails, and the next one is done", () => {
  const lines = [];
  const out = { write: (line) => lines.push(JSON.parse(line)), offer: async () => true, settle: () => {} };
  let answers = 0;
  const jobs = new Jobs(new Registry(), { log: () => {} }, out, () => answers++);
  jobs.take({ type: "job", job: { id: "j1", type: "a", get meta() { throw null; } } });
  assert.deepEqual([lines[0].type, lines[0].job_id, lines[0].error.retryable], ["fail", "j1", true]);
  jobs.take(job("a"));
  assert.equal(lines[1].error.code, "handler_not_found");
  assert.equal(answers, 2);
});

test("nothing follows the answer", async (t) => {
  let kept;
  const keep = (job) => {
    kept = job;
  };
  const { init } = await startWorker(t, { handlers: { keep } });
  init.send(job("keep"));
  await init.frame();
  kept.progress(0.5);
  kept.heartbeat();
  assert.equal(await kept.checkpoint({}), false);
  assert.deepEqual(await init.framesUntilPong(), []);
});

test("a job that is held and comes again is not run twice", async (t) => {
  let runs = 0;
  const wait = (job) => {
    runs++;
    return aborted(job);
  };
  const { init } = await startWorker(t, { concurrency: 2, handlers: { wait } });
  init.send(job("wait"), job("wait"), cancel("lost"));
  assert.equal((await init.frame()).type, "ack");
  assert.deepEqual(await init.framesUntilPong(), []);
  assert.equal(runs, 1);
});

// --- results

const RESULTS = [
  ["nothing", undefined, '{"type":"ack","job_id":"j1"}', 0],
  ["null", null, '{"type":"ack","job_id":"j1","result":null}', 0],
  ["a large integer", { n: 2n ** 64n }, '{"type":"ack","job_id":"j1","result":{"n":18446744073709551616}}', 0],
  ["99 levels", nested(99), `{"type":"ack","job_id":"j1","result":${"[".repeat(99)}${"]".repeat(99)}}`, 0],
  ["brackets in a string", '\\"'.repeat(3) + "[".repeat(200), undefined, 0],
  ["too many bytes in few characters", "é".repeat(3000), '{"type":"ack","job_id":"j1"}', 1],
];

for (const [name, result, expected, logged] of RESULTS) {
  test(`the result is ${name}`, async (t) => {
    const { init, log } = await startWorker(t, { handlers: { give: () => result } }, { max_frame: 4096 });
    init.send(job("give"));
    const line = await init.line();
    assert.equal(line, expected ?? JSON.stringify({ type: "ack", job_id: "j1", result }));
    assert.equal(log.length, logged);
  });
}

const NO_JSON = {
  "a function": () => {},
  "100 levels": nested(100),
  "circular": (() => {
    const circular = {};
    circular.self = circular;
    return circular;
  })(),
};

for (const [name, result] of Object.entries(NO_JSON)) {
  test(`a result that is no JSON (${name}) fails the job for good, since the next attempt would end the same way`, async (t) => {
    const { init, log } = await startWorker(t, { handlers: { give: () => result } });
    init.send(job("give"));
    const { type, error } = await init.frame();
    assert.deepEqual([type, error.type, error.retryable], ["fail", "InvalidResult", false]);
    assert.match(error.message, /^the handler's result is not JSON: it /);
    assert.equal(log.length, 1);
  });
}

// --- cancel

const GIVING_UP = {
  shutdown: { type: "release", job_id: "j1", reason: "shutdown" },
  cancelled: { type: "release", job_id: "j1", reason: "cancelled" },
  lost: { type: "release", job_id: "j1", reason: "lost" },
  moonrise: { type: "release", job_id: "j1", reason: "moonrise" },
};

const giveUp = async (job) => {
  await aborted(job);
  job.signal.throwIfAborted();
};

for (const [reason, expected] of Object.entries(GIVING_UP)) {
  test(`a handler gives up because of ${reason}`, async (t) => {
    const { init } = await startWorker(t, { handlers: { giveUp } });
    init.send(job("giveUp"), cancel(reason), cancel("shutdown"));
    assert.deepEqual(await init.frame(), expected);
    assert.deepEqual(await init.framesUntilPong(), []);
  });
}

test("a handler gives up because of timeout", async (t) => {
  const { init } = await startWorker(t, { handlers: { giveUp } });
  init.send(job("giveUp"), cancel("timeout"));
  const { type, error } = await init.frame();
  assert.deepEqual([type, error.code, error.retryable], ["fail", "timeout", true]);
});

test("what a handler says itself after a cancel counts", async (t) => {
  const handlers = {
    finish: (job) => aborted(job).then(() => job.cancelReason),
    discard: (job) => aborted(job).then(() => Promise.reject(new Discard("no"))),
    release: (job) => aborted(job).then(() => Promise.reject(new Release("later"))),
  };
  const { init } = await startWorker(t, { handlers });
  init.send(job("finish"), cancel("timeout"));
  assert.deepEqual(await init.frame(), { type: "ack", job_id: "j1", result: "timeout" });
  init.send(job("discard"), cancel("timeout"));
  assert.equal((await init.frame()).error.retryable, false);
  init.send(job("release"), cancel("timeout"));
  assert.deepEqual(await init.frame(), { type: "release", job_id: "j1", reason: "later" });
});

test("not_offered is logged once, other errors each time", async (t) => {
  const { init, log } = await startWorker(t, { handlers: { a: () => {} } });
  const error = (code) => ({ type: "error", code, message: "two\nlines", job_id: "j9" });
  init.send(error("not_offered"), error("not_offered"), error("x_later"), error("x_later"));
  assert.deepEqual(await init.framesUntilPong(), []);
  assert.equal(log.length, 3);
  assert.ok(log.every((text) => !text.includes("\n")));
});

test("error lost stops a delivery that reported, and not one that said nothing", async (t) => {
  const lost = { type: "error", code: "lost", message: "too late", job_id: "j1" };
  const reasons = (job) => aborted(job).then(() => job.cancelReason);
  const report = (job) => {
    job.progress(0.5);
    return reasons(job);
  };
  const { init } = await startWorker(t, { handlers: { silent: reasons, report } });
  init.send(job("silent"), lost, cancel("shutdown"));
  assert.equal((await init.frame()).result, "shutdown");
  init.send(job("report"));
  assert.equal((await init.frame()).type, "progress");
  init.send(lost);
  assert.equal((await init.frame()).result, "lost");
});

test("remaining time: the timeout, the end of the worker, the grace, whichever is known", async (t) => {
  const handlers = {
    now: (job) => (Number.isFinite(job.remainingMs()) ? Math.ceil(job.remainingMs() / 1000) : "none"),
    later: async (job) => {
      await aborted(job);
      return job.remainingMs() <= 1000;
    },
  };
  const { init } = await startWorker(t, { concurrency: 2, handlers });
  init.send(job("now"));
  assert.equal((await init.frame()).result, "none");
  init.send(job("now", [], { timeout_ms: 3_600_000, timeout: 1 }));
  assert.equal((await init.frame()).result, 3600);
  init.send(job("now", [], { timeout: 7200 }));
  assert.equal((await init.frame()).result, 7200);
  init.send(job("later"), cancel("shutdown"));
  assert.equal((await init.frame()).result, true);
});

// --- reading and writing

test("frames are cut at line feeds only, wherever the reads end", async (t) => {
  const { init } = await startWorker(t, { handlers: { echo: (job) => job.args } });
  const text = "é日😀\u2028\u0085";
  for (const byte of Buffer.from(JSON.stringify(job("echo", [text])) + "\r\n")) {
    await init.sendRaw(Buffer.from([byte]));
  }
  assert.deepEqual((await init.frame()).result, [text]);
});

test("lines that are no frames are ignored and not quoted in the log", async (t) => {
  const { init, log } = await startWorker(t, { handlers: { a: () => {} } });
  init.send("", "secret", "[1]", "null", '{"type":1}', '{"type":"job"}', '{"type":"job","job":{"id":1}}');
  assert.deepEqual(await init.framesUntilPong(), []);
  assert.ok(!log.join().includes("secret"));
});

test("while ojs-init does not read, only the newest report is kept, and it precedes the answer", async (t) => {
  const data = "x".repeat(100_000);
  const count = 2000;
  const report = (job) => {
    for (let i = 1; i <= count; i++) job.progress(i / count, undefined, data);
    for (let i = 1; i <= count; i++) job.checkpoint(i);
  };
  const { init } = await startWorker(t, { handlers: { report } });
  init.pause();
  init.send(job("report"));
  // Reading goes on when all of it was said; the handler is synchronous, so it is over when the ping is read.
  init.resume();
  const frames = [];
  do frames.push(await init.frame());
  while (frames.at(-1).type !== "ack");
  assert.ok(frames.length < count, `${frames.length} frames were written without a look at the back-pressure`);
  assert.deepEqual(frames.at(-2), { type: "checkpoint", job_id: "j1", state: count });
});

test("progress is put right or refused, a checkpoint that cannot be sent rejects and is in the log", async (t) => {
  const handlers = {
    report: async (job) => {
      job.progress(1.0000000000000002, 17);
      assert.throws(() => job.progress("half"), TypeError);
      const sent = [nested(200), () => {}, "x".repeat(5000), undefined].map((state) => job.checkpoint(state));
      return (await Promise.allSettled(sent)).map(({ value, reason }) => value ?? reason.name);
    },
  };
  const { init, log } = await startWorker(t, { handlers }, { max_frame: 4096 });
  init.send(job("report"));
  assert.deepEqual(await init.frame(), { type: "progress", job_id: "j1", progress: 1, message: "17" });
  assert.deepEqual(await init.frame(), { type: "checkpoint", job_id: "j1", state: null });
  assert.deepEqual((await init.frame()).result, ["TypeError", "TypeError", "TypeError", true]);
  assert.equal(log.length, 3);
});

test("job ids and types with any character", async (t) => {
  const { init } = await startWorker(t, { concurrency: 2, handlers: { ["__proto__"]: ({ id }) => id } });
  for (const id of ["__proto__", '\u0000 "\\\n\u2028😀']) {
    init.send(job("__proto__", [], { id }));
    assert.deepEqual(await init.frame(), { type: "ack", job_id: id, result: id });
  }
  init.send(job("toString"), { type: "job", job: { id: "j2" } });
  assert.equal((await init.frame()).error.code, "handler_not_found");
  assert.equal((await init.frame()).error.code, "handler_not_found"); // An envelope without a type.
});

// --- the end

test("terminate: the job first, then the end with 0, with the answer read", async (t) => {
  const { init, status } = await startWorker(t, { handlers: { giveUp } });
  init.send(job("giveUp"), { type: "lifecycle", state: "terminate", reason: "sigterm", remaining_ms: 60000 });
  assert.deepEqual(await init.framesUntilPong(), []);
  init.send(cancel("shutdown"));
  assert.equal((await init.frame()).type, "release");
  assert.equal(await status, 0);
});

test("a closed socket cancels the handlers and ends the worker without waiting for them", async (t) => {
  let started;
  const hang = (job) => {
    started = job;
    return new Promise(() => {});
  };
  const { init, status } = await startWorker(t, { handlers: { hang } });
  init.send(job("hang"));
  await init.framesUntilPong();
  init.close();
  assert.equal(await status, 1);
  assert.equal(started.cancelReason, "lost");
});

test("wrong options are told where they are given", () => {
  for (const options of [{ handlers: {} }, { handlers: { a: 1 } }, { handlers: { "": () => {} } }]) {
    assert.throws(() => new Worker(options), /handlers: /);
  }
  for (const options of [undefined, {}]) assert.throws(() => new Worker(options).run(), /handlers: /);
  for (const concurrency of [0, -1, 1.5, 10001, "4"]) {
    assert.throws(() => new Worker({ handlers: { a: () => {} }, concurrency }), /concurrency: /);
  }
  assert.ok(new Retry() instanceof JobError && new Discard() instanceof JobError);
});

// --- what a developer sees

test("a handler sees queue, attempt and meta of its job, and something usable where the backend sends none", async (t) => {
  const handlers = { show: ({ queue, attempt, meta }) => ({ queue, attempt, meta }) };
  const { init } = await startWorker(t, { handlers });
  init.send(job("show", [], { queue: "mail", attempt: 3, meta: { tenant: "acme" } }));
  assert.deepEqual((await init.frame()).result, { queue: "mail", attempt: 3, meta: { tenant: "acme" } });
  init.send({ type: "job", job: { id: "j2", type: "show", queue: 7, attempt: "x", meta: [1] } });
  assert.deepEqual((await init.frame()).result, { queue: "default", meta: {} });
});

test("without a concurrency of its own a worker takes as many jobs as ojs-init allows", async (t) => {
  const handlers = { a: () => {} };
  assert.equal((await startWorker(t, { handlers }, { concurrency: 37 })).ready.concurrency, 37);
  assert.equal((await startWorker(t, { handlers, concurrency: 4 }, { concurrency: 37 })).ready.concurrency, 4);
});

test("a misspelt option is an error that names those there are", () => {
  const misspelt = () => new Worker({ handlers: { a: () => {} }, concurency: 3 });
  assert.throws(misspelt, { name: "TypeError", message: /^concurency: no such option; there are handlers, middleware, concurrency, / });
});

test("quiet and terminate are in its log", async (t) => {
  const { init, status, log } = await startWorker(t, { handlers: { a: () => {} } });
  init.send({ type: "lifecycle", state: "quiet", reason: "sigtstp" });
  init.send({ type: "lifecycle", state: "terminate", reason: "sigterm", remaining_ms: 1000 });
  assert.equal(await status, 0);
  assert.deepEqual(log, ["quiet (sigtstp)", "terminate (sigterm)"]);
});
