// Sends mail, or pretends to. Run it: ojs-init -- node worker.mjs
import { Discard, Worker, optional, patchConsole } from "ojs-worker";

patchConsole(); // each line of the log is JSON, and names its job
const worker = new Worker();

worker.job("email.send", { args: ["any", optional("any")] }, async (to, body, job) => {
  if (!String(to).includes("@")) throw new Discard(`no address: ${to}`); // no other attempt
  await job.sleep(job.meta.sleep_ms ?? 0); // stops when the job is to stop
  console.info(`sent ${String(body).length} characters`);
  return { sent: true };
});

await worker.start();
