/** A worker for ojs-init, for Node.js 18 or later. */

/** An AbortSignal, whoever declares it: @types/node, or TypeScript's own `dom`. Without both, what it has in common. */
export type Signal = typeof globalThis extends { AbortSignal: { prototype: infer Declared } }
  ? Declared
  : { readonly aborted: boolean; readonly reason: any; addEventListener(type: "abort", listener: () => void, options?: { once?: boolean }): void };

export const VERSION: string;

export interface JobErrorOptions {
  /** Short and stable; your own codes begin with `x_` (default: `handler_error`). */
  code?: string;
  /** The class of the error (default: that of `cause`, or of this error). */
  type?: string;
  /** Anything more, as JSON. */
  details?: object;
  /** The error behind it. */
  cause?: unknown;
}

export interface RetryOptions extends JobErrorOptions {
  /** Seconds until the next attempt, as a wish: the backend's retry policy decides. */
  after?: number;
}

/** A failure that the handler means. Throw {@link Retry} or {@link Discard}, or a class that extends one of them. */
export class JobError extends Error {
  constructor(message: string, retryable: boolean, options?: JobErrorOptions);
  retryable: boolean;
  code: string;
  type: string;
  details: any;
}

/** The job failed; another attempt may help. */
export class Retry extends JobError {
  constructor(message?: string, options?: RetryOptions);
}

/** The job failed, and no other attempt will help. */
export class Discard extends JobError {
  constructor(message?: string, options?: JobErrorOptions);
}

/** The job was not processed: it goes back to the queue and no attempt is counted. */
export class Release extends Error {
  /** `after`: seconds for which ojs-init holds the job before it goes back, 30 at most. */
  constructor(reason?: string, options?: { after?: number });
  reason: string | undefined;
  /** The same in milliseconds; 0: at once. */
  afterMs: number;
}

/** What `job.signal` is aborted with: `signal.reason`, and what `signal.throwIfAborted()` throws. */
export class Cancelled extends Error {
  constructor(reason: string, graceMs: number);
  /** shutdown, timeout, cancelled, lost, or one of a later version. */
  reason: string;
  /** How long there is to answer. */
  graceMs: number;
}

/** The steps or rows of a resumed job are not those that an earlier attempt finished. Not retryable. */
export class StepsChanged extends Discard {
  constructor(message: string);
}

/** What `job.step` and `job.iterate` have to keep is more than 64 KiB of JSON. Not retryable. */
export class CheckpointTooLarge extends Discard {
  constructor(message: string);
}

/** Rows, or a function of the last finished position (null at first) that gives those behind it. */
export type Rows<Row> =
  | Iterable<Row>
  | AsyncIterable<Row>
  | ((position: any) => Iterable<Row> | AsyncIterable<Row> | Promise<Iterable<Row> | AsyncIterable<Row>>);

/** A job, as its handler sees it. Only the library makes one. */
export abstract class Job<Args extends any[] = any[]> {
  /** Of the library. */
  constructor(...internal: any[]);
  /** The same in each delivery. */
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  /** Which attempt this is; where the count begins is the backend's business. */
  readonly attempt: number | undefined;
  readonly args: Args;
  /** What the producer added: trace ids, tenant and the like. */
  readonly meta: Record<string, any>;
  /** All that the backend sent. */
  readonly envelope: Record<string, any>;
  /** For middleware: what it hands to the handler; of this job alone. */
  readonly locals: Record<string, any>;
  /** When the job's own timeout is over. */
  readonly deadline: Date | null;
  /** The state that an earlier attempt saved last, or null. */
  readonly lastCheckpoint: any;
  /** Aborted when the job is to stop; `signal.reason` is a {@link Cancelled}. Give it to fetch, timers and the like. */
  get signal(): Signal;
  /** Why the job is to stop: shutdown, timeout, cancelled, lost, or others. */
  get cancelReason(): string | undefined;
  /** Aborted when the worker is being shut down; the job may go on until `signal` is aborted. */
  get stopping(): Signal;
  /** What a shutdown leaves: milliseconds until it aborts `signal`; null while nothing shuts down. */
  remaining(): number | null;
  /** What anything at all leaves: until the job's timeout or a shutdown; after `signal`, the time to answer. Or Infinity. */
  remainingMs(): number;
  /** Tells the backend that the job is alive. Not needed: ojs-init keeps the reservation by itself. */
  heartbeat(): void;
  /** Tells how far the job is, from 0 to 1. As often as you like: the newest counts. */
  progress(progress: number, message?: string, data?: unknown): void;
  /**
   * Saves what the next attempt needs to go on from here. Wait for it: then ojs-init has it, even if this process dies
   * the next moment. False: ojs-init does not read, or is gone. It rejects when the state is no JSON, or too large.
   */
  checkpoint(state: unknown): Promise<boolean>;
  /** Runs a part of the work once: in a later attempt a finished step is not run again, and gives the result it had. */
  step<Parameters extends any[], Result>(
    name: string,
    body: (...args: Parameters) => Result | Promise<Result>,
    ...args: Parameters
  ): Promise<Result>;
  /** Goes through rows, in a later attempt from where the earlier one stopped. `key`: what a row is known by. */
  iterate<Row>(rows: Rows<Row>, options?: { key?: (row: Row) => unknown }): AsyncGenerator<Row, void, undefined>;
}

/** Returns the result, or a promise of it; undefined is none. */
export type Handler<Args extends any[] = any[], Result = unknown> = (job: Job<Args>) => Result | Promise<Result>;

/** `next` runs what is inside: the next middleware, at last the handler. Returns the result of the job. */
export type Middleware = (job: Job, next: () => Promise<unknown>) => unknown;

export type Severity = "trace" | "debug" | "info" | "warn" | "error" | "fatal";

export interface WorkerOptions {
  /** By job type; "*" is for every type without a handler of its own. */
  handlers?: Record<string, Handler<any>>;
  /** Around each handler, outermost first. */
  middleware?: Middleware[];
  /** Most jobs at once, of all processes together (default: as many as ojs-init allows, OJS_CONCURRENCY). */
  concurrency?: number;
  /** Whether ojs-init shall also check on this process while it works (default false). */
  ping?: boolean;
  /** Name and version for the log of ojs-init. */
  client?: string;
  /** Called with each error that a handler did not mean (default: its stack goes to standard error). */
  onError?: (error: unknown, job: Job) => void;
  /** Takes a line of this library's own log (default: standard error). */
  log?: (text: string, severity: Severity) => void;
  /** In place of $OJS_SOCKET, for tests. */
  socketPath?: string;
}

export interface RunOptions {
  /** How many processes; each takes its share of the concurrency. */
  processes?: number;
  /** Jobs after which a process is replaced; it does a few more until the next one is ready. */
  maxJobs?: number;
  /** The same in seconds. */
  maxAge?: number;
  /** The same in bytes of resident memory; counts after 10 jobs or a minute. */
  maxMemory?: number;
}

export interface PerformOptions {
  id?: string;
  queue?: string;
  attempt?: number;
  meta?: Record<string, any>;
  /** The job's own timeout. */
  timeoutMs?: number;
  /** What an earlier attempt saved: the last of its outcome's `checkpoints`. */
  checkpoint?: any;
  /** Cancels the job, with this reason: shutdown, timeout, cancelled, lost. */
  cancel?: string;
  /** When (default: at once). */
  cancelAfterMs?: number;
  /** The worker is shut down, and so much is left until the job is cancelled. */
  stoppingMs?: number;
  /** The same in seconds, as it was called before. */
  stopping?: number;
  /** When (default: at once). */
  stoppingAfterMs?: number;
  /** How long the handler may take to end after a cancel (default: as ojs-init's). */
  graceMs?: number;
  /** How long it may take without a cancel (default: 60 s). */
  giveUpAfterMs?: number;
}

export interface Outcome {
  outcome: "ack" | "fail" | "release";
  /** Of ack: as the backend gets it; null for none. */
  result: any;
  /** Of fail: `message`, `code`, `type`, `retryable`, `details`, `backtrace`; else null. */
  error: any;
  /** Of release. */
  reason: string | null;
  /** What was saved, in order, as the next attempt gets it. */
  checkpoints: any[];
  progress: { progress: number; message?: string; data?: any }[];
}

/** Handlers, and the connection that brings their jobs: one for each process. */
export class Worker {
  constructor(options?: WorkerOptions);
  /** Registers a handler for a job type, or several; "*" is for every type without a handler of its own. */
  job<Args extends any[] = any[], Result = unknown>(types: string | string[], handler: Handler<Args, Result>): this;
  /** Puts a function around each handler; the first one is the outermost. */
  use(middleware: Middleware): this;
  /** Runs a handler in this process, as a job that ojs-init brought: for tests. */
  perform(type: string, args?: any[], options?: PerformOptions): Promise<Outcome>;
  /** Connects and works until the end. Exit with the status then, and soon. It does not reject. */
  run(options?: RunOptions): Promise<number>;
  /** Works until the end, and ends the process. */
  start(options?: RunOptions): Promise<never>;
  /** Takes no more jobs, finishes those that are held, and ends then as always. In any of several processes: all of them. */
  stop(): void;
  /** As ojs-init says: "running", "quiet" or "terminate". */
  get state(): string;
}

/** Works until ojs-init says that it is enough, then ends the process. */
export function work(options: WorkerOptions, runOptions?: RunOptions): Promise<never>;

/** The job whose handler runs here, also behind each `await` of it. */
export function currentJob(): Job | undefined;

/** One line of JSON, with the job's fields while a handler runs. */
export function formatLog(
  severity: Severity,
  message: string,
  more?: { error?: unknown; attributes?: Record<string, unknown> },
): string;

/** Whether a line is to be logged: by the job's own `meta.log_level` if it has one, else by `level`. */
export function isLogged(severity: Severity, level?: Severity): boolean;

/** What each line of a handler carries, for a logger of your own (pino: `mixin: logFields`). */
export function logFields(): { ojs?: Record<string, unknown>; trace?: Record<string, string> };

/**
 * From here on `console.log` and its like write one line of JSON each to standard error, those of libraries included,
 * with the fields of the job whose handler runs. Gives a function that takes it back.
 */
export function patchConsole(options?: { level?: Severity; write?: (line: string) => void }): () => void;

/** JSON.parse, but integers that a number cannot hold exactly become BigInts. */
export function parseJson(text: string): any;

/** JSON.stringify, but BigInts are written as integers. */
export function toJson(value: unknown): string | undefined;

/** Cuts a stream of bytes into lines. */
export class LineReader {
  push(chunk: Uint8Array): Generator<string>;
}
