// For clients/fixtures/enqueue.py, which gives the token as ENQUEUE_TOKEN, and compares the whole
// body: without the id, which is another one in each run.
"use strict";

if (process.env.ENQUEUE_TOKEN) process.env.OJS_ENQUEUE_TOKEN = process.env.ENQUEUE_TOKEN;

const { fetch } = globalThis;
globalThis.fetch = (url, init) => {
  const { id, ...rest } = JSON.parse(init.body);
  if (!/^[0-9a-f-]{13}-7[0-9a-f-]{21}$/.test(id)) throw new Error("the job has no UUIDv7");
  return fetch(url, { ...init, body: JSON.stringify(rest) });
};
