// A plain worker over HTTP: CONCURRENCY loops, each on a kept connection, until JOBS were acknowledged.
import { randomUUID } from "node:crypto";
import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

const url = process.env.OJS_URL;
const concurrency = Number(process.env.CONCURRENCY ?? 10);
const most = Number(process.env.JOBS);
const agent = new Agent({ keepAlive: true, maxSockets: concurrency });
const workerId = `bare-${randomUUID()}`;
let done = 0;

function post(path, body) {
  return new Promise((resolve, reject) => {
    const text = JSON.stringify(body);
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(text) };
    const sent = request(url + path, { method: "POST", agent, headers }, (answer) => {
      const pieces = [];
      answer.on("data", (piece) => pieces.push(piece));
      answer.on("end", () => {
        const came = Buffer.concat(pieces).toString();
        if (answer.statusCode >= 300) reject(new Error(`${path}: ${answer.statusCode} ${came}`));
        else resolve(JSON.parse(came));
      });
    });
    sent.on("error", reject);
    sent.end(text);
  });
}

async function loop() {
  while (done < most) {
    const { jobs = [] } = await post("/ojs/v1/workers/fetch", { queues: ["default"], count: 1, worker_id: workerId });
    if (jobs.length === 0) await sleep(20);
    for (const job of jobs) {
      await post("/ojs/v1/workers/ack", { job_id: job.id, result: null });
      done++;
    }
  }
}

await Promise.all(Array.from({ length: concurrency }, loop));
agent.destroy();
