//! The notice about a worker that takes more or fewer jobs than before.

use crate::api::ids::{HolderId, ProcessId};

/// A change of the worker's capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CapacityNews {
    /// The holders take fewer jobs than before.
    Lost {
        /// The first holder that was lost, and its process; none where one asked for fewer.
        lost: Option<(HolderId, ProcessId)>,
        /// Further holders that were lost.
        more: usize,
        /// Jobs that can be taken at a time now.
        takes: u64,
        /// The most that could be since the worker's start.
        most: u64,
    },
    /// The holders take more jobs again.
    Gained {
        /// Jobs that can be taken at a time now.
        takes: u64,
        /// The most that could be since the worker's start.
        most: u64,
    },
    /// The holders take more jobs than are allowed, or fewer.
    Differs {
        /// Jobs that they take at a time, together.
        takes: u64,
        /// Most that may be active (`worker.concurrency`).
        allowed: u32,
    },
    /// Holders that ask for jobs ask for more than are allowed.
    TooManyAskedFor {
        /// The most that they had and asked for at one time, together.
        asked: u64,
        /// Most that may be active (`worker.concurrency`).
        allowed: u32,
    },
}
