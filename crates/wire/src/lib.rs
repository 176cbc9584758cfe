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
//! | an operator, a probe, an orchestrator | `operator`, `http::probe`, `metrics`, `termination_log` |
//! | the runner of mode exec, and its jobs | `runner` |
//!
//! The crate may use `ojs_lifecycle::api`, the counts of `ojs_lifecycle::view::metrics` and
//! `ojs_values`. Start with `frame`, then `worker`: the other protocols are read in the same way.
#![forbid(unsafe_code)]

pub mod backend;
pub mod frame;
pub mod gateway;
mod health;
pub mod http;
mod json;
pub mod metrics;
pub mod names;
pub mod operator;
pub mod runner;
pub mod termination_log;
pub mod text;
pub mod trouble;
pub mod worker;

#[cfg(test)]
mod test_support;
