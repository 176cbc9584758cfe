//! How a worker crashes.

use std::time::Duration;

/// The exit status of a worker that crashes with one.
pub const CRASH_STATUS: i32 = 3;

/// How a worker crashes.
#[derive(Debug, Clone, Copy)]
pub enum Crash {
    Status,
    Killed,
    Fault,
}

impl Crash {
    /// Of a worker that crashes so long after its first job.
    pub fn after(act_after: Duration) -> Self {
        match act_after.as_millis() % 3 {
            0 => Self::Status,
            1 => Self::Killed,
            _ => Self::Fault,
        }
    }

    /// The exit status of an init whose worker that was.
    pub fn status(self) -> i32 {
        match self {
            Self::Status => CRASH_STATUS,
            Self::Killed => 128 + libc::SIGKILL,
            Self::Fault => 128 + libc::SIGSEGV,
        }
    }
}
