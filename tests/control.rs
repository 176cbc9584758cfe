//! The control socket and its subcommands from outside: the real binary as PID 1 of its own PID namespace, and the real
//! binary once more as the subcommand, inside of that namespace and out of it.
//!
//! Needs root (PID namespaces, other users) and python3.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "the test is the outside world, and one whose processes do not do as they are told has failed"
)]

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "support/backend.rs"]
mod backend;
#[path = "support/forked.rs"]
mod forked;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "support/runtime.rs"]
mod runtime;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "support/mod.rs"]
mod support;
#[path = "support/under_test.rs"]
mod under_test;
use support::{temp, wait};

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "worker_socket/stage.rs"]
mod stage;

#[path = "control/commands.rs"]
mod commands;
#[path = "control/instances.rs"]
mod instances;
#[path = "control/operator.rs"]
mod operator;
#[path = "control/prestop.rs"]
mod prestop;
#[path = "control/socket.rs"]
mod socket;
