//! The visible state, for the log, probes, metrics, and for tests that check promises.

use std::time::Duration;

use crate::api::phase::Phase;
use crate::api::time::Moment;
use crate::api::words::WorkerState;

/// A view of the machine at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Snapshot {
    /// Where we are.
    pub phase: Phase,
    /// The state as the worker and the backend know it.
    pub state: WorkerState,
    /// Most jobs that may be active; where holders get whatever they ask for, the most that was
    /// until now.
    pub concurrency: u32,
    /// Jobs that count against the concurrency: claimed, not yet settled; not those that go
    /// straight back, and not those that were cancelled or lost. Dropped ones count in terminate
    /// alone.
    pub active: usize,
    /// Of these, in our buffer.
    pub waiting: usize,
    /// Jobs that were given back again and again and are held before they go back: they do not
    /// count as active.
    pub held_back: usize,
    /// Of the active ones, with a worker.
    pub held: usize,
    /// Jobs that were cancelled or lost and do not count any more, whose handlers have not answered
    /// in time.
    pub unanswered: usize,
    /// Jobs that the worker may still run although nothing tells so: no heartbeat names them.
    pub dropped: usize,
    /// Jobs with a worker whose timeouts are over, and of which nothing is made.
    pub past_their_time: usize,
    /// Active ones on their way to the backend.
    pub reporting: usize,
    /// When the oldest active job was claimed.
    pub oldest_since: Option<Moment>,
    /// Open holders that take jobs.
    pub ready_holders: usize,
    /// Jobs that they take at a time, together.
    pub capacity: u64,
    /// Jobs that a FETCH would ask for now; none outside running.
    pub free_credit: usize,
    /// How much of the memory is taken that the container may have, in percent; none: there is no
    /// gate before it, or nothing was told yet.
    pub memory_taken: Option<u8>,
    /// Whether that is why no jobs are asked for.
    pub memory_gate_is_closed: bool,
    /// Streams that tell us of new jobs.
    pub streams: usize,
    /// Those of them that have told something.
    pub telling_streams: usize,
    /// Streams that were closed because they told nothing of new jobs.
    pub deaf_streams: usize,
    pub worker_is_alive: bool,
    pub heartbeat_interval: Duration,
    /// When the drain began: with terminate, or with the preStop hook before it, during which the
    /// orchestrator's clock runs too.
    pub drain_since: Option<Moment>,
    pub cut_off: usize,
    /// When we are gone at the latest; set from terminate on.
    pub exit_by: Option<Moment>,
    /// Deadlines that are set: bounded by the jobs, the requests and the holders.
    pub deadlines: usize,
}
