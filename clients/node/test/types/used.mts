// How a program uses the types. A line behind `@ts-expect-error` has to be wrong.

import { Client, Discard, Retry, Worker, currentJob, optional, work } from "../../ojs-worker.mjs";
import type { Job, Middleware } from "../../ojs-worker.mjs";

const worker = new Worker({ concurrency: 4, middleware: [async (_job, next) => next()] });

// The arguments in job.args.
worker.job("resize", async (job) => {
  const size: number = await job.step("measure", (name: string) => name.length, "a.png");
  for await (const row of job.iterate([{ id: 1 }], { key: ({ id }) => id })) void (row.id + size);
  const reason: string | undefined = job.cancelReason;
  const left: number | null = job.remaining();
  const saved: boolean = await job.checkpoint({ left, reason });
  await job.sleep(10);
  await fetch("http://localhost/", { signal: job.signal });
  return saved || job.isLastAttempt;
});

// The arguments one by one, typed by what is declared.
worker.job("email.send", { args: [String, "integer", optional(Boolean)] }, async (to, count, html, job) => {
  const length: number = to.length + count;
  const isHtml: boolean | undefined = html;
  // @ts-expect-error: `to` is a string
  const wrong: number = to;
  void [wrong, isHtml];
  if (length === 0) throw new Retry("nothing to send", { after: 60 });
  return { sent: job.id };
});

// @ts-expect-error: there is no such kind
worker.job("a", { args: ["text"] }, () => {});
// @ts-expect-error: a plain handler gets the job alone
worker.job("a", (job, to) => to);
// @ts-expect-error: there is no such option
new Worker({ concurency: 4 });
// @ts-expect-error: only a Retry comes again
new Discard("no", { after: 1 });

// A map of jobs types handlers, perform and enqueue.
interface Jobs {
  "email.send": [to: string, body: string];
  "report.make": [day: string, pages?: number];
  "clean": [];
}
const typed = new Worker<Jobs>();
typed.job("email.send", (job) => {
  const [to, body] = job.args;
  // @ts-expect-error: the arguments are strings
  const wrong: number = job.args[0];
  return [to.length, body.length, wrong];
});
typed.job("email.send", { args: [String, String] }, (to, body, job: Job<[string, string]>) => [to.length, body.at(0), job.id]);
typed.job("report.make", { args: [String, optional(Number)] }, (day, pages) => day.repeat(pages ?? 1));
// @ts-expect-error: the body is a string
typed.job("email.send", { args: [String, Number] }, (to, body) => [to, body]);
// @ts-expect-error: two arguments
typed.job("email.send", { args: [String] }, (to) => to);
// @ts-expect-error: there is no such job
typed.job("email.sent", () => {});
typed.job("*", (job) => job.args.length);

await typed.enqueue("email.send", ["a@b.c", "hello"], { queue: "mail", delay: 60, retry: 5, unique: { period: "PT1H" } });
await typed.enqueue("report.make", ["monday"]);
await typed.enqueue("clean");
// @ts-expect-error: an argument is missing
await typed.enqueue("email.send", ["a@b.c"]);
// @ts-expect-error: all arguments are missing
await typed.enqueue("email.send");
// @ts-expect-error: the body is a string
await typed.perform("email.send", ["a@b.c", 7]);
const id: string = (await new Client<Jobs>({ url: "http://localhost:8080", token: "t" }).enqueue("clean")).id;
await new Client().enqueue("anything", [id, 1]);

const traced: Middleware = async (_job, next) => next();
worker.use(traced).use((job, next) => (currentJob() === job ? next() : null));
worker.on("failed", (job, error) => void [job.id, error.message]).on("completed", (job, result) => void [job.id, result]);
// @ts-expect-error: there is no such event
worker.on("fail", () => {});

const { outcome } = await worker.perform("email.send", ["a@b.c", "hello"], { stoppingMs: 5000, giveUpAfterMs: 1000 });
// @ts-expect-error: an outcome is one of three
if (outcome === "done") throw new Error();

const status: number = await worker.run();
const end: Promise<never> = work({ handlers: { a: () => status } });
void end;
worker.stop();
