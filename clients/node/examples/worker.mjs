// Sends mail, or pretends to. Run it: ojs-init -- node worker.mjs
import { setTimeout as sleep } from "node:timers/promises";
import { Discard, Worker, patchConsole } from "ojs-worker";

patchConsole(); // each line of the log is JSON, and names its job
const worker = new Worker();

worker.job("email.send", async (job) => {
  const [to, body] = job.args;
  if (!String(to).includes("@")) throw new Discard(`no address: ${to}`); // no other attempt
  await sleep(job.meta.sleep_ms ?? 0, undefined, { signal: job.signal }); // stops when the job is to stop
  console.info(`sent ${String(body).length} characters`);
  return { sent: true };
});

await worker.start();
