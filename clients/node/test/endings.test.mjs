// What ends the steps and rows of a job ends the job: whatever its handler makes of that.

import assert from "node:assert/strict";
import { test as nodeTest } from "node:test";
import { Retry, Worker } from "../ojs-worker.mjs";

/** Nothing here takes long; the limit is for a hang, on the slowest machine. */
const test = (name, body) => nodeTest(name, { timeout: 60_000 }, body);

const worker = (handler) => new Worker({ log: () => {}, onError: () => {}, handlers: { a: handler } });

/** What an earlier attempt saved. */
const saved = (more) => ({ ojs_resume: 1, steps: [], cursors: {}, state: null, ...more });

const numbers = (count) => Array.from({ length: count }, (_, index) => index);

const fails = (message) => () => {
  throw new Error(message);
};

// --- steps that changed

test("StepsChanged ends the job, also where the handler catches it and goes on", async () => {
  const ran = [];
  const swallows = worker(async (job) => {
    await job.step("other", () => ran.push("other")).catch(() => {});
    await job.step("pay", () => ran.push("pay")).catch(() => {});
    return "done";
  });
  const { outcome, error } = await swallows.perform("a", [], { checkpoint: saved({ steps: [["thumbnail", 1]] }) });
  assert.deepEqual([outcome, error?.type, error?.retryable, ran], ["fail", "StepsChanged", false, []]);
});

test("a loop whose rows have changed ends the job, and the step around it is not finished", async () => {
  const swallows = worker((job) =>
    job.step("load", async () => {
      try {
        for await (const _ of job.iterate(numbers(3), { key: (n) => n }));
      } catch {
        return "whole";
      }
    }).catch(() => "done"),
  );
  const { outcome, error, checkpoints } = await swallows.perform("a", [], { checkpoint: saved({ cursors: { load: 9 } }) });
  assert.deepEqual([outcome, error?.type, checkpoints], ["fail", "StepsChanged", []]);
});

// --- a step that failed

test("after a step that failed no other one begins: it gets the same error", async () => {
  const ran = [];
  const caught = worker(async (job) => {
    await job.step("thumbnail", fails("no thumbnail")).catch(() => {});
    await job.step("pay", () => ran.push("pay"));
  });
  const { outcome, error } = await caught.perform("a");
  assert.deepEqual([outcome, error?.message, error?.retryable, ran], ["fail", "no thumbnail", true, []]);
});

test("a step that failed may be called again, and its rows go on behind the last one", async () => {
  const rows = [];
  const again = worker(async (job) => {
    const load = () =>
      job.step("load", async () => {
        for await (const row of job.iterate(numbers(4))) {
          if (row === 2 && rows.length === 2) throw new Error(`no ${rows.push("!")}`);
          rows.push(row);
        }
        return "loaded";
      });
    const first = await load().catch(load);
    return [first, await job.step("tell", () => "told")];
  });
  const { result, checkpoints } = await again.perform("a");
  assert.deepEqual([result, rows], [["loaded", "told"], [0, 1, "!", 2, 3]]);
  assert.deepEqual(checkpoints.at(-1).steps.map(([name]) => name), ["load", "tell"]);
});

test("a step whose result is too large to keep leaves the position of its rows as it was", async () => {
  const large = worker((job) =>
    job.step("load", async () => {
      for await (const _ of job.iterate(numbers(3)));
      return "x".repeat(70_000);
    }).catch(() => {
      throw new Retry("once more");
    }),
  );
  assert.deepEqual((await large.perform("a")).checkpoints, [saved({ cursors: { load: 2 } })]);
});

// --- what the handler changes

test("what the handler changes afterwards is not saved: results, the last checkpoint, keys", async () => {
  const changes = worker(async (job) => {
    job.lastCheckpoint.mine = "changed";
    const old = await job.step("one", () => 1);
    old.n = "changed";
    const result = await job.step("two", () => ({ n: 2 }));
    result.n = "changed";
    for await (const row of job.iterate([{ id: { n: 7 } }, { id: { n: 8 } }], { key: (row) => row.id })) {
      if (row.id.n === 8) throw new Error("no");
      row.id.n = "changed";
    }
  });
  const checkpoint = saved({ steps: [["one", { n: 1 }]], state: { mine: 0 } });
  const { checkpoints } = await changes.perform("a", [], { checkpoint });
  const steps = [["one", { n: 1 }], ["two", { n: 2 }]];
  assert.deepEqual(checkpoints.at(-1), saved({ steps, cursors: { "": { n: 7 } }, state: { mine: 0 } }));
});

test("a key that is no JSON is an error", async () => {
  const { error } = await worker(async (job) => {
    for await (const _ of job.iterate([1], { key: () => NaN }));
  }).perform("a");
  assert.match(error.message, /the key of a row is not JSON: it/);
});
