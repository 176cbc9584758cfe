//! How many jobs all holders of the worker accept together, as the log last reported it.

use crate::api::{HolderId, Moment, ProcessId, Text};

/// The capacity that the log last reported. No decision depends on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Capacity {
    /// The number that the next one is compared with.
    pub(super) compared: u64,
    /// The most capacity since the last comparison, and since the worker's start.
    pub(super) most_since: u64,
    pub(super) most: u64,
    /// A loss was reported, or a gain was not, so the next gain is reported.
    pub(super) is_owed: bool,
    /// The first holder that was lost since the last comparison, and how many more.
    pub(super) lost: Option<(HolderId, ProcessId)>,
    pub(super) more_lost: usize,
    /// No line before.
    pub(super) quiet_until: Option<Moment>,
    /// Holders whose `ready` was reported, and until when that counts.
    pub(super) ready_lines: u32,
    pub(super) ready_lines_until: Option<Moment>,
    /// The most jobs that holders which send pulls had and asked for at one time.
    pub(super) most_asked: u64,
    /// The capacity was compared with `worker.concurrency`.
    pub(super) is_compared: bool,
    /// Queues that holders asked for and `worker.queues` does not have, in the order of the
    /// requests; at most `MOST_REFUSED_QUEUES`.
    pub(super) refused_queues: Vec<Text>,
    /// The log has the refused queues.
    pub(super) refused_queues_are_told: bool,
}
