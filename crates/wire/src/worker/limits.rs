//! Limits of the worker protocol, for both directions.

use ojs_lifecycle::api::MOST_JOB_ID_BYTES;

/// The version of the protocol.
pub const PROTOCOL: u32 = 1;

/// Longest name of a job or of a job type, in bytes.
pub const MAX_NAME_BYTES: usize = MOST_JOB_ID_BYTES;

/// Most job types that a connection can name.
pub const MAX_TYPES: usize = 10_000;

/// Deepest nesting of arrays and objects in a frame, the frame itself included. ojs-init could not
/// send a deeper value to every worker again as a checkpoint: of the usual JSON libraries Ruby's
/// gives up first, after 100.
pub const MAX_DEPTH: usize = 100;

/// Most frames of a backtrace that are passed on; the first ones are kept (OJS core 8).
pub const MAX_BACKTRACE_FRAMES: usize = 50;

/// Most characters of a backtrace that are passed on, over all its frames (OJS core 8).
pub const MAX_BACKTRACE_CHARS: usize = 10_000;
