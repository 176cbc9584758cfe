// Work that goes on where an earlier attempt stopped.

import assert from "node:assert/strict";
import { test as nodeTest } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Interrupted, Worker, parseJson } from "../ojs-worker.mjs";

/** Nothing here takes long; the limit is for a hang, on the slowest machine. */
const test = (name, body) => nodeTest(name, { timeout: 60_000 }, body);

const worker = (handler) => new Worker({ log: () => {}, handlers: { a: handler } });

/** What an earlier attempt saved. */
const saved = (more) => ({ ojs_resume: 1, steps: [], cursors: {}, state: null, ...more });

const numbers = (count) => Array.from({ length: count }, (_, index) => index);

const walk = (rows, options) =>
  worker(async (job) => {
    const done = [];
    for await (const row of job.iterate(rows, options)) done.push(row);
    return done;
  });

/** Runs the steps in `args`, with the results of `body`. */
const steps = (body = (name) => name) =>
  worker(async (job) => {
    const results = [];
    for (const name of job.args) results.push(await job.step(name, body, name));
    return results;
  });

const failure = async (running) => (({ error }) => [error?.type, error?.retryable])(await running);

test("iterate goes on behind the last finished row, by its index or its key", async () => {
  const byIndex = await walk(numbers(6)).perform("a", [], { checkpoint: saved({ cursors: { "": 3 } }) });
  assert.deepEqual(byIndex.result, [4, 5]);
  const rows = ["new", "a", "b", "c"].map((id) => ({ id }));
  const byKey = await walk(rows, { key: ({ id }) => id }).perform("a", [], { checkpoint: saved({ cursors: { "": "b" } }) });
  assert.deepEqual(byKey.result, [{ id: "c" }]);
});

test("a key is found again however it is spelled, and no other one is taken for it", async () => {
  const others = [1, "1", 2n ** 64n + 1n, ["10"], [10], { day: 1 }, { 0: 10 }, true, "", 2];
  const spellings = [
    [10, "1e1"],
    [10n, "10.0"],
    [2n ** 64n, "18446744073709551616"],
    [2 ** 53, "9007199254740992"],
    [0.1, "1e-1"],
    ["10", '"10"'],
    [{ day: 1, of: [2n ** 64n, "x"] }, '{"of":[18446744073709551616,"x"],"day":1.0}'],
  ];
  for (const [key, spelled] of spellings) {
    const checkpoint = parseJson(`{"ojs_resume":1,"steps":[],"cursors":{"":${spelled}},"state":null}`);
    const rows = [...others, key, "behind"].map((id) => ({ id }));
    const { result } = await walk(rows, { key: ({ id }) => id }).perform("a", [], { checkpoint });
    assert.deepEqual(result, [{ id: "behind" }], spelled);
  }
});

test("rows that have changed fail the job for good", async () => {
  const keyed = walk(numbers(3), { key: (n) => n });
  assert.deepEqual(await failure(keyed.perform("a", [], { checkpoint: saved({ cursors: { "": 9 } }) })), ["StepsChanged", false]);
  for (const key of ["k2", 1.5, [1], true]) {
    for (const rows of [numbers(4), () => numbers(4)]) {
      const running = walk(rows).perform("a", [], { checkpoint: saved({ cursors: { "": key } }) });
      assert.deepEqual(await failure(running), ["StepsChanged", false], String(key));
    }
  }
});

test("rows may be a function of the position", async () => {
  const asked = [];
  const rows = async (after) => {
    asked.push(after);
    return [10, 20, 30].filter((n) => n > (after ?? 0));
  };
  const keyed = walk(rows, { key: (n) => n });
  assert.deepEqual((await keyed.perform("a")).result, [10, 20, 30]);
  assert.deepEqual((await keyed.perform("a", [], { checkpoint: saved({ cursors: { "": 20 } }) })).result, [30]);
  assert.deepEqual(asked, [null, 20]);
});

test("a shutdown ends the handler before the row that would be cut off, and each row is done once in all attempts", async () => {
  const done = [];
  const caught = [];
  const slow = worker(async (job) => {
    try {
      for await (const row of job.iterate(numbers(12))) {
        await sleep(40);
        done.push(row);
      }
    } catch (error) {
      caught.push(error instanceof Interrupted);
      throw error;
    }
  });
  let outcome = {};
  for (let attempt = 1; outcome.outcome !== "ack"; attempt++) {
    const checkpoint = outcome.checkpoints?.at(-1);
    outcome = await slow.perform("a", [], { checkpoint, ...(attempt < 4 ? { stoppingMs: 350 } : {}) });
    if (attempt === 1) assert.deepEqual([outcome.outcome, outcome.reason], ["release", "resumes at its checkpoint"]);
  }
  assert.deepEqual(done, numbers(12));
  assert.deepEqual(new Set(caught), new Set([true]));
});

test("rows that take no time do not keep a cancel from coming", async () => {
  const endless = function* () {
    for (let n = 0; ; n++) yield n;
  };
  assert.equal((await walk(endless()).perform("a", [], { cancel: "cancelled", cancelAfterMs: 20 })).reason, "cancelled");
});

test("the position is saved before a failure, together with the handler's own state", async () => {
  const fails = worker(async (job) => {
    for await (const row of job.iterate(numbers(9))) {
      if (row === 1) await assert.rejects(job.checkpoint("x".repeat(70_000)), { name: "CheckpointTooLarge" });
      if (row === 2) await job.checkpoint("mine");
      if (row === 4) throw new Error("no");
    }
  });
  const { checkpoints } = await fails.perform("a");
  assert.deepEqual(checkpoints, [saved({ cursors: { "": 1 }, state: "mine" }), saved({ cursors: { "": 3 }, state: "mine" })]);
});

test("a finished step does not run again, and gives the result that it had", async () => {
  const ran = [];
  const upper = steps((name) => (ran.push(name), { name }));
  const { result, checkpoints } = await upper.perform("a", ["x", "y"], { checkpoint: saved({ steps: [["x", { was: 1 }]] }) });
  assert.deepEqual([ran, result], [["y"], [{ was: 1 }, { name: "y" }]]);
  assert.deepEqual(checkpoints, [saved({ steps: [["x", { was: 1 }], ["y", { name: "y" }]] })]);
});

test("a loop inside of a step goes on, and its position is gone once the step is finished", async () => {
  const load = worker(async (job) => {
    await job.step("load", async () => {
      const rows = [];
      for await (const row of job.iterate(numbers(4))) rows.push(row);
      return rows;
    });
  });
  const { checkpoints } = await load.perform("a", [], { checkpoint: saved({ cursors: { load: 1 } }) });
  assert.deepEqual(checkpoints.at(-1), saved({ steps: [["load", [2, 3]]] }));
});

test("steps that have changed fail the job for good", async () => {
  const before = [
    saved({ steps: [["y", 1]] }),
    saved({ cursors: { y: 4 } }),
    saved({ steps: [null] }),
    saved({ steps: [["x", 1], ["z", 1]] }),
  ];
  for (const checkpoint of before) {
    assert.deepEqual(await failure(steps().perform("a", ["x", "y"], { checkpoint })), ["StepsChanged", false]);
  }
});

test("mistakes with steps are errors that say so", async () => {
  const nested = worker((job) => job.step("out", () => job.step("in", () => 1)));
  assert.match((await nested.perform("a")).error.message, /step in begins inside of step out/);
  assert.match((await steps().perform("a", ["x", "x"])).error.message, /step x comes twice/);
  assert.match((await steps().perform("a", [""])).error.message, /give a name and a function/);
  assert.match((await steps(() => NaN).perform("a", ["x"])).error.message, /the result of step x holds NaN/);
  const twice = worker(async (job) => {
    for await (const _ of job.iterate([1]));
    for await (const _ of job.iterate([1]));
  });
  assert.match((await twice.perform("a")).error.message, /a second one in the same step/);
});

test("more than 64 KiB fail the job for good", async () => {
  const large = steps(() => "x".repeat(40_000)).perform("a", ["x", "y"]);
  assert.deepEqual(await failure(large), ["CheckpointTooLarge", false]);
});

test("a checkpoint without the form is the handler's own", async () => {
  const rows = worker(async (job) => {
    for await (const _ of job.iterate([1]));
    return job.lastCheckpoint;
  });
  for (const checkpoint of [7, "x", [1], { ojs_resume: 2, steps: [] }, { ojs_resume: 1, steps: {} }]) {
    assert.deepEqual((await rows.perform("a", [], { checkpoint })).result, checkpoint);
  }
});
