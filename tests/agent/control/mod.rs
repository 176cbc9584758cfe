//! The control socket and its subcommands from outside. The real binary is PID 1 of its own PID
//! namespace, and once more the subcommand, inside of that namespace and out of it.
//!
//! Needs root (PID namespaces, other users) and python3.
#![allow(
    clippy::disallowed_methods,
    reason = "the test is the outside world: it starts and waits for processes"
)]

mod commands;
mod instances;
mod jobs;
mod prestop;
mod socket;
