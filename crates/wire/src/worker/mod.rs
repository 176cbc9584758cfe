//! The worker socket protocol, version 1: what a worker says, and what it is told.
//!
//! Decoding never fails: a line that is not understood is an answer too ([`FromWorker::Garbage`]).
//! The rules, beyond the tables of the protocol:
//!
//! - Fields that are not known are ignored; `null` in an optional field is the same as no field,
//!   except in `result` and `state`, where it is the value. Of a field that is there twice the last
//!   one counts.
//! - Values that are passed on are kept as they are spelled, whatever they hold. Only how deep they
//!   are nested has a limit, [`MAX_DEPTH`]: the next reader may be a recursive one.
//! - Names (job ids, job types) are 1 to [`MAX_NAME_BYTES`] bytes of Unicode. Texts for a person
//!   may hold anything: half surrogate pairs become replacement characters.
//! - A failure must not get lost over how it is told. `error` may be a mere string; without a
//!   message its type, or else its code, is the message; a backtrace over the limits of the
//!   specification is cut, not refused.
//! - An answer counts even if the rest of its line is too long, broken or of a wrong type
//!   (`broken_answer.rs`). The worker is told what was wrong; its first test finds that.
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
