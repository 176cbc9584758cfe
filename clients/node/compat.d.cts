/** The names of the OJS SDK for JavaScript, so that its handlers run under ojs-init as they are. */

import type { Job, Outcome, PerformOptions, RunOptions } from "./ojs-worker.cjs";

/** What an SDK handler gets. */
export interface JobContext {
  /** The envelope. */
  job: Record<string, any>;
  attempt: number;
  queue: string;
  /** Of this process; ojs-init has the backend's. */
  workerId: string;
  workflowId?: string;
  parentResults?: Record<string, any>;
  /** Of this execution alone. */
  metadata: Map<string, any>;
  /** Aborted when the job is to stop. */
  signal: AbortSignal;
  /** Ours: the job with `checkpoint`, `step`, `iterate` and the rest. */
  ojs: Job;
}

export type JobHandler = (ctx: JobContext) => unknown;
export type ExecutionMiddleware = (ctx: JobContext, next: () => Promise<unknown>) => unknown;

/** A worker with the SDK's names. */
export class OJSWorker {
  /** `concurrency` counts; ojs-init has its own settings for the rest, and a line in the log says which. */
  constructor(config?: Record<string, any>);
  readonly workerId: string;
  register(type: string, handler: JobHandler): this;
  use(name: string, middleware: ExecutionMiddleware): this;
  use(middleware: ExecutionMiddleware): this;
  /** Works until ojs-init says that it is enough, then ends the process. */
  start(options?: RunOptions): Promise<never>;
  /** For programs that call it at a signal: ojs-init ends the worker, and this does nothing. */
  stop(): Promise<void>;
  perform(type: string, args?: any[], options?: PerformOptions): Promise<Outcome>;
}

/** Registers a handler with the program's one worker. */
export function register(type: string, fn: JobHandler): void;
/** The same. */
export function handler(type: string, fn: JobHandler): void;
/** Adds middleware to the program's one worker. */
export function middleware(fn: ExecutionMiddleware): void;
/** Runs the program's one worker, and ends the process. */
export function start(options?: RunOptions): Promise<never>;
