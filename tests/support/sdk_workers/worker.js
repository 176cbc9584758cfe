// Behaves as a worker on the JavaScript SDK does, with its faults. What the variables mean: tests/README.md.
'use strict';
const fs = require('node:fs');
const { randomUUID } = require('node:crypto');

const setting = (name, usual) => Number(process.env[name] ?? usual);
const URL_BASE = process.env.OJS_URL.replace(/\/+$/, '') + '/ojs/v1';
const POLL = setting('SDK_POLL_MS', 1000);
const HEARTBEAT = setting('SDK_HEARTBEAT_MS', 5000);
const GRACE = setting('SDK_GRACE_MS', 25000);
const CONCURRENCY = setting('SDK_CONCURRENCY', 10);
const DIRECTORY = process.env.SDK_DIRECTORY;
const WORKER_ID = `worker_${randomUUID()}`;

const held = new Set();
let state = 'running';
let pollTimer = null;
let heartbeatTimer = null;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function note(word, job, attempt = '') {
  if (DIRECTORY) fs.appendFileSync(`${DIRECTORY}/journal`, `${process.hrtime.bigint()} ${word} ${job} ${attempt}\n`);
}

class Refused extends Error {
  constructor(status) {
    super(`status ${status}`);
    this.status = status;
  }
}

// The client of the SDK: connections are kept.
async function send(path, body) {
  const reply = await fetch(URL_BASE + path, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/openjobspec+json',
      Accept: 'application/openjobspec+json',
      'OJS-Version': '1.0',
      'X-Request-ID': randomUUID(),
    },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(30000),
  });
  const answer = await reply.json();
  if (!reply.ok) throw new Refused(reply.status);
  return answer;
}

async function post(path, body) {
  for (const ms of [500, 1000, 2000, null]) {
    try {
      return await send(path, body);
    } catch (error) {
      if (ms === null || ![429, 502, 503, 504].includes(error.status)) throw error;
      await pause(ms);
    }
  }
}

// An outcome is tried three times.
async function report(path, body) {
  for (const ms of [500, 1000, null]) {
    try {
      return await post(path, body);
    } catch (error) {
      if (ms === null) throw error;
      await pause(ms);
    }
  }
}

async function handle(job) {
  const args = job.args ?? [0];
  if (job.type === 'ok') return args[0];
  await pause(args[0]);
  if (job.type === 'enqueue') await post('/jobs', { type: args[1], args: args.slice(2), queue: job.queue });
  if (job.type === 'fail') throw new Error('failed as told');
  return job.type === 'large' ? 'x'.repeat(args[1]) : { slept: args[0] };
}

async function run(job) {
  held.add(job.id);
  note('took', job.id, job.attempt);
  let outcome;
  try {
    outcome = ['acked', '/workers/ack', { job_id: job.id, result: await handle(job) }];
  } catch (error) {
    const failure = { code: 'handler_error', message: error.message, retryable: true, details: { stack: error.stack } };
    outcome = ['failed', '/workers/nack', { job_id: job.id, error: failure }];
  }
  const [word, path, body] = outcome;
  note('ended', job.id, job.attempt);
  try {
    await report(path, body);
    note(word, job.id, job.attempt);
  } catch (error) {
    note('unreported', job.id, job.attempt);
    console.error(`job ${job.id}: ${error}`);
  }
  held.delete(job.id);
}

async function poll() {
  if (state !== 'running') return;
  let delay = POLL;
  const free = CONCURRENCY - held.size;
  if (free > 0) {
    try {
      const body = { queues: ['default'], count: Math.min(free, 10), worker_id: WORKER_ID, visibility_timeout_ms: 30000 };
      const { jobs = [] } = await post('/workers/fetch', body);
      jobs.forEach(run);
      if (jobs.length > 0) delay = 0;
    } catch (error) {
      console.error(`fetch: ${error}`);
      delay = POLL * 2;
    }
  }
  if (state === 'running') pollTimer = setTimeout(poll, delay);
}

async function beat() {
  const body = {
    worker_id: WORKER_ID,
    state,
    active_jobs: held.size,
    active_job_ids: [...held],
    hostname: 'unknown',
    pid: process.pid,
    queues: ['default'],
    concurrency: CONCURRENCY,
    labels: [],
  };
  try {
    const answer = await post('/workers/heartbeat', body);
    if (answer.state === 'quiet' && state === 'running') {
      // Nothing brings it back.
      state = 'quiet';
      clearTimeout(pollTimer);
    } else if (answer.state === 'terminate') {
      stop();
    }
  } catch (error) {
    console.error(`heartbeat: ${error}`);
  }
}

async function stop() {
  if (state === 'terminate') return;
  state = 'terminate';
  // From here on the next signal has its usual effect.
  process.removeAllListeners('SIGTERM');
  process.removeAllListeners('SIGINT');
  clearTimeout(pollTimer);
  clearInterval(heartbeatTimer);
  // After the grace handlers are only asked to abort, and the process is there until they return.
  for (const started = Date.now(); held.size > 0; await pause(10)) {
    if (Date.now() - started >= GRACE) break;
  }
  while (held.size > 0) await pause(10);
  process.exit(0);
}

for (const signal of ['SIGTERM', 'SIGINT']) {
  process.on(signal, () => {
    note('terminated', process.pid);
    stop();
  });
}
note('started', process.pid);
// Longest that a worker is there that nobody ends.
const life = setting('SDK_LIFE_S', 0);
if (life > 0) setTimeout(() => process.exit(9), life * 1000).unref();
heartbeatTimer = setInterval(beat, HEARTBEAT);
poll();
