"use strict";

/** The version of this package; a test holds it to package.json's. */
exports.VERSION = "0.2.0";
