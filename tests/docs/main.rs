//! Pages that users read, against the code and the real binary. `cargo test --test docs
//! configuration::` runs one part.
//!
//! Needs root (PID namespaces).
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the test is the outside world, and one that cannot read the pages has failed"
)]

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

mod configuration;
mod deploy;
mod evidence;
mod exec;
mod links;
mod log_lines;
mod operating;
mod recipes;
