// The packed client: as it installs, and with the packages that it works with. It needs npm and its
// registry.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test as nodeTest } from "node:test";
import { cancel, HELLO, job, listen, terminate } from "../fake-init.mjs";
import { DIR, bin, install, load, run } from "./install.mjs";

const test = (name, body) => nodeTest(name, { timeout: 300_000 }, body);

const tarball = install();

// --- the package

test("the package is imported both ways, and has no dependency", () => {
  for (const [entry, name] of [["ojs-worker", "Worker"], ["ojs-worker/opentelemetry", "opentelemetry"], ["ojs-worker/nestjs", "OjsJob"]]) {
    const code = `import { ${name} } from "${entry}"; console.log(typeof ${name});`;
    assert.equal(run(process.execPath, ["--input-type=module", "-e", code]).trim(), "function");
    assert.equal(run(process.execPath, ["-p", `typeof require("${entry}").${name}`]).trim(), "function");
  }
  const { dependencies, license } = load("ojs-worker/package.json");
  assert.deepEqual([dependencies, license], [undefined, "Apache-2.0"]);
});

test("publint and attw find nothing", () => {
  run(bin("publint"), ["--strict", tarball]);
  run(bin("attw"), [tarball]);
});

test("eslint's recommended rules find nothing", () => {
  const globals = "AbortController,AbortSignal,Buffer,URL,clearTimeout,console,fetch,performance,process,setTimeout";
  const names = Object.fromEntries(globals.split(",").map((name) => [name, "readonly"]));
  const code = `import js from "@eslint/js";
    const globals = ${JSON.stringify(names)};
    const unused = ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }];
    export default [
      js.configs.recommended,
      { languageOptions: { globals }, rules: { "no-unused-vars": unused }, linterOptions: { reportUnusedDisableDirectives: "error" } },
      { files: ["**/*.cjs"], languageOptions: { sourceType: "commonjs", globals: { ...globals, __dirname: "readonly" } } },
    ];`;
  writeFileSync(join(DIR, "eslint.config.mjs"), code);
  run(bin("eslint"), ["--config", "eslint.config.mjs", "--max-warnings=0", "source"]);
});

// --- the types

/**
 * Compiles programs beside the installed packages.
 * @param {Record<string, string>} programs the code by name
 */
function compile(programs, settings) {
  const compilerOptions = { strict: true, target: "es2022", types: [], ...settings };
  const files = Object.keys(programs).map((name) => `${name}.ts`);
  for (const [name, code] of Object.entries(programs)) writeFileSync(join(DIR, `${name}.ts`), code);
  writeFileSync(join(DIR, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
  run(bin("tsc"), ["-p", "."]);
}

test("the code has what the declarations promise, and programs use them", () => {
  run(bin("tsc"), ["-p", "source/test/types"]);
});

test("the declarations need neither those of Node.js nor those of browsers", () => {
  const code = `import { Worker, optional } from "ojs-worker";
    const worker = new Worker<{ "a": [string, number?] }>();
    worker.job("a", (job) => job.signal.aborted || job.stopping.aborted || job.args[0].length);
    worker.job("a", { args: [String, optional("integer")] }, (text, count, job) => text.length + (count ?? 0) + job.id.length);
    export const done = async (): Promise<string> => (await worker.enqueue("a", ["x"])).id;`;
  compile({ bare: code }, { noEmit: true, lib: ["es2022"], module: "node16" });
});

// --- schemas

const SCHEMAS = `
import { Worker } from "ojs-worker";
import { z } from "zod";
import * as v from "valibot";

export const worker = new Worker({ log: () => {} });
const order = z.object({ id: z.string(), count: z.int(), due: z.coerce.date().optional() });
worker.job("a", { args: [order, v.pipe(v.string(), v.email())] }, ({ id, count, due }, to, job) => {
  const typed: [string, number, Date | undefined, string] = [id, count, due, to];
  return [...typed, job.id];
});

const typed = new Worker<{ b: [{ id: string; count: number }, string] }>();
typed.job("b", { args: [order, v.string()] }, ({ id }, to) => id + to);
// @ts-expect-error: the second argument is a string
new Worker<{ b: [{ id: string; count: number }, string] }>().job("b", { args: [order, v.number()] }, () => {});
`;

test("schemas of zod and valibot check the arguments", async () => {
  compileApplications();
  const { worker } = load(join(DIR, "schemas.js"));
  const { result } = await worker.perform("a", [{ id: "x", count: 2, due: "2026-01-01" }, "ann@example.org"], { id: "j" });
  assert.deepEqual(result, ["x", 2, "2026-01-01T00:00:00.000Z", "ann@example.org", "j"]);
  const message = async (...args) => (await worker.perform("a", args)).error.message;
  const expected = "expected what its schema accepts, received";
  assert.equal(await message({ id: "secret", count: "secret" }, "ann@example.org"), `args[0]: ${expected} an object, at count`);
  assert.equal(await message({ id: "x", count: 1 }, "secret"), `args[1]: ${expected} a string`);
});

// --- OpenTelemetry

test("a span of each job is linked to the one that enqueued it, and has the error", async () => {
  const { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } = load("@opentelemetry/sdk-trace-node");
  const { trace } = load("@opentelemetry/api");
  const { opentelemetry, traceMeta } = load("ojs-worker/opentelemetry");
  const { Release, Worker } = load("ojs-worker");
  const exporter = new InMemorySpanExporter();
  new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register();
  const tracer = trace.getTracer("test");
  const worker = new Worker({ log: () => {} })
    .use(opentelemetry())
    .job("done", () => tracer.startActiveSpan("inside", (span) => span.end()))
    .job("fails", { args: [String] }, () => {})
    .job("back", () => { throw new Release("no"); });
  const meta = tracer.startActiveSpan("enqueue", (span) => (span.end(), traceMeta({ tenant: "x" })));
  for (const type of ["done", "fails", "back"]) await worker.perform(type, [], { queue: "mail", meta, id: type });
  const [enqueue, inside, done, fails, back] = exporter.getFinishedSpans();
  assert.deepEqual([meta.tenant, done.name, done.kind, done.status.code, fails.status.code, back.status.code], ["x", "mail process", 4, 0, 2, 0]);
  assert.equal(done.links[0].context.traceId, enqueue.spanContext().traceId);
  assert.equal(inside.parentSpanContext.spanId, done.spanContext().spanId);
  assert.equal(fails.events[0].attributes["exception.type"], "invalid_args");
  const { "ojs.job.id": id, "ojs.job.type": type, "messaging.system": system } = done.attributes;
  assert.deepEqual([id, type, system], ["done", "done", "ojs"]);
  // As a frame brings the context of ojs-init's span.
  const [traceId, spanId] = ["a".repeat(32), "b".repeat(16)];
  const below = new Worker({ log: () => {} })
    .use((job, next) => (Object.assign(job, { traceparent: `00-${traceId}-${spanId}-01` }), next()))
    .use(opentelemetry())
    .job("done", () => {});
  await below.perform("done", [], { meta });
  const span = exporter.getFinishedSpans().at(-1);
  assert.deepEqual([span.spanContext().traceId, span.parentSpanContext.spanId], [traceId, spanId]);
  assert.equal(span.links[0].context.traceId, enqueue.spanContext().traceId);
});

// --- NestJS

const APPLICATION = `
import "reflect-metadata";
import { Injectable, Module, OnApplicationShutdown, Scope } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { Job, Worker } from "ojs-worker";
import { OjsJob, OjsModule, runWorker } from "ojs-worker/nestjs";

@Injectable()
class Greetings {
  of(name: string) { return "hello " + name; }
}

abstract class Base {
  @OjsJob("where")
  where(job: Job) { return job.queue; }
}

@Injectable()
class Mailer extends Base implements OnApplicationShutdown {
  constructor(private readonly greetings: Greetings, private readonly worker: Worker) { super(); }

  @OjsJob(["email.send", "email.resend"], { args: [String, "integer"] })
  async send(to: string, count: number, job: Job) {
    return [this.greetings.of(to), count, job.id, typeof this.worker.enqueue];
  }

  @OjsJob("wait")
  wait(job: Job) { return job.sleep(1e8); }

  onApplicationShutdown() { console.log("closed"); }
}

@Injectable({ scope: Scope.REQUEST })
class PerRequest {
  @OjsJob("never")
  never() {}
}

const providers = process.env.PER_REQUEST ? [Greetings, Mailer, PerRequest] : [Greetings, Mailer];

@Module({ imports: [OjsModule.forRoot({ concurrency: 3 })], providers })
class AppModule {}

async function main() {
  const app = await NestFactory.createApplicationContext(AppModule, { logger: false, abortOnError: false });
  app.enableShutdownHooks();
  await runWorker(app);
}
main().catch((error) => { console.log(error.message); process.exit(2); });
`;

let isCompiled = false;

/** Both programs at once: the compiler takes its time. */
function compileApplications() {
  if (isCompiled) return;
  const decorators = { experimentalDecorators: true, emitDecoratorMetadata: true };
  compile({ schemas: SCHEMAS, nest: APPLICATION }, { module: "commonjs", skipLibCheck: true, types: ["node"], ...decorators });
  isCompiled = true;
}

function startApplication(t, env) {
  const child = spawn(process.execPath, ["nest.js"], { cwd: DIR, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => child.kill("SIGKILL"));
  const said = { text: "" };
  child.stdout.setEncoding("utf8").on("data", (text) => (said.text += text));
  return { child, said, exit: once(child, "close") };
}

test("a NestJS application runs jobs, and its shutdown hooks wait for the last one", async (t) => {
  compileApplications();
  const { path, accept } = await listen(t);
  const accepted = accept();
  const { child, said, exit } = startApplication(t, { OJS_SOCKET: path });
  const init = await accepted;
  init.send(HELLO);
  const ready = await init.frame();
  assert.deepEqual([ready.concurrency, ready.types.sort()], [3, ["email.resend", "email.send", "wait", "where"]]);
  init.send(job("email.resend", ["ann", 2]));
  assert.deepEqual((await init.frame()).result, ["hello ann", 2, "j1", "function"]);
  init.send(job("email.send", ["ann", "two"]));
  assert.equal((await init.frame()).error.type, "InvalidArgs");
  init.send(job("where"));
  assert.equal((await init.frame()).result, "default");
  init.send(job("wait"));
  await init.framesUntilPong();
  child.kill("SIGTERM");
  assert.equal((await init.frame()).concurrency, 0);
  assert.equal((await init.frame()).type, "heartbeat");
  assert.deepEqual(await init.framesUntilPong(), []);
  assert.equal(said.text, "");
  init.send(terminate, cancel("shutdown"));
  assert.equal((await init.frame()).type, "release");
  assert.deepEqual([await exit, said.text], [[0, null], "closed\n"]);
});

test("a request-scoped provider with a handler is refused", async (t) => {
  compileApplications();
  const { said, exit } = startApplication(t, { PER_REQUEST: "1", OJS_SOCKET: "/nowhere" });
  assert.deepEqual(await exit, [2, null]);
  assert.match(said.text, /@OjsJob\("never"\): PerRequest is request-scoped/);
});

test("the package has the README and the licence", () => {
  for (const [file, words] of [["README.md", /^# ojs-worker/], ["LICENSE", /Apache License/]]) {
    assert.match(readFileSync(join(DIR, "node_modules/ojs-worker", file), "utf8"), words);
  }
});
