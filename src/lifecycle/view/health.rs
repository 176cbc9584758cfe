//! What probes are told: whether we are alive, ready, healthy, and if not, why.
//!
//! Each probe has another consequence, so each asks something else. A failed liveness probe restarts the container, which
//! helps against a worker that is beyond help and against nothing else: neither quiet, nor a drain, nor an outage of the
//! backend (requirements C-17).

use std::time::Duration;

use crate::lifecycle::api::effect::WorkerState;
use crate::lifecycle::api::time::Moment;
use crate::lifecycle::machine::Lifecycle;
use crate::lifecycle::shutdown::phase::Phase;

/// Without a connection that is ready for this long, a worker that had one is not alive.
const LONGEST_WITHOUT_CONNECTION: Duration = Duration::from_secs(60);

/// Heartbeat intervals after which the last accepted heartbeat says nothing about now.
const INTERVALS_OF_A_HEARTBEAT: u32 = 3;

/// What a probe wants to know.
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
pub enum Trouble {
    /// Somebody asked for quiet.
    Quiet,
    /// The end was asked for, or the worker ended.
    Terminate,
    /// The worker's process does not run: not yet, or not again.
    WorkerNotRunning,
    /// It runs, and no connection of it has said ready.
    WorkerNotReady,
    /// It has said ready, and asks for no jobs at the moment: a concurrency of 0.
    WorkerPaused,
    /// It has had such a connection, and none for too long now.
    WorkerDisconnected {
        /// Since when there is none.
        since: Duration,
    },
    /// The backend has accepted no heartbeat of this worker yet.
    NoHeartbeat,
    /// It has accepted none for too long.
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
    /// What the worker and the backend are told about our phase.
    pub state: WorkerState,
    /// Everything that speaks for a no. None: yes.
    pub troubles: Vec<Trouble>,
}

impl Health {
    /// Whether the answer is yes.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.troubles.is_empty()
    }
}

/// What has to be remembered to answer. Nothing else depends on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(in crate::lifecycle) struct Vitals {
    /// When the backend last accepted a heartbeat of the present incarnation.
    pub(in crate::lifecycle) accepted_at: Option<Moment>,
    /// Since when, in running, a worker that has been ready has no ready connection. One that pauses has.
    disconnected_since: Option<Moment>,
}

impl Vitals {
    /// Another incarnation begins.
    pub(in crate::lifecycle) fn begin_anew(&mut self) {
        *self = Self::default();
    }

    /// A heartbeat of the present incarnation was accepted.
    pub(in crate::lifecycle) fn heartbeat_accepted(&mut self, now: Moment) {
        self.accepted_at = Some(now);
    }
}

impl Lifecycle {
    /// The answer to a probe.
    #[must_use]
    pub fn health(&self, probe: Probe, now: Moment) -> Health {
        let troubles = match probe {
            Probe::Live => self.disconnected(now).into_iter().collect(),
            Probe::Ready => [self.withdrawn(), self.unready(), self.unheard_of(now)]
                .into_iter()
                .flatten()
                .collect(),
            Probe::Healthy => self.withdrawn().into_iter().collect(),
        };
        Health {
            state: self.state(),
            troubles,
        }
    }

    fn withdrawn(&self) -> Option<Trouble> {
        match self.state() {
            WorkerState::Running => None,
            WorkerState::Quiet => Some(Trouble::Quiet),
            WorkerState::Terminate | WorkerState::Terminated => Some(Trouble::Terminate),
        }
    }

    fn unready(&self) -> Option<Trouble> {
        if !self.worker.is_alive() {
            Some(Trouble::WorkerNotRunning)
        } else if self.connections.ready() == 0 {
            Some(Trouble::WorkerNotReady)
        } else if self.connections.concurrency() == 0 {
            Some(Trouble::WorkerPaused)
        } else {
            None
        }
    }

    fn unheard_of(&self, now: Moment) -> Option<Trouble> {
        let Some(accepted_at) = self.vitals.accepted_at else {
            return Some(Trouble::NoHeartbeat);
        };
        let (since, interval) = (accepted_at.until(now), self.agent.beats.interval);
        let is_lost = since > interval.saturating_mul(INTERVALS_OF_A_HEARTBEAT);
        is_lost.then_some(Trouble::HeartbeatsLost { since, interval })
    }

    fn disconnected(&self, now: Moment) -> Option<Trouble> {
        let since = self.vitals.disconnected_since?.until(now);
        (since >= LONGEST_WITHOUT_CONNECTION).then_some(Trouble::WorkerDisconnected { since })
    }

    /// Notes since when a worker that was ready has no connection left. One that was never ready may still be loading
    /// what it needs, and one that ended is started again or takes us with it.
    pub(in crate::lifecycle) fn watch_connections(&mut self, now: Moment) {
        let is_disconnected = self.phase == Phase::Running
            && self.worker.is_alive()
            && self.worker.has_been_ready()
            && self.connections.ready() == 0;
        self.vitals.disconnected_since = if is_disconnected {
            self.vitals.disconnected_since.or(Some(now))
        } else {
            None
        };
    }
}
