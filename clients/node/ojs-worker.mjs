/**
 * A worker for ojs-init (worker socket, protocol version 1), for Node.js 18 or later. No dependencies.
 *
 *     import { work } from "ojs-worker";
 *     await work({ handlers: { "mail.send": async (job) => send(...job.args) } });
 *
 * @module
 */

// One copy of everything, however it is loaded: an error of one copy would be unknown to the other.
import worker from "./ojs-worker.cjs";

export const {
  Cancelled,
  CheckpointTooLarge,
  Client,
  Discard,
  EnqueueError,
  Interrupted,
  InvalidArgs,
  Job,
  JobError,
  Release,
  Retry,
  StepsChanged,
  VERSION,
  Worker,
  currentJob,
  formatLog,
  isLogged,
  logFields,
  optional,
  parseJson,
  patchConsole,
  toJson,
  work,
} = worker;
