//! The questions of probes, and the answers.

use std::time::Duration;

use crate::api::trouble::Trouble;
use crate::api::words::WorkerState;

/// The question of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Probe {
    /// Whether the container still works. If not, only its restart helps.
    Live,
    /// Whether the worker accepts jobs and the backend knows it.
    Ready,
    /// Whether the worker has been asked neither for quiet nor for the end (GS-R004).
    Healthy,
}

/// Reasons for a negative answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unhealthy {
    /// A request for quiet applies.
    Quiet,
    /// The end was requested, or the worker ended.
    Terminate,
    /// The worker is being recycled, and the next one is not ready yet.
    Recycling,
    /// The worker's process does not run: not yet, or not again.
    WorkerNotRunning,
    /// The worker runs, but none of its holders has sent ready.
    WorkerNotReady,
    /// The worker runs, but has not asked for jobs yet. Its holders name the queues.
    NothingAskedFor,
    /// The worker has sent ready, but accepts no jobs at the moment: a concurrency of 0.
    WorkerPaused,
    /// The worker had a ready holder, but has been without one for too long.
    WorkerDisconnected {
        /// Time without a ready holder.
        since: Duration,
    },
    /// The backend has accepted no heartbeat of this worker yet.
    NoHeartbeat,
    /// The worker is not registered, because its first request for jobs names the queues.
    NotRegistered,
    /// The backend has accepted no heartbeat for too long.
    HeartbeatsLost {
        /// Time since the last accepted heartbeat.
        since: Duration,
        /// Time between two heartbeats.
        interval: Duration,
    },
}

/// The answer to a probe.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Health {
    /// The state, as for the backend.
    pub state: WorkerState,
    /// All reasons for a negative answer. Empty: the answer is positive.
    pub troubles: Vec<Unhealthy>,
    /// Why the backend does not work, if that is one of the reasons.
    pub backend: Option<Trouble>,
}

impl Health {
    /// Whether the answer is positive.
    pub fn is_good(&self) -> bool {
        self.troubles.is_empty()
    }
}
