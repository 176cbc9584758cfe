//! PURE. Bytes to types and back; what they mean is decided in [`crate::lifecycle`].
//!
//! No socket, no clock, no state but that of a half-read line: every function here can be called from a fuzz target.
//! JSON that is only passed on (results, checkpoints, envelopes) stays the text that somebody wrote: numbers beyond
//! 2^53, key order, escapes and doubled keys arrive byte for byte.
#![forbid(unsafe_code)]

pub mod envelope;
pub mod frame;
mod json;
pub mod names;
pub mod worker;
mod worker_decode;
mod worker_encode;
mod worker_error;
