// `require("ojs-worker/compat")`: the OJS SDK's names.
"use strict";

module.exports = require("./lib/compat.cjs");
