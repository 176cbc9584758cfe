//! PURE. Bytes to types and back; [`ojs_lifecycle`] decides what they mean.
//!
//! The crate has no socket, no clock, and no state except a half-read line. Bytes from outside are
//! hostile until they are parsed here: every function accepts any bytes, panics on none, and keeps
//! the readable parts. JSON that is only passed on (envelopes, results, checkpoints) stays the text
//! that its author wrote: numbers beyond 2^53, key order, escapes and doubled keys arrive byte for
//! byte.
//!
//! | peer | module |
//! |---|---|
//! | a worker on the worker socket | `worker`, with the lines of `frame` |
//! | a worker that is built on an SDK | `gateway`, over `http` |
//! | the backend | `backend`, over `http` |
//! | a collector of OpenTelemetry | `traces`, over `http` |
//! | an operator, a probe, an orchestrator | `operator`, `http::probe`, `metrics`, `termination_log` |
//! | the runner of mode exec, and its jobs | `runner` |
//!
//! Without its feature `agent` the crate has only the texts that the plain init needs.
//!
//! The crate may use `ojs_lifecycle::api`, the counts of
//! `ojs_lifecycle::view::metrics`, the spans of `ojs_lifecycle::view::traces` and `ojs_values`.
//! Start with `frame`, then `worker`: the other protocols are read in the same way.
#![forbid(unsafe_code)]

#[cfg(feature = "agent")]
pub mod backend;
#[cfg(feature = "agent")]
pub mod frame;
#[cfg(feature = "agent")]
pub mod gateway;
#[cfg(feature = "agent")]
mod health;
#[cfg(feature = "agent")]
pub mod http;
#[cfg(feature = "agent")]
mod json;
#[cfg(feature = "agent")]
pub mod metrics;
#[cfg(feature = "agent")]
pub mod names;
#[cfg(feature = "agent")]
pub mod operator;
#[cfg(feature = "agent")]
pub mod runner;
pub mod termination_log;
pub mod text;
#[cfg(feature = "agent")]
pub mod traces;
pub mod trouble;
#[cfg(feature = "agent")]
pub mod worker;

#[cfg(all(test, feature = "agent"))]
mod test_support;
