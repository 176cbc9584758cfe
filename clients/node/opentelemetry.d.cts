import type { Tracer } from "@opentelemetry/api";
import type { Middleware } from "./ojs-worker.cjs";

/**
 * Middleware that makes a span of each job, linked to the span that enqueued it
 * (`meta.traceparent`).
 */
export function opentelemetry(options?: {
  /** Default: the global provider's. */
  tracer?: Tracer;
}): Middleware;

/**
 * The `meta` of a job that is enqueued in the active span: `enqueue(type, args, { meta: traceMeta()
 * })`.
 */
export function traceMeta(meta?: Record<string, any>): Record<string, any>;
