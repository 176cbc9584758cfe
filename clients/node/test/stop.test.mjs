// The program itself says that it is enough.

import assert from "node:assert/strict";
import { test as nodeTest } from "node:test";
import { Worker } from "../ojs-worker.mjs";
import { HELLO, job, listen } from "./fake-init.mjs";

/** Nothing here takes long; the limit is for a hang, on the slowest machine. */
const test = (name, body) => nodeTest(name, { timeout: 60_000 }, body);

test("stop takes no more jobs, finishes those that are held, and lets run resolve with 0", async (t) => {
  const { path, accept } = await listen(t);
  let finish;
  const isFinished = new Promise((resolve) => (finish = resolve));
  const worker = new Worker({ socketPath: path, log: () => {}, concurrency: 3, handlers: { a: () => isFinished } });
  const accepted = accept();
  const status = worker.run();
  const init = await accepted;
  init.send(HELLO);
  assert.equal((await init.frame()).concurrency, 3);
  init.send(job("a"));
  await init.framesUntilPong();
  worker.stop();
  worker.stop(); // Once is enough.
  assert.equal((await init.frame()).concurrency, 0);
  const { job_id } = await init.frame();
  init.send(job("a", [], { id: "late" })); // It was on its way.
  init.send({ type: "error", code: "not_held", message: "no", job_id });
  finish("done");
  assert.deepEqual([(await init.frame()).result, (await init.frame()).result], ["done", "done"]);
  assert.equal(await status, 0);
});

test("a worker that is stopped before it was greeted takes no job at all", async (t) => {
  const { path, accept } = await listen(t);
  const worker = new Worker({ socketPath: path, log: () => {}, handlers: { a: () => 1 } });
  const accepted = accept();
  const status = worker.run();
  worker.stop();
  const init = await accepted;
  init.send(HELLO);
  assert.equal(await status, 0);
});
