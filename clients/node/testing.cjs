// `require("ojs-worker/testing")`: the development server for tests.
"use strict";

module.exports = require("./lib/testing.cjs");
