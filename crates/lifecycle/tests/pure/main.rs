//! The pure half, which decides and knows no operating system: `crates/lifecycle` and
//! `crates/wire`. The scripts that a person reads are a program of their own, `scenarios`. `cargo
//! test --test pure wire::` runs one part.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test that does not find what it expects has failed, and a simulation says what happened in it"
)]

#[path = "../support/chance.rs"]
mod chance;
#[path = "../support/fleet/mod.rs"]
mod fleet_model;
#[allow(dead_code, reason = "the exploration uses a part of it")]
#[path = "../support/script/mod.rs"]
mod script;

mod costs;
mod exploration;
mod fleet;
mod gateway;
mod lifecycle_table;
mod simulation;
mod wire;

use std::fmt;
use std::io::Write;

/// Prints a figure of a run for docs/evidence.md: a name, a colon, numbers with their units. The
/// output of a test that passes is lost, so the figure goes around `println!`.
fn figure(line: fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "figure: {line}").unwrap();
}
