// A worker that pretends to resize pictures: image.resize [name, seconds].

import { setTimeout as sleep } from "node:timers/promises";

import { Discard, work } from "./ojs-worker.mjs";

await work({
  handlers: {
    "image.resize": async (job) => {
      const [name, seconds = 0.1] = job.args;
      if (typeof name !== "string") throw new Discard("the first argument is the picture's name");
      await sleep(seconds * 1000, undefined, { signal: job.signal }); // pretends to resize
      return { resized: name };
    },
  },
});
