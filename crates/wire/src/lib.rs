//! PURE. Bytes to types and back; what they mean is decided in [`ojs_lifecycle`].
//!
//! No socket, no clock, no state but that of a half-read line. What comes from outside is hostile
//! until it was read here: every function takes any bytes, panics on none, and keeps what is
//! readable. JSON that is only passed on (envelopes, results, checkpoints) stays the text that
//! somebody wrote: numbers beyond 2^53, key order, escapes and doubled keys arrive byte for byte.
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
