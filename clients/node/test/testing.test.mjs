import assert from "node:assert/strict";
import { test as nodeTest } from "node:test";
import { DevserverMissing, devserver } from "../testing.mjs";

const test = (name, body) => nodeTest(name, { timeout: 60_000 }, body);

test("a development server that is not there is told by name", async () => {
  await assert.rejects(devserver({ program: "/nowhere/ojs-devserver" }), (error) => {
    assert.ok(error instanceof DevserverMissing);
    assert.match(error.message, /^\/nowhere\/ojs-devserver is not there: .*OJS_DEVSERVER/);
    return true;
  });
});

test("one that ends at its start is told, too", async () => {
  await assert.rejects(devserver({ program: process.execPath, args: [] }), /ended at its start, with status 9/);
});

test("a job that is enqueued is there, and close ends the server", async (t) => {
  let server;
  try {
    server = await devserver();
  } catch (error) {
    if (error instanceof DevserverMissing) return t.skip(error.message);
    throw error;
  }
  try {
    const { id } = await server.enqueue("email.send", ["a@b.c"], { queue: "mail" });
    const job = await server.job(id);
    assert.deepEqual([job.type, job.queue, job.state, job.args], ["email.send", "mail", "available", ["a@b.c"]]);
    await assert.rejects(server.job("nobody"), /the development server says 404/);
  } finally {
    await server.close();
  }
  await assert.rejects(fetch(server.url));
});
