//! The notice about a worker that accepts more or fewer jobs than before.

use crate::api::ids::{HolderId, ProcessId};

/// A change of the worker's capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CapacityNews {
    /// The holders accept fewer jobs than before.
    Lost {
        /// The first holder that was lost, and its process; none if a holder lowered its
        /// concurrency.
        lost: Option<(HolderId, ProcessId)>,
        /// Further holders that were lost.
        more: usize,
        /// Jobs that the holders accept at a time now.
        takes: u64,
        /// The most that they accepted at a time since the worker's start.
        most: u64,
    },
    /// The holders accept more jobs again.
    Gained {
        /// Jobs that the holders accept at a time now.
        takes: u64,
        /// The most that they accepted at a time since the worker's start.
        most: u64,
    },
    /// The holders accept more jobs than `worker.concurrency` allows, or fewer.
    Differs {
        /// Jobs that the holders accept at a time, together.
        takes: u64,
        /// Most that may be active (`worker.concurrency`).
        allowed: u32,
    },
    /// Holders that ask for jobs ask for more than `worker.concurrency` allows.
    TooManyAskedFor {
        /// The most jobs that these holders had and asked for at one time, together.
        asked: u64,
        /// Most that may be active (`worker.concurrency`).
        allowed: u32,
    },
}
