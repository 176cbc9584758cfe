//! Workers that speak HTTP with us as if we were the backend: what is on the wire, and what becomes
//! of their jobs.

mod bounds;
mod callers;
mod connections;
mod ends;
mod front;
mod outcomes;
mod pauses;
mod recycling;
mod requests;
mod sizes;
mod streams;
mod view;
mod words;

use std::ffi::OsString;

use crate::stage::{Stage, Start, root};

/// The init in mode gateway, with a worker that executes this script.
pub(super) fn worker<'a>(stage: &'a Stage, script: &str) -> Start<'a> {
    let program = root().join("tests/support/gateway_worker.py");
    let words: [OsString; 5] = [
        "python3".into(),
        "-S".into(),
        "-E".into(),
        program.into(),
        script.into(),
    ];
    stage.command(&words).with("OJS_MODE", "gateway")
}
