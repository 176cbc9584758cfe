// The fixture worker that docs/worker-socket.md describes under "Check your client", built as a user would.

import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Discard, Release, Retry, work } from "../ojs-worker.mjs";

// `node --test DIRECTORY` of Node 18 and 20 takes every file under test/ for a test. This is none: let it pass.
if (process.env.NODE_TEST_CONTEXT && !process.env.OJS_SOCKET) process.exit(0);

await work({
  concurrency: 2,
  handlers: {
    "fixture.echo": (job) => job.args,

    "fixture.fail": ({ args: [message, retryable] }) => {
      const options = { code: "x_fixture", type: "FixtureError" };
      throw retryable ? new Retry(message, options) : new Discard(message, options);
    },

    "fixture.crash": ({ args: [message] }) => {
      throw new Error(message);
    },

    "fixture.wait": async (job) => {
      if (!job.signal.aborted) await once(job.signal, "abort");
      throw new Release(job.cancelReason);
    },

    "fixture.sleep": async ({ args: [ms], signal }) => {
      await sleep(ms, undefined, { signal });
    },

    "fixture.progress": (job) => {
      job.progress(0.5, "half");
    },

    "fixture.checkpoint": (job) => {
      job.checkpoint({ step: 1 });
      return { resumed_from: job.lastCheckpoint };
    },

    "fixture.heartbeat": (job) => {
      job.heartbeat();
    },

    "fixture.release": () => {
      throw new Release("not mine");
    },

    "fixture.large": ({ args: [times] }) => "x".repeat(times),
  },
});
