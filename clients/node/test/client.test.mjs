// Enqueueing, against a server that answers as backends do.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { test as nodeTest } from "node:test";
import { Client, EnqueueError, Worker } from "../ojs-worker.mjs";

/** Nothing here takes long; the limit is for a hang, on the slowest machine. */
const test = (name, body) => nodeTest(name, { timeout: 60_000 }, body);

const UUID7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/**
 * A backend that answers with these, one after the other; the last one again and again. `drop`: it
 * hangs up.
 */
async function backend(t, ...answers) {
  const asked = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    asked.push({ path: request.url, token: request.headers.authorization, body: JSON.parse(body) });
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    const { status = 201, headers = {}, text } = typeof answer === "function" ? answer(asked.at(-1).body) : answer;
    if (status === "drop") return request.socket.destroy();
    response.writeHead(status, headers).end(text ?? JSON.stringify({ job: { ...asked.at(-1).body, state: "available" } }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  return { url: `http://127.0.0.1:${server.address().port}`, asked };
}

const error = (code, more = {}) => JSON.stringify({ error: { code, message: "why", ...more } });

test("a job arrives with its options, an id and the token", async (t) => {
  const { url, asked } = await backend(t, {});
  const client = new Client({ url: `${url}/prefix/`, token: "secret" });
  const options = { queue: "mail", delay: new Date(0), retry: 5, unique: { keys: ["type"] }, priority: 1, timeoutMs: 5, tags: ["x"], meta: { k: 1n } };
  const job = await client.enqueue("email.send", ["a@b.c", 2n ** 60n], options);
  const [{ path, token, body }] = asked;
  assert.deepEqual([path, token], ["/prefix/ojs/v1/jobs", "Bearer secret"]);
  const { id, ...rest } = body;
  assert.match(id, UUID7);
  assert.equal(job.id, id);
  assert.deepEqual(rest, {
    type: "email.send",
    args: ["a@b.c", Number(2n ** 60n)],
    meta: { k: 1 },
    options: { queue: "mail", delay_until: "1970-01-01T00:00:00.000Z", retry: { max_attempts: 5 }, unique: { keys: ["type"] }, priority: 1, timeout_ms: 5, tags: ["x"] },
  });
  await client.enqueue("clean", [], { delay: 3600 });
  const due = Date.parse(asked[1].body.options.delay_until) - Date.now();
  assert.ok(due > 3_500_000 && due <= 3_600_000);
});

test("a worker enqueues with the backend and the token of its environment", async (t) => {
  const { url, asked } = await backend(t, {});
  const before = { ...process.env };
  t.after(() => (process.env = before));
  Object.assign(process.env, { OJS_URL: url, OJS_AUTH_TOKEN: "other" });
  await new Worker().enqueue("a");
  process.env.OJS_ENQUEUE_TOKEN = "own";
  await new Worker().enqueue("a");
  assert.deepEqual(asked.map(({ token }) => token), ["Bearer other", "Bearer own"]);
  delete process.env.OJS_URL;
  await assert.rejects(async () => new Worker().enqueue("a"), /set OJS_URL, or give \{ url/);
});

test("connection errors, 429 and 5xx are retried with one id", async (t) => {
  const unavailable = { status: 503, text: "<html>" };
  const { url, asked } = await backend(t, { status: "drop" }, { status: 429, headers: { "retry-after": "0.01" } }, unavailable, {});
  const { id } = await new Client({ url }).enqueue("a");
  assert.deepEqual(asked.map(({ body }) => body.id), [id, id, id, id]);
});

test("a job that an earlier request has enqueued is enqueued", async (t) => {
  const taken = ({ id }) => ({ status: 409, text: error("duplicate", { details: { existing_job_id: id } }) });
  const { url, asked } = await backend(t, { status: "drop" }, taken);
  const { id } = await new Client({ url }).enqueue("a");
  assert.deepEqual(asked.map(({ body }) => body.id), [id, id]);
});

const REFUSALS = [
  [{ status: 401, text: error("unauthorized") }, { status: 401, code: "unauthorized", message: /^a was not enqueued at http.*: 401 unauthorized: why$/ }, 1],
  [({ id }) => ({ status: 409, text: error("duplicate", { details: { existing_job_id: id } }) }), { status: 409, code: "duplicate" }, 1],
  [{ status: 409, text: error("duplicate", { details: { existing_job_id: "other" } }) }, { existingId: "other" }, 1],
  [{ status: 302, text: "" }, { status: 302 }, 1],
  [{ status: 200, text: "<html>" }, { status: 200, message: /the answer has no job/ }, 1],
  [{ status: 429, headers: { "retry-after": "3600" }, text: "" }, { status: 429 }, 1],
  [{ status: 500, text: error("internal_error") }, { status: 500 }, 5],
  [{ status: "drop" }, { status: undefined, message: /^a was not enqueued at .*: / }, 5],
];

for (const [answer, expected, requests] of REFUSALS) {
  test(`an enqueue that fails is an error: ${JSON.stringify(answer) ?? "the id is taken"}`, async (t) => {
    const { url, asked } = await backend(t, answer);
    await assert.rejects(new Client({ url, token: "secret" }).enqueue("a"), (thrown) => {
      assert.ok(thrown instanceof EnqueueError && !thrown.message.includes("secret"));
      for (const [name, value] of Object.entries(expected)) {
        if (value instanceof RegExp) assert.match(thrown[name], value);
        else assert.equal(thrown[name], value);
      }
      return true;
    });
    assert.equal(asked.length, requests);
  });
}

test("a token that no header can have is refused, and in no error", () => {
  new Client({ url: "http://127.0.0.1:1", token: "from-a-file\n" });
  for (const token of ["word\nX-Other: 1", "word…"]) {
    const refused = (error) => error instanceof TypeError && !error.message.includes("word");
    assert.throws(() => new Client({ url: "http://127.0.0.1:1", token }), refused);
  }
});

test("wrong calls are refused before anything is sent", async () => {
  const client = new Client({ url: "http://127.0.0.1:1" });
  await assert.rejects(client.enqueue("a", "text"), /give a job type and its arguments/);
  await assert.rejects(client.enqueue("a", [NaN]), /the job is no JSON: it holds NaN/);
  await assert.rejects(client.enqueue("a", [], { delai: 1 }), /delai: no such option; there are id, queue, delay/);
  await assert.rejects(client.enqueue("a", [], { delay: "1" }), /delay is a number of seconds/);
  for (const url of ["", "localhost:80", "ftp://a", "http://user:word@host"]) assert.throws(() => new Client({ url }), /set OJS_URL/);
});
