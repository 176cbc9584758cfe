/** The names of the OJS SDK for JavaScript, so that its handlers run under ojs-init as they are. */

import type { Job, Outcome, PerformOptions, RunOptions, Signal } from "./ojs-worker.cjs";

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
  signal: Signal;
  /** Ours: the job with `checkpoint`, `step`, `iterate` and the rest. */
  ojs: Job;
}

export type JobHandler = (ctx: JobContext) => unknown;
export type ExecutionMiddleware = (ctx: JobContext, next: () => Promise<unknown>) => unknown;

/** Middleware by name, outermost first. */
export interface MiddlewareChain {
  add(name: string, fn: ExecutionMiddleware): this;
  prepend(name: string, fn: ExecutionMiddleware): this;
  insertBefore(existing: string, name: string, fn: ExecutionMiddleware): this;
  insertAfter(existing: string, name: string, fn: ExecutionMiddleware): this;
  remove(name: string): this;
  has(name: string): boolean;
  entries(): readonly { name: string; fn: (...args: any[]) => unknown }[];
  get length(): number;
  clear(): void;
}

export interface SdkEvent {
  specversion: string;
  id: string;
  type: string;
  source: string;
  time: string;
  /** The job's id. */
  subject?: string;
  data: Record<string, any>;
}

/** Tells who wants to know. What a listener throws is logged, and touches no job. */
export interface Events {
  /** Gives a function that takes the listener out again. */
  on(type: string, listener: (event: SdkEvent) => unknown): () => void;
  onAny(listener: (event: SdkEvent) => unknown): () => void;
  removeAllListeners(): void;
  emit(event: SdkEvent): Promise<void>;
}

/** A worker with the SDK's names. */
export class OJSWorker {
  /** `concurrency` counts; ojs-init has its own settings for the rest, and a line in the log says which. */
  constructor(config?: Record<string, any>);
  readonly workerId: string;
  /** "terminated" before the start and after the end. */
  get currentState(): "running" | "quiet" | "terminate" | "terminated";
  /** How many jobs are worked on. */
  get activeJobCount(): number;
  /** The middleware by name; what is changed counts from the next job on. */
  get middleware(): MiddlewareChain;
  /** Tells of `worker.started`, `job.completed`, `job.failed`, `worker.stopped`. */
  readonly events: Events;
  register(type: string, handler: JobHandler): this;
  use(name: string, middleware: ExecutionMiddleware): this;
  use(middleware: ExecutionMiddleware): this;
  /** Begins to work, and resolves. When ojs-init says that it is enough, the process ends. */
  start(options?: RunOptions): Promise<void>;
  /** Takes no more jobs, and resolves when those that are held are finished. */
  stop(): Promise<void>;
  perform(type: string, args?: any[], options?: PerformOptions): Promise<Outcome>;
}

/** Registers a handler with the program's one worker. */
export function register(type: string, fn: JobHandler): void;
/** The same. */
export function handler(type: string, fn: JobHandler): void;
/** Adds middleware to the program's one worker. */
export function middleware(fn: ExecutionMiddleware): void;
/** Starts the program's one worker. */
export function start(options?: RunOptions): Promise<void>;
