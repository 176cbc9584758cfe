//! The visible state, for the log, probes, metrics, and for tests of invariants.

use std::time::Duration;

use crate::api::phase::Phase;
use crate::api::time::Moment;
use crate::api::words::WorkerState;

/// A view of the machine at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Snapshot {
    pub phase: Phase,
    /// The state for the backend, the status and the probes.
    pub state: WorkerState,
    /// Most jobs that may be active. If holders get as many jobs as they ask for, the most that
    /// they had and asked for so far.
    pub concurrency: u32,
    /// Jobs that count against the concurrency: claimed and not yet settled. Jobs that are returned
    /// at once, and cancelled or lost jobs, do not count. Dropped ones count in terminate only.
    pub active: usize,
    /// Active jobs in the buffer of ojs-init.
    pub waiting: usize,
    /// Jobs that were given back again and again and are held before they are returned. They do not
    /// count as active.
    pub held_back: usize,
    /// Active jobs that a worker holds.
    pub held: usize,
    /// Cancelled or lost jobs whose handlers have not answered in time. They do not count as active
    /// any more.
    pub unanswered: usize,
    /// Jobs that the worker may still run although no heartbeat names them.
    pub dropped: usize,
    /// Jobs whose timeouts expired but that ojs-init leaves with the worker.
    pub past_their_time: usize,
    /// Active jobs whose outcomes are in flight, or wait to be sent.
    pub reporting: usize,
    /// When the oldest active job was claimed.
    pub oldest_since: Option<Moment>,
    /// Open holders that accept jobs.
    pub ready_holders: usize,
    /// Jobs that these holders accept at a time, together.
    pub capacity: u64,
    /// Jobs that a FETCH would ask for now; none outside running.
    pub free_credit: usize,
    /// The used share of the container's memory limit, in percent. None: there is no memory gate,
    /// or no reading yet.
    pub memory_taken: Option<u8>,
    /// Whether ojs-init asks for no jobs because of the memory gate.
    pub memory_gate_is_closed: bool,
    /// Open streams.
    pub streams: usize,
    /// Open streams that have ever sent an event.
    pub telling_streams: usize,
    /// Streams that were closed because they reported no new jobs.
    pub deaf_streams: usize,
    pub worker_is_alive: bool,
    pub heartbeat_interval: Duration,
    /// When the drain began: with terminate, or with the preStop hook before it because the
    /// orchestrator's clock runs from the hook on.
    pub drain_since: Option<Moment>,
    pub cut_off: usize,
    /// When ojs-init exits at the latest; set from terminate on.
    pub exit_by: Option<Moment>,
    /// Number of armed timers: bounded by the jobs, the requests and the holders.
    pub deadlines: usize,
}
