//! The worker socket protocol, version 1: the frames that a worker sends and receives.
//!
//! Decoding never fails: a line that cannot be decoded is a value too ([`FromWorker::Garbage`]).
//! The rules, beyond the tables of the protocol:
//!
//! - Unknown fields are ignored; `null` in an optional field means no field, except in `result` and
//!   `state`, where it is the value. Of a doubled field the last one counts.
//! - Values that are passed on keep their spelling and content. Only their nesting has a limit,
//!   [`MAX_DEPTH`]: the next reader may be a recursive one.
//! - Names (job ids, job types) are 1 to [`MAX_NAME_BYTES`] bytes of Unicode. Texts for a person
//!   may hold anything: half surrogate pairs become replacement characters.
//! - A failure must not get lost because of its spelling. `error` may be a mere string; without a
//!   message its type, or else its code, is the message; a backtrace over the limits of the
//!   specification is cut, not refused.
//! - An answer counts even if the rest of its line is too long, broken or of a wrong type
//!   (`broken_answer.rs`). The worker gets an error frame, so its first test finds the fault.
//!
//! [`FromWorker::Garbage`]: ojs_lifecycle::api::FromWorker::Garbage
//!
//! The folder may use the rest of the crate. Start with `decode`, then `encode`.

mod broken_answer;
mod decode;
mod encode;
pub(crate) mod error;
mod limits;
mod values;

pub use decode::{decode, too_long};
pub(crate) use encode::FrameLine;
pub use encode::{HelloContext, JOB_OVERHEAD, encode, encode_around};
pub use limits::{MAX_BACKTRACE_CHARS, MAX_BACKTRACE_FRAMES, MAX_DEPTH, MAX_NAME_BYTES, MAX_TYPES, PROTOCOL};
