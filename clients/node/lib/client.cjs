// Enqueueing over the backend's HTTP API.
"use strict";

const { randomBytes } = require("node:crypto");
const { setTimeout: sleep } = require("node:timers/promises");
const { checkedJson } = require("./json.cjs");
const { checkNames, secondsToMs } = require("./options.cjs");

/** Requests for one job, the first one included. */
const ATTEMPTS = 5;
/** Milliseconds for one request. */
const REQUEST_TIMEOUT = 10_000;
/** Milliseconds before the second request; each further pause is twice as long. */
const FIRST_PAUSE = 100;
/** Milliseconds: a longer Retry-After is an error for the caller. */
const MAX_PAUSE = 10_000;

/**
 * @typedef {object} EnqueueOptions
 * @property {string} [id] of the job, a UUIDv7 (default: a new one)
 * @property {string} [queue] (default: "default")
 * @property {number | Date} [delay] seconds until the job may start, or the time
 * @property {number | object} [retry] attempts in all, or a retry policy as the specification has
 *   it
 * @property {object} [unique] a unique policy as the specification has it: `{ keys: ["type",
 *   "args"], period: "PT1H" }`
 * @property {number} [priority] -100 to 100, higher ones first
 * @property {number} [timeoutMs] for which an attempt may run, in milliseconds
 * @property {Date} [expiresAt] from which on the job is not started any more
 * @property {string[]} [tags]
 * @property {Record<string, any>} [meta] trace ids, tenant and the like
 */

const ENQUEUE_OPTIONS = ["id", "queue", "delay", "retry", "unique", "priority", "timeoutMs", "expiresAt", "tags", "meta"];

/** The backend did not take a job, or did not answer. */
class EnqueueError extends Error {
  /**
   * @param {string} message
   * @param {{ status?: number, code?: string, existingId?: string, cause?: unknown }} [more]
   */
  constructor(message, { cause, ...more } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "EnqueueError";
    /** The HTTP status; undefined without an answer. @type {number | undefined} */
    this.status = more.status;
    /** The backend's own: `duplicate`, `queue_paused` and so on. @type {string | undefined} */
    this.code = more.code;
    /** Of a duplicate: the job that there is. @type {string | undefined} */
    this.existingId = more.existingId;
  }
}

/** Enqueues jobs. */
class Client {
  #endpoint;
  #token;

  /**
   * @param {{ url?: string, token?: string }} [options] `url`: of the backend (default: OJS_URL).
   *   `token`: a bearer token (default: OJS_ENQUEUE_TOKEN, else OJS_AUTH_TOKEN)
   */
  constructor(options = {}) {
    checkNames("Client", options, ["url", "token"]);
    const url = options.url ?? process.env.OJS_URL ?? "";
    if (!/^https?:\/\/[^/@]+(\/[^@]*)?$/.test(url)) {
      throw new TypeError('Client: set OJS_URL, or give { url: "http://127.0.0.1:8080" }; a token is an option of its own');
    }
    this.#endpoint = `${url.replace(/(\/ojs\/v1)?\/*$/, "")}/ojs/v1/jobs`;
    this.#token = (options.token ?? (process.env.OJS_ENQUEUE_TOKEN || process.env.OJS_AUTH_TOKEN))?.trim();
    // fetch would quote the token in its error.
    if (/[^!-~]/.test(this.#token ?? "")) throw new TypeError("Client: the token has a character that a header cannot have");
  }

  /**
   * Enqueues a job. Connection errors and the statuses 429 and 5xx are retried, 5 requests in all.
   * The requests carry the same job id, so that a retry does not enqueue twice where the backend
   * compares ids.
   * @param {string} type
   * @param {any[]} [args]
   * @param {EnqueueOptions} [options]
   * @returns {Promise<{ id: string, [field: string]: any }>} the job as the backend has it; rejects
   *   with EnqueueError
   */
  async enqueue(type, args = [], options = {}) {
    checkNames("enqueue()", options, ENQUEUE_OPTIONS);
    if (typeof type !== "string" || !Array.isArray(args)) {
      throw new TypeError('enqueue(): give a job type and its arguments: enqueue("email.send", ["a@b.c", "hello"])');
    }
    const id = options.id ?? uuid7();
    const { json, problem } = checkedJson({ id, type, args, meta: options.meta, options: wireOptions(options) });
    if (json === undefined) throw new TypeError(`enqueue(): the job is no JSON: it ${problem}`);
    for (let attempt = 1; ; attempt++) {
      const { job, error, pause } = await this.#request(json, type);
      if (job !== undefined) return job;
      // An earlier request has enqueued the job, and its answer was lost.
      if (attempt > 1 && error.status === 409 && error.existingId === id) return { id, type };
      if (pause === undefined || attempt === ATTEMPTS) throw error;
      const grown = FIRST_PAUSE * 2 ** (attempt - 1) * (0.5 + Math.random());
      await sleep(Math.max(pause, grown));
    }
  }

  /**
   * @param {string} body
   * @param {string} type
   * @returns {Promise<{ job?: any, error?: any, pause?: number }>} `pause`: another request may
   *   help, after so many milliseconds at least
   */
  async #request(body, type) {
    /** @type {Record<string, string>} */
    const headers = { "content-type": "application/json" };
    if (this.#token) headers.authorization = `Bearer ${this.#token}`;
    const failed = `${type} was not enqueued at ${this.#endpoint}`;
    const signal = AbortSignal.timeout(REQUEST_TIMEOUT);
    let response, answer;
    try {
      response = await fetch(this.#endpoint, { method: "POST", headers, body, redirect: "manual", signal });
      answer = JSON.parse(await response.text());
    } catch (error) {
      const { cause, message } = /** @type {any} */ (error);
      const why = signal.aborted ? `no answer within ${REQUEST_TIMEOUT} ms` : (cause?.code ?? cause?.message ?? message);
      // No JSON is an answer, too: the page of a proxy, for example.
      if (response === undefined || !(error instanceof SyntaxError)) {
        return { error: new EnqueueError(`${failed}: ${why}`, { cause: error }), pause: 0 };
      }
    }
    const { status, ok } = response;
    if (ok && typeof answer?.job?.id === "string") return { job: answer.job };
    const { code, message, details } = answer?.error ?? {};
    const why = ok ? "the answer has no job" : [code, message].filter(Boolean).join(": ");
    const error = new EnqueueError(`${failed}: ${status} ${why}`.trim(), { status, code, existingId: details?.existing_job_id });
    const pause = Number(response.headers.get("retry-after")) * 1000 || 0;
    const isPassing = status === 429 || (status >= 500 && status !== 501);
    return isPassing && pause <= MAX_PAUSE ? { error, pause } : { error };
  }
}

/** @param {EnqueueOptions} options @returns {object} as the HTTP binding has them */
function wireOptions({ queue, delay, retry, unique, priority, timeoutMs, expiresAt, tags }) {
  const isTime = delay === undefined || delay instanceof Date;
  const startsAt = isTime ? delay : new Date(Date.now() + secondsToMs("enqueue(): delay", delay));
  return {
    queue,
    delay_until: startsAt?.toISOString(),
    retry: typeof retry === "number" ? { max_attempts: retry } : retry,
    unique,
    priority,
    timeout_ms: timeoutMs,
    expires_at: expiresAt?.toISOString(),
    tags,
  };
}

/** A UUIDv7: the only form of an id that the specification allows, and all backends take. */
function uuid7() {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(Date.now(), 0, 6);
  bytes[6] = 0x70 | (bytes[6] & 0x0f);
  bytes[8] = 0x80 | (bytes[8] & 0x3f);
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

module.exports = { Client, EnqueueError };
