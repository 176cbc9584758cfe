//! The worker socket protocol, version 1: what a worker says, and what it is told.
//!
//! What is not understood is an answer too ([`Said::Garbage`]): decoding never fails. The rules, beyond the tables of
//! the protocol:
//!
//! - Fields that are not known are ignored; `null` in an optional field is the same as no field, except in `result` and
//!   `state`, where it is the value. Of a field that is there twice the last one counts.
//! - Values that are passed on are kept as they are spelled, whatever they hold. Only how deep they are nested has a
//!   limit, [`MAX_DEPTH`]: the next reader may be a recursive one.
//! - Names (job ids, job types) are 1 to [`MAX_NAME_BYTES`] bytes of Unicode. Texts for a person may hold anything:
//!   half surrogate pairs become replacement characters.
//! - A failure must not get lost over how it is told. `error` may be a mere string; without a message its type, or else
//!   its code, is the message; a backtrace over the limits of the specification is cut, not refused. A field of the
//!   wrong type is refused: that is a client's bug, which its first test finds.
//!
//! [`Said::Garbage`]: crate::lifecycle::event::Said::Garbage

pub use crate::wire::worker_decode::{decode, too_long};
pub use crate::wire::worker_encode::{HelloContext, JOB_OVERHEAD, encode};

use crate::lifecycle::effect::MOST_JOB_ID_BYTES;

/// The version that we speak.
pub const PROTOCOL: u32 = 1;

/// Most jobs at once that a connection can ask for: as many as worker.concurrency allows.
pub const MAX_CONCURRENCY: u32 = 10_000;

/// Longest name of a job or of a job type, in bytes.
pub const MAX_NAME_BYTES: usize = MOST_JOB_ID_BYTES;

/// Most job types that a connection can name.
pub const MAX_TYPES: usize = 10_000;

/// Deepest nesting of arrays and objects in a frame, the frame itself included. What is deeper could not be handed to
/// every worker again as a checkpoint: of the usual JSON libraries Ruby's gives up first, after 100.
pub const MAX_DEPTH: usize = 100;

/// Most frames of a backtrace that are passed on; the first ones are kept (OJS core 8).
pub const MAX_BACKTRACE_FRAMES: usize = 50;

/// Most characters of a backtrace that are passed on, over all its frames (OJS core 8).
pub const MAX_BACKTRACE_CHARS: usize = 10_000;
