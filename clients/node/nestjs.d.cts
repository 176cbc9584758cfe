import type { DynamicModule, INestApplicationContext } from "@nestjs/common";
import type { ArgKind, WorkerOptions } from "./ojs-worker.cjs";

/**
 * Makes a method of a provider the handler of a job type: `(job) => ...`, or with `args` the
 * arguments one by one and the job behind them.
 */
export function OjsJob(types: string | string[], options?: { args?: ArgKind[] }): MethodDecorator;

/** Provides the `Worker` of ojs-worker, and registers each method with {@link OjsJob}. */
export class OjsModule {
  static forRoot(options?: WorkerOptions): DynamicModule;
}

/**
 * Works until ojs-init says that it is enough, closes the application, and ends the process. In
 * place of `app.enableShutdownHooks()`: the hooks run once no job is held.
 */
export function runWorker(app: INestApplicationContext): Promise<never>;
