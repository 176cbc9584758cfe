//! How many jobs all holders of the worker take together, as the log was last told.

use crate::api::{HolderId, Moment, ProcessId, Text};

/// The capacity as the log knows it. No decision depends on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Capacity {
    /// The number that the next one is compared with.
    pub(super) compared: u64,
    /// The most that there was since then, and since the worker's start.
    pub(super) most_since: u64,
    pub(super) most: u64,
    /// A change for the worse was told, or a gain was not: so the next gain is told.
    pub(super) is_owed: bool,
    /// The first holder that was lost since then, and how many more.
    pub(super) lost: Option<(HolderId, ProcessId)>,
    pub(super) more_lost: usize,
    /// No line before.
    pub(super) quiet_until: Option<Moment>,
    /// Holders whose `ready` was told, and until when that counts.
    pub(super) ready_lines: u32,
    pub(super) ready_lines_until: Option<Moment>,
    /// The most jobs that holders which ask for them had and asked for at one time.
    pub(super) most_asked: u64,
    /// The capacity was compared with `worker.concurrency`.
    pub(super) is_compared: bool,
    /// Queues that holders asked for and `worker.queues` does not have, in the order in which they
    /// came; at most `MOST_REFUSED_QUEUES`.
    pub(super) refused_queues: Vec<Text>,
    /// The log has them.
    pub(super) refused_queues_are_told: bool,
}
