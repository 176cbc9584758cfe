import assert from "node:assert/strict";
import { once } from "node:events";
import { test as nodeTest } from "node:test";
import { setImmediate as turn, setTimeout as sleep } from "node:timers/promises";
import { Jobs } from "../lib/jobs.cjs";
import { Registry } from "../lib/registry.cjs";
import { startWorker } from "./fake-init.mjs";
import { Discard, Release, Retry, Worker, parseJson } from "../ojs-worker.mjs";

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

/** Keys, and how a backend may spell them. */
const SPELLINGS = [
  [10, "10"],
  [10, "10.0"],
  [10, "1e1"],
  [10n, "10"],
  [10n, "10.0"],
  [2n ** 64n, "18446744073709551616"],
  [1e21, "1000000000000000000000"],
  [10n ** 21n, "1e21"],
  [0.1, "1e-1"],
  ["10", '"10"'],
  [{ day: 1, of: [2n ** 64n, "x"] }, '{"of":[18446744073709551616,"x"],"day":1.0}'],
  [new Date(0), '"1970-01-01T00:00:00.000Z"'],
];

test("a key is found again however it is spelled, and no other one is taken for it", async () => {
  const others = [1, "1", 2n ** 64n + 1n, ["10"], [10], { day: 1 }, { 0: 10 }, true, "", 2];
  for (const [key, spelled] of SPELLINGS) {
    const checkpoint = parseJson(`{"ojs_resume":1,"steps":[],"cursors":{"":${spelled}},"state":null}`);
    const rows = [...others, key, "behind"].map((id) => ({ id }));
    const { result } = await walk(rows, { key: ({ id }) => id }).perform("a", [], { checkpoint });
    assert.deepEqual(result, [{ id: "behind" }], spelled);
  }
});

test("a position that is a key fails the job for good when rows are known by their index now", async () => {
  for (const key of ["k2", "2", 1.5, 2n ** 60n, [1], { id: 1 }, true]) {
    for (const rows of [numbers(4), () => numbers(4)]) {
      const { error } = await walk(rows).perform("a", [], { checkpoint: saved({ cursors: { "": key } }) });
      assert.deepEqual([error?.type, error?.retryable], ["StepsChanged", false], String(key));
    }
  }
  const spelled = JSON.parse('{"ojs_resume":1,"steps":[],"cursors":{"":1.0},"state":null}');
  assert.deepEqual((await walk(numbers(4)).perform("a", [], { checkpoint: spelled })).result, [2, 3]);
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

test("an older checkpoint that is too large does not take the place of a newer one", async () => {
  const both = worker(async (job) => {
    await job.step("one", () => 1);
    const older = job.checkpoint("x".repeat(70_000));
    const newer = job.checkpoint("new");
    await assert.rejects(older, { name: "CheckpointTooLarge" });
    assert.equal(await newer, true);
    await job.step("two", () => 2);
  });
  assert.equal((await both.perform("a")).checkpoints.at(-1).state, "new");
});

test("a checkpoint that is no JSON, or that is changed later, does not spoil what steps save", async () => {
  const circular = {};
  circular.self = circular;
  for (const bad of [NaN, circular, () => {}]) {
    const says = worker(async (job) => {
      const mine = { n: 1 };
      await job.checkpoint(mine);
      await assert.rejects(job.checkpoint(bad), { name: "TypeError", message: /checkpoint was not sent: its state/ });
      await job.step("one", () => 1);
      await assert.rejects(job.checkpoint(bad), { name: "TypeError", message: /checkpoint was not sent: its state/ });
      mine.n = bad;
      await job.step("two", () => 2);
    });
    const { outcome, checkpoints } = await says.perform("a");
    assert.equal(outcome, "ack");
    assert.deepEqual(checkpoints.at(-1), saved({ steps: [["one", 1], ["two", 2]], state: { n: 1 } }));
  }
});

test("a finished step and a position that were not sent when they were saved go out before the answer", async () => {
  for (const part of ["step", "rows"]) {
    const registry = new Registry();
    registry.add("a", async (job) => {
      if (part === "step") await job.step("one", () => 1);
      else for await (const _ of job.iterate([1])) await job.checkpoint("mine");
      throw new Error("no");
    });
    const lines = [];
    const offer = async (_job, _kind, line) => lines.push(JSON.parse(line)) > 1; // The first one does not go out.
    await new Promise((answered) => {
      const out = { offer, write: (line) => lines.push(JSON.parse(line)), settle: () => {} };
      new Jobs(registry, { log: () => {}, onError: () => {} }, out, answered).take({ job: { id: "j1", type: "a" } });
    });
    assert.deepEqual(lines.map(({ type }) => type), ["checkpoint", "checkpoint", "fail"]);
    const whole = part === "step" ? saved({ steps: [["one", 1]] }) : saved({ cursors: { "": 0 }, state: "mine" });
    assert.deepEqual(lines[1].state, whole);
  }
});

test("what a step and a checkpoint save while ojs-init does not read comes before the answer, the newest last", async (t) => {
  let told;
  const isSaid = new Promise((resolve) => (told = resolve));
  const handler = async (job) => {
    // More than any socket takes, until one has to wait.
    for (let n = 0; n < 100; n++) job.progress(0.5, "x".repeat(200_000));
    void job.step("one", () => 1); // It waits until its result is out, so nobody waits for it here.
    await turn();
    void job.checkpoint("older");
    void job.checkpoint("newer");
    told();
    throw new Error("no");
  };
  const { init } = await startWorker(t, { handlers: { a: handler }, onError: () => {} });
  init.pause();
  init.send({ type: "job", job: { id: "j1", type: "a" } });
  await isSaid;
  init.resume();
  const frames = [];
  do frames.push(await init.frame());
  while (frames.at(-1).type !== "fail");
  assert.deepEqual(frames.filter(({ type }) => type === "checkpoint").at(-1).state, saved({ steps: [["one", 1]], state: "newer" }));
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

const tryAgain = async (_job, next) => {
  for (let tries = 1; ; tries++) {
    try {
      return await next();
    } catch (error) {
      if (tries === 3) throw error;
    }
  }
};

test("where a middleware tries again, finished steps give their result, and rows go on behind the last one", async () => {
  const ran = [];
  let tries = 0;
  const flaky = worker(async (job) => {
    tries++;
    const first = await job.step("one", () => ran.push("one"));
    await job.step("two", async () => {
      for await (const row of job.iterate(numbers(4))) {
        if (row === 2 && tries === 1) throw new Error("no");
        ran.push(row);
      }
    });
    if (tries === 2) throw new Error("no");
    return [first, await job.step("three", () => "3")];
  }).use(async (job, next) => [await job.step("zero", () => 0), await next()]);
  const { outcome, result, checkpoints } = await flaky.use(tryAgain).perform("a");
  assert.deepEqual([outcome, result, tries], ["ack", [0, [1, "3"]], 3]);
  assert.deepEqual(ran, ["one", 0, 1, 2, 3]);
  assert.deepEqual(checkpoints.at(-1).steps.map(([name]) => name), ["zero", "one", "two", "three"]);
});

test("where a middleware tries again, other steps than before fail the job for good", async () => {
  let tries = 0;
  const changes = worker(async (job) => {
    await job.step(`step ${++tries}`, () => 1);
    throw new Error("no");
  }).use(tryAgain);
  assert.equal((await changes.perform("a")).error.type, "StepsChanged");
});

test("steps that begin side by side are a failure, and the second one does not run", async () => {
  const ran = [];
  const { outcome, error, checkpoints } = await worker((job) =>
    Promise.all(["one", "two"].map((name) => job.step(name, () => ran.push(name)))),
  ).perform("a");
  assert.equal(outcome, "fail");
  assert.match(error.message, /step two begins inside of step one/);
  assert.deepEqual(ran.filter((name) => name === "two"), []);
  assert.ok(checkpoints.every(({ steps }) => steps.every(([name]) => name === "one")));
});

test("more than 64 KiB to keep is a failure for good", async () => {
  const { error } = await worker((job) => job.step("s", () => "x".repeat(70_000))).perform("a");
  assert.deepEqual([error.type, error.retryable], ["CheckpointTooLarge", false]);
});

// --- a handler that catches what ends it

const RESUMES = ["release", "resumes at its checkpoint"];

const stopping = async (job) => {
  if (!job.stopping.aborted) await once(job.stopping, "abort");
};

/** Two rows are done; then the shutdown leaves too little time for the third. */
const ends = (caught) =>
  worker(async (job) => {
    try {
      for await (const row of job.iterate(numbers(9))) if (row === 1) await stopping(job);
    } catch (error) {
      return caught(error, job);
    }
  });
const SHORT = { stopping: 0.2, stoppingAfterMs: 50 };

const MADE_OF_IT = [
  ["returns", () => "done"],
  ["throws another error", () => { throw new TypeError("no"); }],
  ["throws an error with it as its cause", (cause) => { throw new Error("import failed", { cause }); }],
  ["throws a Retry with it as its cause", (cause) => { throw new Retry("import failed", { cause }); }],
  ["throws a Discard with it as the cause of its cause", (end) => { throw new Discard("no", { cause: new Error("", { cause: end }) }); }],
];

for (const [what, caught] of MADE_OF_IT) {
  test(`a handler that catches the end of its loop and ${what} is given back with its position`, async () => {
    const { outcome, reason, checkpoints } = await ends(caught).perform("a", [], SHORT);
    assert.deepEqual([outcome, reason], RESUMES);
    assert.deepEqual(checkpoints, [saved({ cursors: { "": 1 } })]);
  });
}

test("what a handler means itself after the end of its loop counts", async () => {
  const failed = await ends(() => { throw new Discard("no"); }).perform("a", [], SHORT);
  assert.deepEqual([failed.outcome, failed.error.message, failed.error.retryable], ["fail", "no", false]);
  const given = await ends(() => { throw new Release("mine"); }).perform("a", [], SHORT);
  assert.deepEqual([given.outcome, given.reason], ["release", "mine"]);
});

test("a middleware that catches the end of a loop, or tries again, does not change the outcome", async () => {
  for (const caught of [() => "done", (next) => next()]) {
    const { outcome, reason } = await ends((error) => { throw error; })
      .use(async (_job, next) => {
        try {
          return await next();
        } catch {
          return caught(next);
        }
      })
      .perform("a", [], SHORT);
    assert.equal(outcome, "release");
    assert.equal(reason, "resumes at its checkpoint");
  }
});

test("a step whose body catches the end of its loop is not finished, and no shorter step follows it", async () => {
  const ran = [];
  const swallows = worker(async (job) => {
    try {
      await job.step("load", async () => {
        try {
          for await (const row of job.iterate(numbers(9))) {
            if (row !== 1) continue;
            await stopping(job);
            await sleep(400);
          }
        } catch {
          return "whole";
        }
      });
    } catch {
      await job.step("tell", () => ran.push("tell"));
    }
  });
  // The 500 ms that are left are enough for a step that is new, and too few for a row after one of 400 ms.
  const { outcome, reason, checkpoints } = await swallows.perform("a", [], { stopping: 0.9, stoppingAfterMs: 50 });
  assert.deepEqual([outcome, reason, ran], [...RESUMES, []]);
  assert.deepEqual(checkpoints.at(-1), saved({ cursors: { load: 1 } }));
});

test("a loop that a cancel ends is not done, whatever its handler catches", async () => {
  const swallows = worker(async (job) => {
    try {
      for await (const _ of job.iterate(numbers(9))) if (!job.signal.aborted) await once(job.signal, "abort");
    } catch {
      return "done";
    }
  });
  const cancelled = await swallows.perform("a", [], { cancel: "cancelled", cancelAfterMs: 5 });
  assert.deepEqual([cancelled.outcome, cancelled.reason], ["release", "cancelled"]);
  const late = await swallows.perform("a", [], { timeoutMs: 20 });
  assert.deepEqual([late.outcome, late.error?.code], ["fail", "timeout"]);
});
