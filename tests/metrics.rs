//! The metrics from outside: the real binary as PID 1 of its own PID namespace, and what it shows at `/metrics`.
//!
//! Needs root (PID and network namespaces), python3 and promtool.
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
#[path = "probes/client.rs"]
mod client;
#[path = "probes/network.rs"]
mod network;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "worker_socket/stage.rs"]
mod stage;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "support/mod.rs"]
mod support;
#[path = "support/under_test.rs"]
mod under_test;
use support::wait;

#[path = "metrics/bounds.rs"]
mod bounds;
#[path = "metrics/counts.rs"]
mod counts;
#[path = "metrics/pages.rs"]
mod pages;
#[path = "metrics/promtool.rs"]
mod promtool;
#[path = "metrics/scrape.rs"]
mod scrape;
#[path = "metrics/states.rs"]
mod states;

/// A free port.
const ANY_PORT: (&str, &str) = ("OJS_HEALTH_LISTEN", "127.0.0.1:0");

/// Heartbeats that a test can wait for.
const OFTEN: (&str, &str) = ("OJS_HEARTBEAT_INTERVAL", "100ms");

/// Acks whatever comes.
const WORKS: &str = "link = Link(); link.ready(10); link.work()";

/// Takes up to ten jobs and says what the test orders.
const OBEYS: &str = "link = Link(); link.ready(10); link.obey()";

/// The series of the jobs that a stage makes.
const OF_JOB: &str = r#"queue="default",type="t""#;
