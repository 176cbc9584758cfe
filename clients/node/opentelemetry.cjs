// Spans of jobs, with @opentelemetry/api.
"use strict";

const { ROOT_CONTEXT, SpanKind, SpanStatusCode, context, propagation, trace } = require("@opentelemetry/api");
const { JobError, Release, VERSION } = require("./ojs-worker.cjs");

/** @param {import("./ojs-worker.cjs").Job} job */
const attributesOf = (job) => ({
  "messaging.system": "ojs",
  "messaging.operation.name": "process",
  "messaging.operation.type": "process",
  "messaging.destination.name": job.queue,
  "messaging.message.id": job.id,
  "ojs.job.id": job.id,
  "ojs.job.type": job.type,
  "ojs.job.queue": job.queue,
  "ojs.job.attempt": job.attempt,
});

/**
 * Whether the job fails by what its handler threw: a job that is given back does not.
 * @param {any} job
 * @param {unknown} error
 */
function isFailure(job, error) {
  if (error instanceof Release) return false;
  return error instanceof JobError || !job.signal.aborted || job.cancelReason === "timeout";
}

/**
 * Middleware that makes a span of each job: a child of ojs-init's span, where that is recorded, and
 * linked to the span that enqueued the job (`meta.traceparent`).
 * @param {{ tracer?: import("@opentelemetry/api").Tracer }} [options]
 * @returns {import("./ojs-worker.cjs").Middleware}
 */
function opentelemetry(options = {}) {
  return (job, next) => {
    const tracer = options.tracer ?? trace.getTracer("ojs-worker", VERSION);
    const producer = trace.getSpanContext(propagation.extract(ROOT_CONTEXT, job.meta));
    const links = producer === undefined ? [] : [{ context: producer }];
    // That of ojs-init's span, unless it is the producer's.
    const { traceparent } = job;
    const isBelow = traceparent !== undefined && traceparent !== job.meta.traceparent;
    const parent = isBelow ? propagation.extract(context.active(), { traceparent }) : context.active();
    const settings = { kind: SpanKind.CONSUMER, root: !isBelow, links, attributes: attributesOf(job) };
    return tracer.startActiveSpan(`${job.queue} process`, settings, parent, async (span) => {
      try {
        return await next();
      } catch (error) {
        if (isFailure(job, error)) {
          span.recordException(/** @type {Error} */ (error));
          span.setStatus({ code: SpanStatusCode.ERROR });
        }
        throw error;
      } finally {
        span.end();
      }
    });
  };
}

/**
 * The `meta` of a job that is enqueued in the active span.
 * @param {Record<string, any>} [meta] what else the job carries
 * @returns {Record<string, any>}
 */
function traceMeta(meta = {}) {
  const carrier = { ...meta };
  propagation.inject(context.active(), carrier);
  return carrier;
}

module.exports = { opentelemetry, traceMeta };
