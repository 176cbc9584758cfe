//! The health endpoints from outside: the real binary as PID 1 of its own PID namespace, clients of
//! every kind, and ports that somebody else has.
//!
//! Needs root (PID and network namespaces) and python3. What is asked of the answers themselves is
//! in `requirements/health.rs`.

mod address;
mod hostile;
mod requests;

/// A free port.
const ANY_PORT: (&str, &str) = ("OJS_HEALTH_LISTEN", "127.0.0.1:0");

/// Acks whatever comes.
const WORKS: &str = "link = Link(); link.ready(10); link.work()";
