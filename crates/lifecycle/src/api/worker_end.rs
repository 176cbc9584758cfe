//! How the worker ended, and why ojs-init stops waiting for it.

use std::fmt;
use std::time::Duration;

use ojs_values::exit::{Ended, RemapExit};
use ojs_values::signal::Signal;

/// How a worker ended, and the known reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WorkerEnd {
    /// The status of `waitpid`.
    pub ended: Ended,
    /// How many processes of this container the kernel has killed since the worker's start because
    /// memory ran out. 0 if the worker cannot be one of them.
    pub oom_kills: u64,
}

impl WorkerEnd {
    /// Whether the end looks like one by the kernel's out-of-memory killer: a SIGKILL, or a shell's
    /// status for one.
    pub fn is_like_oom(ended: Ended) -> bool {
        ended.status() == Ended::Signalled(Signal::KILL).status()
    }

    /// Whether a worker that was asked to end has ended in good order: with success, or by SIGTERM
    /// or SIGINT, or with a shell's status for one of them. A worker may send itself the SIGINT.
    pub fn is_orderly(ended: Ended, remap: &RemapExit) -> bool {
        let by = |signal| ended.status() == Ended::Signalled(signal).status();
        remap.apply(ended) == 0 || by(Signal::TERM) || by(Signal::INT)
    }

    /// Whether a worker ends like this after a SIGTERM, or a SIGKILL, of ojs-init.
    pub fn is_as_asked(self, remap: &RemapExit) -> bool {
        let is_killed = self.ended == Ended::Signalled(Signal::KILL) && self.oom_kills == 0;
        Self::is_orderly(self.ended, remap) || is_killed
    }

    /// ` (out of memory: ...)`, or empty if that is unknown.
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

/// How an end of the worker fits the request for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Manner {
    /// ojs-init asked for the end, and the worker ended as asked or was forced.
    Orderly,
    /// ojs-init asked for the end, and the worker ended in another way.
    Disorderly,
    /// No end was requested. The worker's status counts as success.
    Unasked,
    /// No end was requested, and the worker's status is that of a failure.
    Failed,
}

/// Why ojs-init stops waiting for processes that got SIGKILL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StillThere {
    /// The processes had enough time to end. The kernel holds them.
    Held,
    /// The SIGKILL was sent only this long ago, and no time is left to wait for its effect.
    NoTime(Duration),
    /// The time of the shutdown had already ended, this long ago, so there was no time to wait.
    Overdue(Duration),
}

impl StillThere {
    /// Why ojs-init leaves the jobs of these processes alone.
    pub(crate) fn why_left(self) -> &'static str {
        match self {
            Self::Held => "the kernel holds the process that has it",
            Self::NoTime(_) | Self::Overdue(_) => "no time was left to see the end of the process that has it",
        }
    }
}
