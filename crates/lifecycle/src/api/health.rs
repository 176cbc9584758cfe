//! The questions of probes, and the replies.

use std::time::Duration;

use crate::api::trouble::Trouble;
use crate::api::words::WorkerState;

/// The question of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Probe {
    /// Is a restart of the container the only help left?
    Live,
    /// Are jobs taken, and does the backend know of us?
    Ready,
    /// Is this a worker that was neither told to be quiet nor to end (GS-R004)?
    Healthy,
}

/// Why the answer is no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unhealthy {
    /// Somebody asked for quiet.
    Quiet,
    /// The end was asked for, or the worker ended.
    Terminate,
    /// The worker's process does not run: not yet, or not again.
    WorkerNotRunning,
    /// The worker runs, and none of its holders has said ready.
    WorkerNotReady,
    /// The worker runs, and has not asked for jobs yet: its holders name the queues.
    NothingAskedFor,
    /// The worker has said ready, and takes no jobs at the moment: a concurrency of 0.
    WorkerPaused,
    /// The worker has had a ready holder, and none for too long now.
    WorkerDisconnected {
        /// Since when there is none.
        since: Duration,
    },
    /// The backend has accepted no heartbeat of this worker yet.
    NoHeartbeat,
    /// The worker is not registered, because its first request for jobs names the queues.
    NotRegistered,
    /// The backend has accepted no heartbeat for too long.
    HeartbeatsLost {
        /// Since the last one.
        since: Duration,
        /// Time between two.
        interval: Duration,
    },
}

/// The answer to a probe.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Health {
    /// The phase as the worker and the backend know it.
    pub state: WorkerState,
    /// Everything that speaks for a no. None: yes.
    pub troubles: Vec<Unhealthy>,
    /// Why the backend does not work, where that is a part of it.
    pub backend: Option<Trouble>,
}

impl Health {
    /// Whether the answer is yes.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.troubles.is_empty()
    }
}
