import assert from "node:assert/strict";
import { test as nodeTest } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "../ojs-worker.mjs";

/** Nothing here takes long; the limit is for a hang, on the slowest machine. */
const test = (name, body) => nodeTest(name, { timeout: 60_000 }, body);

const worker = (handler) => new Worker({ log: () => {}, onError: () => {}, handlers: { a: handler } });

/** What an earlier attempt saved. */
const saved = (more) => ({ ojs_resume: 1, steps: [], cursors: {}, state: null, ...more });

const numbers = (count) => Array.from({ length: count }, (_, index) => index);

const walk = (rows, options) =>
  worker(async (job) => {
    const done = [];
    for await (const row of job.iterate(rows, options)) done.push(row);
    return done;
  });

test("iterate goes on behind the last finished row, by its index", async () => {
  const { result } = await walk(numbers(6)).perform("a", [], { checkpoint: saved({ cursors: { "": 3 } }) });
  assert.deepEqual(result, [4, 5]);
});

test("iterate goes on behind the row with the key that was finished last, however many came before it since", async () => {
  const rows = ["new", "a", "b", "c"].map((id) => ({ id }));
  const key = ({ id }) => id;
  const { result } = await walk(rows, { key }).perform("a", [], { checkpoint: saved({ cursors: { "": "b" } }) });
  assert.deepEqual(result, [{ id: "c" }]);
});

test("a key that never comes again fails the job for good", async () => {
  const { error } = await walk(numbers(3), { key: (n) => n }).perform("a", [], { checkpoint: saved({ cursors: { "": 9 } }) });
  assert.deepEqual([error.type, error.retryable], ["StepsChanged", false]);
});

test("rows may be a function of the position", async () => {
  const asked = [];
  const rows = async (after) => {
    asked.push(after);
    return [10, 20, 30].filter((n) => n > (after ?? 0));
  };
  const key = (n) => n;
  assert.deepEqual((await walk(rows, { key }).perform("a")).result, [10, 20, 30]);
  assert.deepEqual((await walk(rows, { key }).perform("a", [], { checkpoint: saved({ cursors: { "": 20 } }) })).result, [30]);
  assert.deepEqual(asked, [null, 20]);
});

test("a shutdown ends the handler before the row that would be cut off, and each row is done once in all attempts", async () => {
  const done = [];
  const slow = worker(async (job) => {
    for await (const row of job.iterate(numbers(12))) {
      await sleep(40);
      done.push(row);
    }
    return "whole";
  });
  let checkpoint;
  let attempts = 0;
  for (;;) {
    const stop = attempts++ < 3 ? { stopping: 0.35 } : {};
    const outcome = await slow.perform("a", [], { checkpoint, ...stop });
    if (outcome.outcome === "ack") break;
    assert.deepEqual([outcome.outcome, outcome.reason], ["release", "resumes at its checkpoint"]);
    checkpoint = outcome.checkpoints.at(-1) ?? checkpoint;
  }
  assert.deepEqual(done, numbers(12));
  assert.ok(attempts > 1);
});

test("a checkpoint that is too large does not keep the position from being saved", async () => {
  const fails = worker(async (job) => {
    for await (const row of job.iterate(numbers(4))) {
      if (row === 1) await assert.rejects(job.checkpoint("x".repeat(70_000)), { name: "CheckpointTooLarge" });
      if (row === 3) throw new Error("no");
    }
  });
  assert.deepEqual((await fails.perform("a")).checkpoints, [saved({ cursors: { "": 2 } })]);
});

test("the position is saved when the handler fails between two rows", async () => {
  const fails = worker(async (job) => {
    for await (const row of job.iterate(numbers(5))) if (row === 3) throw new Error("no");
  });
  const { outcome, checkpoints } = await fails.perform("a");
  assert.equal(outcome, "fail");
  assert.deepEqual(checkpoints, [saved({ cursors: { "": 2 } })]);
});

test("a cancel for another reason ends the handler before its next row", async () => {
  const done = [];
  const rows = worker(async (job) => {
    for await (const row of job.iterate(numbers(1000))) {
      done.push(row);
      await sleep(5);
    }
  });
  const { outcome, reason } = await rows.perform("a", [], { cancel: "cancelled", cancelAfterMs: 20 });
  assert.deepEqual([outcome, reason], ["release", "cancelled"]);
  assert.ok(done.length < 1000);
});

const stepper = (names, ran) =>
  worker(async (job) => {
    const results = [];
    for (const name of names) {
      const body = () => {
        ran.push(name);
        if (name === "bad") throw new Error("no");
        return name.toUpperCase();
      };
      results.push(await job.step(name, body));
    }
    return results;
  });

test("a finished step does not run again and gives the result that it had", async () => {
  const ran = [];
  const first = await stepper(["one", "two", "bad"], ran).perform("a");
  const state = first.checkpoints.at(-1);
  assert.deepEqual(state, saved({ steps: [["one", "ONE"], ["two", "TWO"]] }));
  const { result } = await stepper(["one", "two", "three"], ran).perform("a", [], { checkpoint: state });
  assert.deepEqual(result, ["ONE", "TWO", "THREE"]);
  assert.deepEqual(ran, ["one", "two", "bad", "three"]);
});

test("steps in another order fail the job for good, and the message names both orders", async () => {
  const checkpoint = saved({ steps: [["one", 1], ["two", 2]] });
  const { error } = await stepper(["two", "one"], []).perform("a", [], { checkpoint });
  assert.deepEqual([error.type, error.retryable], ["StepsChanged", false]);
  assert.match(error.message, /had one, two; this one has two/);
});

test("a step goes on inside of its rows, and the handler's own state lives beside it", async () => {
  const rows = worker(async (job) => {
    const seen = job.lastCheckpoint;
    await job.step("import", async () => {
      for await (const row of job.iterate(numbers(4))) if (row === 2 && seen === null) throw new Error("no");
    });
    await job.checkpoint("mine");
    return seen;
  });
  const first = (await rows.perform("a")).checkpoints.at(-1);
  assert.deepEqual(first, saved({ cursors: { import: 1 } }));
  const next = await rows.perform("a", [], { checkpoint: { ...first, state: "before" } });
  assert.equal(next.result, "before");
  assert.deepEqual(next.checkpoints.at(-1), saved({ steps: [["import", null]], state: "mine" }));
});

test("two steps of one name, one inside of another, and a result that is no JSON are failures", async () => {
  const twice = await worker(async (job) => {
    await job.step("s", () => 1);
    await job.step("s", () => 1);
  }).perform("a");
  assert.match(twice.error.message, /step s comes twice/);
  const inside = await worker((job) => job.step("s", () => job.step("t", () => 1))).perform("a");
  assert.match(inside.error.message, /begins inside of step s/);
  const bad = await worker((job) => job.step("s", () => NaN)).perform("a");
  assert.deepEqual([bad.error.type, bad.error.retryable], ["InvalidResult", false]);
});

test("more than 64 KiB to keep is a failure for good", async () => {
  const { error } = await worker((job) => job.step("s", () => "x".repeat(70_000))).perform("a");
  assert.deepEqual([error.type, error.retryable], ["CheckpointTooLarge", false]);
});
