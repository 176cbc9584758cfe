// What ends the steps and rows of a job ends the job: whatever its handler makes of that.

import assert from "node:assert/strict";
import { once } from "node:events";
import { test as nodeTest } from "node:test";
import { Discard, Retry, Worker, patchConsole } from "../ojs-worker.mjs";

/** Nothing here takes long; the limit is for a hang, on the slowest machine. */
const test = (name, body) => nodeTest(name, { timeout: 60_000 }, body);

const worker = (handler) => new Worker({ log: () => {}, onError: () => {}, handlers: { a: handler } });

/** What an earlier attempt saved. */
const saved = (more) => ({ ojs_resume: 1, steps: [], cursors: {}, state: null, ...more });

const numbers = (count) => Array.from({ length: count }, (_, index) => index);

/** What is logged while the body runs. */
async function logged(body) {
  const lines = [];
  const undo = patchConsole({ write: (line) => lines.push(JSON.parse(line)) });
  try {
    await body();
  } finally {
    undo();
  }
  return lines;
}

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

// --- errors after a cancel

const cancelled = async (job) => {
  if (!job.signal.aborted) await once(job.signal, "abort");
};

test("an error after a cancel gives the job back, and is in the log with its stack", async () => {
  let outcome;
  const lines = await logged(async () => {
    outcome = await new Worker()
      .job("a", async (job) => {
        await cancelled(job);
        undefined.x;
      })
      .perform("a", [], { cancel: "shutdown" });
  });
  assert.deepEqual([outcome.outcome, outcome.reason], ["release", "shutdown"]);
  assert.deepEqual(lines.map(({ severity, error }) => [severity, error?.type]), [["WARN", "TypeError"]]);
  assert.match(lines[0].error.stack, /TypeError: .*\n +at /);
});

test("an error behind the end of a loop gives the job back, and is in the log with its stack", async () => {
  const lines = await logged(async () => {
    const { outcome, reason } = await new Worker()
      .job("a", async (job) => {
        try {
          for await (const _ of job.iterate(numbers(3)));
        } catch {
          throw new RangeError("a bug");
        }
      })
      .perform("a", [], { stopping: 0.1 });
    assert.deepEqual([outcome, reason], ["release", "resumes at its checkpoint"]);
  });
  assert.deepEqual(lines.map(({ severity, error }) => [severity, error?.type]), [["WARN", "RangeError"]]);
});

const OF_THE_CANCEL = [
  ["the signal's reason", (job) => job.signal.throwIfAborted()],
  ["an AbortError", () => { throw new DOMException("stopped", "AbortError"); }],
  ["an error with it as its cause", (job) => { throw new Error("no answer", { cause: job.signal.reason }); }],
];

for (const [what, throws] of OF_THE_CANCEL) {
  test(`a handler that throws ${what} after a cancel has nothing in the log`, async () => {
    const lines = await logged(async () => {
      const handler = async (job) => {
        await cancelled(job);
        throws(job);
      };
      assert.equal((await new Worker().job("a", handler).perform("a", [], { cancel: "shutdown" })).outcome, "release");
    });
    assert.deepEqual(lines, []);
  });
}

// --- the log of a failed job

test("what was wrong with a failed job is in the log once, at error", async () => {
  const cases = [
    [() => NaN, /InvalidResult: the handler's result is not JSON: it/],
    [(job) => job.step("s", () => NaN), /InvalidResult: the result of step s is not JSON: it/],
    [() => { throw new Retry("later", { cause: new RangeError("far") }); }, /RangeError: later/],
    [() => { throw new TypeError("oh"); }, /TypeError/],
  ];
  for (const [handler, wanted] of cases) {
    const lines = await logged(() => new Worker().job("a", handler).perform("a"));
    assert.deepEqual(lines.map(({ severity }) => severity), ["ERROR"]);
    assert.match(lines[0].message, wanted);
  }
});

test("a Retry with a cause has the stack of both in the log, and one in words alone is not there", async () => {
  const caused = () => {
    throw new Retry("later", { cause: new RangeError("far") });
  };
  const [line] = await logged(() => new Worker().job("a", caused).perform("a"));
  assert.match(line.error.stack, /later\n +at [^]*\nCaused by: RangeError: far\n +at /);
  const plain = () => {
    throw new Discard("no address");
  };
  assert.deepEqual(await logged(() => new Worker().job("a", plain).perform("a")), []);
});
