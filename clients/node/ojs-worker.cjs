// The package for require().
"use strict";

const errors = require("./lib/errors.cjs");
const { Job } = require("./lib/job.cjs");
const { parseJson, toJson } = require("./lib/json.cjs");
const { LineReader } = require("./lib/lines.cjs");
const { currentJob, formatLog, isLogged, logFields, patchConsole } = require("./lib/log.cjs");
const { VERSION } = require("./lib/version.cjs");
const { Worker, work } = require("./lib/worker.cjs");

module.exports = {
  Cancelled: errors.Cancelled,
  CheckpointTooLarge: errors.CheckpointTooLarge,
  Discard: errors.Discard,
  Job,
  JobError: errors.JobError,
  LineReader,
  Release: errors.Release,
  Retry: errors.Retry,
  StepsChanged: errors.StepsChanged,
  VERSION,
  Worker,
  currentJob,
  formatLog,
  isLogged,
  logFields,
  parseJson,
  patchConsole,
  toJson,
  work,
};
