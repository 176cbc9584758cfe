//! `status` and `health` from outside: the real binary as PID 1 of its own PID namespace, and the
//! real binary once more as the subcommand, on a terminal and without one.
//!
//! Needs root (PID namespaces, other users) and python3.
#![allow(
    clippy::disallowed_methods,
    reason = "the test is the outside world: it starts and waits for processes"
)]

mod fields;
mod grid;
mod health;
mod instances;
mod view;

use crate::operator::{Came, run};
use crate::stage::{Init, PATIENCE, Stage};
use crate::support::wait::wait_for;

/// A worker that holds its jobs and does not mind SIGTERM.
const STUCK: &str = "
note_signals(signal.SIGTERM)
link = Link()
link.ready(300)
link.note_all()
rest()";

/// The output of `status --json`.
fn shown(stage: &Stage, init: &Init) -> serde_json::Value {
    let came = run(stage, init, &["status", "--json"]);
    assert_eq!((came.status, came.stderr.as_str()), (Some(0), ""), "{came:?}");
    assert_eq!(came.stdout.lines().count(), 1, "{came:?}");
    serde_json::from_str(&came.stdout).unwrap()
}

/// Waits until `status --json` says something.
fn shows(stage: &Stage, init: &Init, what: &str, is_it: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let seen = wait_for(PATIENCE, || Some(shown(stage, init)).filter(&is_it));
    seen.unwrap_or_else(|| panic!("{what}: {:#}", shown(stage, init)))
}

/// Lines of text for a person who has 80 columns.
fn screen(came: &Came) -> Vec<&str> {
    assert_eq!((came.status, came.stderr.as_str()), (Some(0), ""), "{came:?}");
    let lines: Vec<&str> = came.stdout.lines().collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{came:?}");
    assert!(!came.stdout.contains('\x1b'), "{came:?}");
    lines
}
