// The fixture worker that docs/write-a-client.md describes under "Check your client", built as a
// user would.

import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Discard, Release, Retry, Worker, patchConsole } from "../ojs-worker.mjs";

// `node --test DIRECTORY` of Node 18 and 20 takes every file under test/ for a test. This is none:
// let it pass.
if (process.env.NODE_TEST_CONTEXT && !process.env.OJS_SOCKET) process.exit(0);

const isDefault = process.argv.slice(2).join(" ") === "--concurrency default";

patchConsole();
const worker = new Worker(isDefault ? {} : { concurrency: 2 });

for (const name of ["outer", "inner"]) {
  worker.use(async (job, next) => {
    if (job.type === "fixture.middleware") (job.locals.names ??= []).push(name);
    return next();
  });
}

worker.job("fixture.echo", (job) => job.args);

worker.job("fixture.fail", ({ args: [message, retryable] }) => {
  const options = { code: "x_fixture", type: "FixtureError" };
  throw retryable ? new Retry(message, options) : new Discard(message, options);
});

worker.job("fixture.crash", ({ args: [message] }) => {
  throw new Error(message);
});

worker.job("fixture.wait", async (job) => {
  if (!job.signal.aborted) await once(job.signal, "abort");
  throw new Release(job.cancelReason);
});

worker.job("fixture.sleep", (job) => job.sleep(job.args[0]));

worker.job("fixture.progress", (job) => {
  job.progress(0.5, "half");
});

worker.job("fixture.checkpoint", async (job) => {
  await job.checkpoint({ step: 1 });
  return { resumed_from: job.lastCheckpoint };
});

worker.job("fixture.heartbeat", (job) => {
  job.heartbeat();
});

worker.job("fixture.release", () => {
  throw new Release("not mine");
});

worker.job("fixture.large", ({ args: [times] }) => "x".repeat(times));

worker.job("fixture.release_after", ({ args: [after] }) => {
  throw new Release("later", { after });
});

worker.job("fixture.retry", ({ args: [message, after] }) => {
  throw new Retry(message, { after, code: "x_retry" });
});

worker.job("fixture.discard", ({ args: [message] }) => {
  throw new Discard(message);
});

worker.job("fixture.not_json", () => NaN);

worker.job("fixture.fields", (job) => ({
  id: job.id,
  type: job.type,
  queue: job.queue,
  attempt: job.attempt,
  args: job.args,
  is_last_attempt: job.isLastAttempt,
  traceparent: job.traceparent,
  meta: job.meta,
  last_checkpoint: job.lastCheckpoint,
  has_deadline: job.deadline !== null,
  deadline_ms: job.deadline === null ? null : job.deadline.getTime() - Date.now(),
  remaining_ms: job.remaining() === null ? null : Math.floor(job.remaining()),
}));

worker.job("fixture.typed", { args: [String, "integer"] }, (to, count) => ({ to, count }));

worker.job("fixture.middleware", (job) => job.locals.names);

worker.job("fixture.log", ({ args: [text] }) => {
  console.info(text);
});

worker.job("fixture.iterate", async (job) => {
  const [count, ms] = job.args;
  const rows = [];
  for await (const row of job.iterate(Array.from({ length: count }, (_, index) => index))) {
    await sleep(ms);
    rows.push(row);
  }
  return { rows };
});

worker.job("fixture.keyed", async (job) => {
  const [count, ms] = job.args;
  const table = Array.from({ length: count }, (_, index) => ({ id: 10 * index }));
  const rows = [];
  for await (const { id } of job.iterate(table, { key: (row) => row.id })) {
    await sleep(ms);
    rows.push(id);
  }
  return { rows };
});

worker.job("fixture.steps", async (job) => {
  const ran = [];
  const results = [];
  for (const name of job.args) {
    const result = await job.step(name, () => {
      ran.push(name);
      return name.toUpperCase();
    });
    results.push(result);
  }
  return { ran, results };
});

worker.job("fixture.stopping", async (job) => {
  if (!job.stopping.aborted && !job.signal.aborted) {
    await Promise.race([once(job.stopping, "abort"), once(job.signal, "abort")]);
  }
  if (!job.stopping.aborted) throw new Release(job.cancelReason);
  return { remaining_known: job.remaining() !== null };
});

await worker.start();
