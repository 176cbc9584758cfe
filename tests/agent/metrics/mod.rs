//! The metrics from outside: the real binary as PID 1 of its own PID namespace, and what it shows
//! at `/metrics`.
//!
//! Needs root (PID and network namespaces), python3 and promtool.

mod bounds;
mod counts;
mod memory_gate;
mod pages;
mod promtool;
mod scrape;
mod states;
mod worker_usage;

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
