//! How the worker ended, and what kept it from ending.

use std::fmt;
use std::time::Duration;

use ojs_values::exit::Ended;
use ojs_values::signal::Signal;

/// How a worker ended, and what is known of the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WorkerEnd {
    /// The status of `waitpid`.
    pub ended: Ended,
    /// How many processes of this container the kernel had killed since the worker's start because
    /// memory ran out, where the worker may be one of them.
    pub oom_kills: u64,
}

impl WorkerEnd {
    /// Whether it looks like the work of the kernel's out-of-memory killer: a SIGKILL, or what a
    /// shell makes of one.
    #[must_use]
    pub fn is_like_oom(ended: Ended) -> bool {
        ended.status() == Ended::Signalled(Signal::KILL).status()
    }

    /// ` (out of memory: ...)`, or nothing where that is not known.
    #[must_use]
    pub fn out_of_memory(self) -> String {
        match self.oom_kills {
            0 => String::new(),
            kills => format!(" (out of memory: oom_kill of the cgroup rose by {kills})"),
        }
    }
}

impl From<Ended> for WorkerEnd {
    fn from(ended: Ended) -> Self {
        Self { ended, oom_kills: 0 }
    }
}

impl fmt::Display for WorkerEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.ended, self.out_of_memory())
    }
}

/// How an end of the worker fits what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Manner {
    /// The end was asked for, and came as it should; or was forced.
    Orderly,
    /// The end was asked for, and the worker ended in another way than it was asked to.
    Disorderly,
    /// Nobody had asked. Its status counts as success.
    Unasked,
    /// Nobody had asked, and its status is that of a failure.
    Failed,
}

/// Why nobody waits any longer for processes that got SIGKILL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StillThere {
    /// The processes had time enough to be gone. The kernel holds them.
    Held,
    /// The SIGKILL went out only so long ago, and there is no time to see what comes of it.
    NoTime(Duration),
    /// There was none to begin with: the time of the shutdown was over so long ago when we came to
    /// it.
    Overdue(Duration),
}

impl StillThere {
    /// Why their jobs are left alone.
    pub(crate) fn why_left(self) -> &'static str {
        match self {
            Self::Held => "the kernel holds the process that has it",
            Self::NoTime(_) | Self::Overdue(_) => "no time was left to see the end of the process that has it",
        }
    }
}
