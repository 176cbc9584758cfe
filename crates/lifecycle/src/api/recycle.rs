//! Recycling: ojs-init drains the worker and starts it again, before the worker uses too much.

use std::fmt;
use std::time::Duration;

/// The limits of one worker process. After one of them ojs-init recycles the worker. Each life of
/// the worker gets up to a fifth less of `max_jobs` and `max_age`, by chance, because a fleet that
/// started at one time must not be recycled at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct RecycleLimits {
    /// The worker was given so many jobs (`worker.max_jobs`).
    pub max_jobs: Option<u32>,
    /// The worker and all its descendants use more bytes of memory (`worker.max_memory`). Counts
    /// after ten jobs or a minute, so a limit that is too low does not recycle without end.
    pub max_memory: Option<u64>,
    /// The worker was ready so long ago for the first time (`worker.max_age`).
    pub max_age: Option<Duration>,
    /// Whether the next worker process starts while the old one works (`worker.recycle_overlap`).
    pub overlap: bool,
}

/// Why ojs-init recycles the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecycleReason {
    /// The worker was given so many jobs (`worker.max_jobs`).
    Jobs(u64),
    /// The worker and its descendants use so many bytes (`worker.max_memory`).
    Memory(u64),
    /// The worker has run for so long, and reached its `worker.max_age`.
    Age(Duration),
    /// An operator asked for it (`ojs-init recycle`).
    Operator,
}

impl RecycleReason {
    /// Every word of [`Self::word`].
    pub const WORDS: [&str; 4] = ["max_jobs", "max_memory", "max_age", "operator"];

    /// The reason in one word, for metrics and fields of the log.
    pub fn word(self) -> &'static str {
        match self {
            Self::Jobs(_) => "max_jobs",
            Self::Memory(_) => "max_memory",
            Self::Age(_) => "max_age",
            Self::Operator => "operator",
        }
    }
}

impl fmt::Display for RecycleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jobs(jobs) => write!(f, "it was given {jobs} jobs (worker.max_jobs)"),
            Self::Memory(bytes) => write!(f, "it uses {} MiB (worker.max_memory)", bytes >> 20),
            Self::Age(age) => write!(f, "it has run for {} s (worker.max_age)", age.as_secs()),
            Self::Operator => f.write_str("an operator asked for it"),
        }
    }
}
