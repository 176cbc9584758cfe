// A worker in several processes, for processes.test.mjs. RUN: what start gets.

import cluster from "node:cluster";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "../ojs-worker.mjs";

// `node --test DIRECTORY` of Node 18 and 20 takes every file under test/ for a test. This is none: let it pass.
if (process.env.NODE_TEST_CONTEXT && !process.env.OJS_SOCKET) process.exit(0);

// BROKEN: which starts of a process fail, and how. Too many processes and too little memory look the same.
if (cluster.isPrimary && process.env.BROKEN) {
  const { starts, how } = JSON.parse(process.env.BROKEN);
  const { fork } = cluster;
  let count = 0;
  cluster.fork = (env) => {
    const isBroken = starts.includes(++count);
    if (isBroken && how === "throws") throw new Error("spawn ENOMEM");
    cluster.setupPrimary({ cwd: isBroken ? "/nonexistent" : process.cwd() });
    return fork.call(cluster, env);
  };
}

const worker = new Worker();
worker.job("pid", async ({ args: [ms] }) => {
  await sleep(ms);
  return process.pid;
});
worker.job("stoppable", ({ args: [ms], signal }) => sleep(ms, undefined, { signal }));
worker.job("die", () => process.kill(process.pid, "SIGKILL"));
worker.job("stop", () => worker.stop());
worker.job("share", () => process.env.OJS_WORKER_SHARE ?? null);
const status = await worker.run(JSON.parse(process.env.RUN)); // Not start: nothing may keep a process that is through.
if (status !== 0) process.exit(status);
