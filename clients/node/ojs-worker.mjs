/**
 * A worker for ojs-init (worker socket, protocol version 1), for Node.js 18 or later. No
 * dependencies.
 *
 *     import { work } from "ojs-worker";
 *     await work({ handlers: { "mail.send": async (job) => send(...job.args) } });
 *
 * @module
 */

// One copy of everything, however it is loaded: an error of one copy would be unknown to the other.
import worker from "./ojs-worker.cjs";

export const { Client, EnqueueError, Job, VERSION, Worker, work, optional, parseJson, toJson } = worker;
export const { Cancelled, Discard, Interrupted, JobError, Release, Retry } = worker;
export const { CheckpointTooLarge, InvalidArgs, StepsChanged } = worker;
export const { currentJob, formatLog, isLogged, logFields, patchConsole } = worker;
