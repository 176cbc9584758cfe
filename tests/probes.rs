//! The health endpoints from outside: the real binary as PID 1 of its own PID namespace, clients of every kind, and ports
//! that somebody else has.
//!
//! Needs root (PID and network namespaces) and python3. What is asked of the answers themselves is in
//! `tests/requirements/health.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a test whose processes do not do as they are told has failed"
)]

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "support/backend.rs"]
mod backend;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "worker_socket/stage.rs"]
mod stage;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "support/mod.rs"]
mod support;
#[path = "support/under_test.rs"]
mod under_test;
use support::wait;

#[path = "probes/address.rs"]
mod address;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "probes/client.rs"]
mod client;
#[path = "probes/hostile.rs"]
mod hostile;
#[path = "probes/network.rs"]
mod network;
#[path = "probes/requests.rs"]
mod requests;

/// A free port.
const ANY_PORT: (&str, &str) = ("OJS_HEALTH_LISTEN", "127.0.0.1:0");

/// Acks whatever comes.
const WORKS: &str = "link = Link(); link.ready(10); link.work()";
