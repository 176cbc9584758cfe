/** A worker for ojs-init, for Node.js 18 or later. */

/**
 * An AbortSignal as @types/node or TypeScript's own `dom` declares it. Without both: what they have
 * in common.
 */
export type Signal = typeof globalThis extends { AbortSignal: { prototype: infer Declared } }
  ? Declared
  : {
      readonly aborted: boolean;
      readonly reason: any;
      addEventListener(type: "abort", listener: () => void, options?: { once?: boolean }): void;
    };

export const VERSION: string;

// --- errors

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

/**
 * A failure that the handler means. Throw {@link Retry} or {@link Discard}, or a class that extends
 * one of them.
 */
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
  /** `after` in milliseconds; 0: at once. */
  afterMs: number;
}

/**
 * Ends a handler between two steps or rows: the job goes back with its position saved. Do not catch
 * it.
 */
export class Interrupted extends Release {}

/** The reason of `job.signal`: what `signal.throwIfAborted()` and `job.sleep()` throw. */
export class Cancelled extends Error {
  constructor(reason: string, graceMs: number);
  /** shutdown, timeout, cancelled, lost, or one of a later version. */
  reason: string;
  /** Milliseconds that the handler has to end. */
  graceMs: number;
}

/** The arguments of the job do not fit its handler. Not retryable. */
export class InvalidArgs extends Discard {
  constructor(message: string);
}

/**
 * The steps or rows of a resumed job are not those that an earlier attempt finished. Not retryable.
 */
export class StepsChanged extends Discard {}

/** What `job.step` and `job.iterate` have to keep is more than 64 KiB of JSON. Not retryable. */
export class CheckpointTooLarge extends Discard {}

// --- arguments

/** The arguments of each job type: `Worker<{ "email.send": [to: string, body: string] }>`. */
export type JobMap<Jobs> = { [Type in keyof Jobs]: any[] };

/** Anything that follows Standard Schema: zod 3.24, valibot 1, arktype 2 and others. */
export interface StandardSchema<Input = any, Output = any> {
  readonly "~standard": {
    readonly validate: (value: unknown) => any;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

/** What an argument has to be. */
export type ArgKind =
  | StringConstructor
  | NumberConstructor
  | BooleanConstructor
  | BigIntConstructor
  | ArrayConstructor
  | ObjectConstructor
  | "integer"
  | "any"
  | StandardSchema
  | { parse(value: any): any }
  | OptionalArg<any>;

export interface OptionalArg<Kind> {
  readonly __optional: Kind;
}

/**
 * An argument that a job may leave out, or give as null: the handler gets undefined. Optional ones
 * come last.
 */
export function optional<Kind extends Exclude<ArgKind, OptionalArg<any>>>(kind: Kind): OptionalArg<Kind>;

/** What a handler gets for an argument of this kind. */
export type ArgOf<Kind> = Kind extends OptionalArg<infer Inner>
  ? ArgOf<Inner> | undefined
  : Kind extends StringConstructor
    ? string
    : Kind extends NumberConstructor | "integer"
      ? number
      : Kind extends BooleanConstructor
        ? boolean
        : Kind extends BigIntConstructor
          ? bigint
          : Kind extends ArrayConstructor
            ? any[]
            : Kind extends ObjectConstructor
              ? Record<string, any>
              : Kind extends StandardSchema<any, infer Output>
                ? Output
                : Kind extends { parse(value: any): infer Output }
                  ? Output
                  : any;

/** What a job has to have for an argument of this kind. */
export type InputOf<Kind> = Kind extends OptionalArg<infer Inner>
  ? InputOf<Inner> | null | undefined
  : Kind extends ObjectConstructor
    ? object
    : Kind extends BigIntConstructor
      ? bigint | number
      : Kind extends StandardSchema<infer Input, any>
        ? Input
        : Kind extends { parse(value: any): any }
          ? any
          : ArgOf<Kind>;

type ArgsOf<Kinds extends readonly unknown[]> = { -readonly [At in keyof Kinds]: ArgOf<Kinds[At]> };

/** `unknown` if the declared kinds take the arguments of the job type; else what does not fit. */
type Fitting<Kinds extends readonly unknown[], Args extends any[]> = number extends Args["length"]
  ? unknown
  : Required<Args> extends { -readonly [At in keyof Kinds]: InputOf<Kinds[At]> }
    ? unknown
    : { args: ["these kinds do not take the arguments of the job type", Args] };

// --- jobs

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
  /** The number of this attempt; the backend decides where the count begins. */
  readonly attempt: number | undefined;
  /** Whether a failure now is for good; false if the backend does not say. */
  readonly isLastAttempt: boolean;
  readonly args: Args;
  /** What the producer added: trace ids, tenant and the like. */
  readonly meta: Record<string, any>;
  /**
   * The W3C context of ojs-init's span of the job, the parent of the handler's own spans; without
   * one that of the producer (`meta`).
   */
  readonly traceparent: string | undefined;
  /** All that the backend sent. */
  readonly envelope: Record<string, any>;
  /** For middleware: what it hands to the handler; of this job alone. */
  readonly locals: Record<string, any>;
  /** When the job's own timeout is over. */
  readonly deadline: Date | null;
  /** The state that an earlier attempt saved last, or null. */
  readonly lastCheckpoint: any;
  /**
   * Aborted when the job is to stop; `signal.reason` is a {@link Cancelled}. Give it to fetch,
   * timers and the like.
   */
  get signal(): Signal;
  /** Why the job is to stop: shutdown, timeout, cancelled, lost, or others. */
  get cancelReason(): string | undefined;
  /** Aborted when the worker is being shut down; the job may go on until `signal` is aborted. */
  get stopping(): Signal;
  /**
   * Milliseconds until a shutdown aborts `signal`; null while nothing shuts down, and where
   * ojs-init does not say.
   */
  remaining(): number | null;
  /**
   * Milliseconds until the job's timeout or a shutdown, whichever is first; once `signal` is
   * aborted, those that the handler has to end; Infinity without a limit.
   */
  remainingMs(): number;
  /**
   * Waits for so many milliseconds. Rejects with {@link Cancelled} at once when the job is
   * cancelled.
   */
  sleep(ms: number): Promise<void>;
  /**
   * Tells the backend that the job is alive. Not needed: ojs-init keeps the reservation by itself.
   */
  heartbeat(): void;
  /** Tells how far the job is, from 0 to 1. As often as you like: the newest counts. */
  progress(progress: number, message?: string, data?: unknown): void;
  /**
   * Saves what the next attempt needs to go on from here. Once the promise is resolved, ojs-init
   * gets the state even if this process dies. False: ojs-init is gone. It rejects when the state is
   * no JSON, or too large.
   */
  checkpoint(state: unknown): Promise<boolean>;
  /**
   * Runs a part of the work once: in a later attempt a finished step is not run again, and gives
   * the result it had.
   */
  step<Parameters extends any[], Result>(
    name: string,
    body: (...args: Parameters) => Result | Promise<Result>,
    ...args: Parameters
  ): Promise<Result>;
  /**
   * Goes through rows, in a later attempt from where the earlier one stopped. `key`: what
   * identifies a row.
   */
  iterate<Row>(rows: Rows<Row>, options?: { key?: (row: Row) => unknown }): AsyncGenerator<Row, void, undefined>;
}

/** Returns the result, or a promise of it; undefined is none. */
export type Handler<Args extends any[] = any[], Result = unknown> = (job: Job<Args>) => Result | Promise<Result>;

/**
 * `next` runs what is inside: the next middleware, at last the handler. Returns the result of the
 * job.
 */
export type Middleware = (job: Job, next: () => Promise<any>) => unknown;

export type Severity = "trace" | "debug" | "info" | "warn" | "error" | "fatal";

// --- enqueueing

export interface RetryPolicy {
  /** Attempts in all, the first one included. */
  max_attempts?: number;
  /** ISO 8601 durations. */
  initial_interval?: string;
  max_interval?: string;
  backoff_coefficient?: number;
  jitter?: boolean;
  non_retryable_errors?: string[];
  on_exhaustion?: "discard" | "dead_letter";
  [field: string]: unknown;
}

export interface UniquePolicy {
  /** Which fields make a job unique: `["type", "args"]`. */
  keys?: string[];
  /** An ISO 8601 duration: `PT1H`. */
  period?: string;
  on_conflict?: "reject" | "replace" | "ignore";
  [field: string]: unknown;
}

export interface EnqueueOptions {
  /** Of the job, a UUIDv7 (default: a new one). */
  id?: string;
  /** Default: "default". */
  queue?: string;
  /** Seconds until the job may start, or the time. */
  delay?: number | Date;
  /** Attempts in all, or a retry policy as the specification has it. */
  retry?: number | RetryPolicy;
  unique?: UniquePolicy;
  /** -100 to 100, higher ones first. */
  priority?: number;
  /** For which an attempt may run. */
  timeoutMs?: number;
  /** From which on the job is not started any more. */
  expiresAt?: Date;
  tags?: string[];
  /** Trace ids, tenant and the like. */
  meta?: Record<string, any>;
}

/** A job as the backend has it. */
export interface EnqueuedJob {
  id: string;
  [field: string]: any;
}

/** The backend did not take a job, or did not answer. */
export class EnqueueError extends Error {
  constructor(message: string, more?: { status?: number; code?: string; existingId?: string; cause?: unknown });
  /** The HTTP status; undefined without an answer. */
  status: number | undefined;
  /** The backend's own: `duplicate`, `queue_paused` and so on. */
  code: string | undefined;
  /** Of a duplicate: the job that there is. */
  existingId: string | undefined;
}

export interface ClientOptions {
  /** Of the backend (default: OJS_URL). */
  url?: string;
  /** A bearer token (default: OJS_ENQUEUE_TOKEN, else OJS_AUTH_TOKEN). */
  token?: string;
}

/** Enqueues jobs over the backend's HTTP API. */
export class Client<Jobs extends JobMap<Jobs> = Record<string, any[]>> {
  constructor(options?: ClientOptions);
  /**
   * Enqueues a job. Connection errors and the statuses 429 and 5xx are retried, 5 requests in all.
   * Rejects with {@link EnqueueError}.
   */
  enqueue<Type extends keyof Jobs & string>(
    type: Type,
    ...rest: [] extends Jobs[Type]
      ? [args?: Jobs[Type], options?: EnqueueOptions]
      : [args: Jobs[Type], options?: EnqueueOptions]
  ): Promise<EnqueuedJob>;
}

// --- workers

export interface WorkerOptions {
  /** By job type; "*" is for every type without a handler of its own. */
  handlers?: Record<string, Handler<any>>;
  /** Around each handler, outermost first. */
  middleware?: Middleware[];
  /** Most jobs at once (default: as many as ojs-init allows, OJS_CONCURRENCY). */
  concurrency?: number;
  /** Whether ojs-init also checks on this process while it works (default false). */
  ping?: boolean;
  /** Name and version for the log of ojs-init. */
  client?: string;
  /** Takes a line of this library's own log (default: standard error). */
  log?: (text: string, severity: Severity, error?: unknown) => void;
  /** In place of $OJS_SOCKET, for tests. */
  socketPath?: string;
}

export interface PerformOptions {
  id?: string;
  queue?: string;
  attempt?: number;
  maxAttempts?: number;
  meta?: Record<string, any>;
  /** What an earlier attempt saved: the last of its outcome's `checkpoints`. */
  checkpoint?: any;
  /** The job's own timeout. */
  timeoutMs?: number;
  /** Cancels the job, with this reason: shutdown, timeout, cancelled, lost. */
  cancel?: string;
  /** When (default: at once). */
  cancelAfterMs?: number;
  /** The worker is shut down, and so much is left until the job is cancelled. */
  stoppingMs?: number;
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
export class Worker<Jobs extends JobMap<Jobs> = Record<string, any[]>> {
  constructor(options?: WorkerOptions);
  /**
   * Registers a handler for a job type, or several; "*" is for every type without a handler of its
   * own.
   */
  job<Type extends (keyof Jobs & string) | "*">(
    types: Type | Type[],
    handler: Handler<Type extends keyof Jobs ? Jobs[Type] : any[]>,
  ): this;
  /**
   * Registers a handler that gets its arguments one by one, and the job behind them:
   * `worker.job("email.send", { args: [String, "integer"] }, (to, count, job) => ...)`. A job that
   * does not fit fails for good with {@link InvalidArgs}.
   */
  job<Type extends keyof Jobs & string, Kinds extends readonly ArgKind[] | []>(
    types: Type | Type[],
    options: { args: Kinds } & Fitting<Kinds, Jobs[Type]>,
    handler: (...args: [...ArgsOf<Kinds>, job: Job<Jobs[Type]>]) => unknown,
  ): this;
  /** Puts a function around each handler; the first one is the outermost. */
  use(middleware: Middleware): this;
  /** After the answer of a job that is done. */
  on(event: "completed", listener: (job: Job, result: unknown) => void): this;
  /**
   * After the answer of a job that failed, once for each failure: errors of handlers, `Retry`,
   * `Discard`, `InvalidArgs`, timeouts, and job types without a handler. Not for jobs that are
   * given back.
   */
  on(event: "failed", listener: (job: Job, error: any) => void): this;
  once(event: "completed", listener: (job: Job, result: unknown) => void): this;
  once(event: "failed", listener: (job: Job, error: any) => void): this;
  off(event: "completed" | "failed", listener: (...args: any[]) => void): this;
  /**
   * Enqueues a job at the backend in OJS_URL, with the token in OJS_ENQUEUE_TOKEN. See {@link
   * Client}.
   */
  enqueue: Client<Jobs>["enqueue"];
  /** Runs a handler in this process, as a job that ojs-init brought: for tests. */
  perform<Type extends keyof Jobs & string>(
    type: Type,
    ...rest: [] extends Jobs[Type]
      ? [args?: Jobs[Type], options?: PerformOptions]
      : [args: Jobs[Type], options?: PerformOptions]
  ): Promise<Outcome>;
  /** Connects and works until the end. Exit with the status then, and soon. It does not reject. */
  run(): Promise<number>;
  /** Works until the end, and ends the process. */
  start(): Promise<never>;
  /**
   * Takes no more jobs and finishes those that are held. Then `run` resolves, and `start` ends the
   * process.
   */
  stop(): void;
  /** As ojs-init says: "running", "quiet" or "terminate". */
  get state(): string;
}

/** Works until ojs-init says that it is enough, then ends the process. */
export function work(options: WorkerOptions): Promise<never>;

// --- the log

/** The job whose handler runs here, also behind each `await` of it. */
export function currentJob(): Job | undefined;

/** One line of JSON, with the job's fields while a handler runs. */
export function formatLog(
  severity: Severity,
  message: string,
  more?: { error?: unknown; attributes?: Record<string, unknown> },
): string;

/**
 * Whether a line is to be logged: by the job's own `meta.log_level` if it has one, else by `level`.
 */
export function isLogged(severity: Severity, level?: Severity): boolean;

/**
 * The fields of the job whose handler runs, for a logger of your own (pino: `mixin: logFields`).
 */
export function logFields(): { ojs?: Record<string, unknown>; trace?: Record<string, string> };

/**
 * From here on `console.log` and its like write one line of JSON each to standard error, those of
 * libraries included, with the fields of the job whose handler runs. Gives a function that takes it
 * back.
 */
export function patchConsole(options?: { level?: Severity; write?: (line: string) => void }): () => void;

// --- JSON

/** JSON.parse, but integers that a number cannot hold exactly become BigInts. */
export function parseJson(text: string): any;

/** JSON.stringify, but BigInts are written as integers. */
export function toJson(value: unknown): string | undefined;
