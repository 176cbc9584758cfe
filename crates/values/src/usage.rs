//! The memory and the processor time of a worker.

use std::time::Duration;

/// The memory and the processor time of a worker with all its descendants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerUsage {
    /// Bytes of memory. A page that several processes share counts once, as far as the kernel shows
    /// that.
    pub memory_bytes: u64,
    /// Processor time of this worker and of the ones before it. It never shrinks.
    pub cpu: Duration,
    /// Number of processes.
    pub processes: usize,
}
