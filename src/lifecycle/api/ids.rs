//! Names of things. The shell and the backend choose them; here they are only compared.

use std::fmt;
use std::sync::Arc;

/// Text that is passed on and never looked into: JSON exactly as somebody spelled it, or a name.
pub type Text = Arc<str>;

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident($number:ty);)*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $number);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )* };
}

numbers! {
    /// Whoever gets jobs and answers them: a connection to the worker socket. Never used again after it is gone.
    HolderId(u64);
    /// One request of a holder for jobs, later ones with larger numbers. Never used again.
    PullId(u64);
    /// One request to the backend.
    CallId(u64);
    /// One connection to the control socket; never used again after it was closed.
    ClientId(u64);
    /// One reservation of a job: the same job delivered twice is two claims.
    Claim(u64);
}

/// The process behind a holder: its pid in the lower half, and above it a number that makes it unique
/// over time, since the system uses pids again. It is shown as the pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u64);

impl ProcessId {
    /// The pid; for people, since the system uses pids again.
    #[must_use]
    pub fn pid(self) -> u32 {
        // The upper half is left out on purpose.
        u32::try_from(self.0 & u64::from(u32::MAX)).unwrap_or(0)
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pid().fmt(f)
    }
}

/// What the backend calls a job. Not unique over time: a job that is delivered again keeps its id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub Text);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the backend knows us by: another one for each incarnation of the worker (worker protocol 3.1).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub Text);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
