// What the declarations promise is what the code has: each line fails to compile when it is not.

import type * as compat from "../../compat.cjs";
import type * as main from "../../ojs-worker.cjs";
import type * as testing from "../../testing.cjs";
import compatCode = require("../../lib/compat.cjs");
import errorsCode = require("../../lib/errors.cjs");
import jobCode = require("../../lib/job.cjs");
import jsonCode = require("../../lib/json.cjs");
import linesCode = require("../../lib/lines.cjs");
import logCode = require("../../lib/log.cjs");
import testingCode = require("../../lib/testing.cjs");
import versionCode = require("../../lib/version.cjs");
import workerCode = require("../../lib/worker.cjs");

const mainHeld: typeof main = {
  Cancelled: errorsCode.Cancelled,
  CheckpointTooLarge: errorsCode.CheckpointTooLarge,
  Discard: errorsCode.Discard,
  Job: jobCode.Job,
  JobError: errorsCode.JobError,
  LineReader: linesCode.LineReader,
  Release: errorsCode.Release,
  Retry: errorsCode.Retry,
  StepsChanged: errorsCode.StepsChanged,
  VERSION: versionCode.VERSION,
  Worker: workerCode.Worker,
  currentJob: logCode.currentJob,
  formatLog: logCode.formatLog,
  isLogged: logCode.isLogged,
  logFields: logCode.logFields,
  parseJson: jsonCode.parseJson,
  patchConsole: logCode.patchConsole,
  toJson: jsonCode.toJson,
  work: workerCode.work,
};

const testingHeld: typeof testing = testingCode;
const compatHeld: typeof compat = compatCode;

void [mainHeld, testingHeld, compatHeld];
