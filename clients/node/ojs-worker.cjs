// The package for require().
"use strict";

const { optional } = require("./lib/args.cjs");
const { Client, EnqueueError } = require("./lib/client.cjs");
const errors = require("./lib/errors.cjs");
const { Job } = require("./lib/job.cjs");
const { parseJson, toJson } = require("./lib/json.cjs");
const { currentJob, formatLog, isLogged, logFields, patchConsole } = require("./lib/log.cjs");
const { VERSION, Worker, work } = require("./lib/worker.cjs");

const logging = { currentJob, formatLog, isLogged, logFields, patchConsole };
module.exports = { ...errors, ...logging, Client, EnqueueError, Job, VERSION, Worker, optional, parseJson, toJson, work };
