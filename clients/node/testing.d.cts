/** For tests of whole workers: the development server. */

/** `ojs-devserver` is not there. Skip the test, or install it. */
export class DevserverMissing extends Error {
  constructor(program: string);
}

/** A development server that runs: a backend in memory. {@link devserver} makes one. */
export abstract class Devserver {
  /** Of the library. */
  constructor(...internal: any[]);
  /** For OJS_URL. */
  readonly url: string;
  /** Gives the job, with its `id`. `options` as the backend knows them: `queue`, `retry`, `timeout_ms`. */
  enqueue(type: string, args?: any[], options?: Record<string, any>): Promise<any>;
  /** The job as it is now: `state`, `result`, `errors` and the rest. */
  job(id: string): Promise<any>;
  /** Ends it; what it knew is gone. */
  close(): Promise<void>;
}

/**
 * Starts the development server on a free port. Rejects with a {@link DevserverMissing} when there is none.
 * `program`: in place of OJS_DEVSERVER and PATH; `args`: more arguments.
 */
export function devserver(options?: { program?: string; args?: string[] }): Promise<Devserver>;
