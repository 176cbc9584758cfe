//! The binary without a backend: its command line, the plain init, and its log. `cargo test --test
//! init cli::` runs one part.
//!
//! Needs root for some (other users, PID limits), python3 and strace.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "the test is the outside world, and one that cannot start its processes has failed"
)]

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

mod cli;
mod faults;
mod init_only;
mod log;
mod plain;
