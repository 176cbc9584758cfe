// How a program uses the types. A line behind `@ts-expect-error` has to be wrong.

import { Discard, Retry, Worker, currentJob, work } from "../../ojs-worker.mjs";
import type { Job, Middleware } from "../../ojs-worker.mjs";
import { devserver } from "../../testing.mjs";
import { OJSWorker, register } from "../../compat.mjs";

const worker = new Worker({ concurrency: 4, middleware: [async (_job, next) => next()] });

worker.job<[to: string, body: string], { sent: true }>("email.send", async (job) => {
  const [to, body] = job.args;
  const length: number = to.length + body.length;
  // @ts-expect-error: the arguments are strings
  const wrong: number = job.args[0];
  void wrong;
  if (length === 0) throw new Retry("nothing to send", { after: 60 });
  return { sent: true };
});

// @ts-expect-error: the result is a number
worker.job<[], number>("count", () => "one");

// @ts-expect-error: there is no such option
new Worker({ concurency: 4 });

// @ts-expect-error: only a Retry comes again
new Discard("no", { after: 1 });

worker.job("resize", async (job) => {
  const size: number = await job.step("measure", (name: string) => name.length, "a.png");
  for await (const row of job.iterate([{ id: 1 }], { key: ({ id }) => id })) void (row.id + size);
  const reason: string | undefined = job.cancelReason;
  const left: number | null = job.remaining();
  const saved: boolean = await job.checkpoint({ left, reason });
  await fetch("http://localhost/", { signal: job.signal });
  return saved;
});

const traced: Middleware = async (job, next) => {
  const again: Job | undefined = currentJob();
  return again === job ? next() : null;
};
worker.use(traced);

const { outcome } = await worker.perform("email.send", ["a@b.c", "hello"], { stoppingMs: 5000, giveUpAfterMs: 1000 });
// @ts-expect-error: an outcome is one of three
if (outcome === "done") throw new Error();

const server = await devserver();
const id: string = (await server.enqueue("email.send", ["a@b.c"])).id;
await server.job(id);

new OJSWorker({ url: server.url }).register("a", async (ctx) => ctx.job.args).use("log", async (ctx, next) => next());
const sdk = new OJSWorker();
const off: () => void = sdk.events.on("job.failed", ({ data }) => void data.error);
sdk.middleware.insertBefore("log", "auth", async (ctx, next) => (ctx.attempt > 1 ? null : next()));
void [off, sdk.currentState === "terminated", sdk.activeJobCount + 1];
await sdk.start().then(() => sdk.stop());
register("b", (ctx) => ctx.signal.aborted);

const status: number = await worker.run({ processes: 4, maxJobs: 1000 });
const end: Promise<never> = work({ handlers: { a: () => status } });
void end;
worker.stop();
