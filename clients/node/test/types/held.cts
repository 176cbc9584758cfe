// The code has what the declarations promise: each line fails to compile if it does not.

import type * as main from "../../ojs-worker.cjs";
import argsCode = require("../../lib/args.cjs");
import clientCode = require("../../lib/client.cjs");
import errorsCode = require("../../lib/errors.cjs");
import jobCode = require("../../lib/job.cjs");
import jsonCode = require("../../lib/json.cjs");
import logCode = require("../../lib/log.cjs");
import workerCode = require("../../lib/worker.cjs");

/** What has types of its own for the caller: only its names are compared. */
type Typed = "Client" | "Job" | "Worker" | "optional";

const held: Omit<typeof main, Typed> & Record<Typed, unknown> = {
  Cancelled: errorsCode.Cancelled,
  CheckpointTooLarge: errorsCode.CheckpointTooLarge,
  Client: clientCode.Client,
  Discard: errorsCode.Discard,
  EnqueueError: clientCode.EnqueueError,
  Interrupted: errorsCode.Interrupted,
  InvalidArgs: errorsCode.InvalidArgs,
  Job: jobCode.Job,
  JobError: errorsCode.JobError,
  Release: errorsCode.Release,
  Retry: errorsCode.Retry,
  StepsChanged: errorsCode.StepsChanged,
  VERSION: workerCode.VERSION,
  Worker: workerCode.Worker,
  currentJob: logCode.currentJob as () => any,
  formatLog: logCode.formatLog,
  isLogged: logCode.isLogged,
  logFields: logCode.logFields,
  optional: argsCode.optional,
  parseJson: jsonCode.parseJson,
  patchConsole: logCode.patchConsole,
  toJson: jsonCode.toJson,
  work: workerCode.work as (options: any) => Promise<never>,
};

const job: Pick<main.Job, Exclude<keyof main.Job, "step">> = {} as jobCode.Job;
const worker: Record<"job" | "use" | "enqueue" | "perform" | "run" | "start" | "stop" | "state", unknown> = {} as workerCode.Worker;
void [held, job, worker];
