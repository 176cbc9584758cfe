//! The replies to probes: alive, ready, healthy, and if not, why.
//!
//! Each probe has another consequence, so each checks another condition. A failed liveness probe
//! restarts the container. That helps only against a worker that is beyond help, and not against
//! quiet, a drain or an outage of the backend (requirements C-17).

use std::time::Duration;

use crate::api::{Health, Moment, Phase, Probe, Unhealthy, WorkerState};
use crate::machine::Lifecycle;

/// Time without a ready holder after which a worker that had one is not alive.
const LONGEST_WITHOUT_CONNECTION: Duration = Duration::from_secs(60);

/// Heartbeat intervals after which the last accepted heartbeat is too old to count.
const INTERVALS_OF_A_HEARTBEAT: u32 = 3;

impl Lifecycle {
    /// The answer to a probe.
    pub fn health(&self, probe: Probe, now: Moment) -> Health {
        let troubles = match probe {
            Probe::Live => self.disconnected(now).into_iter().collect(),
            Probe::Ready => [self.withdrawn(), self.unready(now), self.unheard_of(now)]
                .into_iter()
                .flatten()
                .collect(),
            Probe::Healthy => self.withdrawn().into_iter().collect(),
        };
        Health {
            state: self.state(),
            troubles,
            backend: self.trouble(now),
        }
    }

    fn withdrawn(&self) -> Option<Unhealthy> {
        match self.state() {
            WorkerState::Running => None,
            WorkerState::Quiet => Some(Unhealthy::Quiet),
            WorkerState::Terminate | WorkerState::Terminated => Some(Unhealthy::Terminate),
        }
    }

    fn unready(&self, now: Moment) -> Option<Unhealthy> {
        let worker = &self.workers.supervision;
        // A worker that is not ready for so long has another reason for that.
        let is_late = worker.is_alive() && worker.ready_by(self.options.ready_timeout) <= now;
        if self.workers.recycling.is_felt() && (self.workers.recycling.is_closed_for_jobs() || !is_late) {
            Some(Unhealthy::Recycling)
        } else if !self.workers.supervision.is_alive() {
            Some(Unhealthy::WorkerNotRunning)
        } else if self.workers.holders.ready() == 0 {
            Some(if self.options.queues.are_named_by_holders() {
                Unhealthy::NothingAskedFor
            } else {
                Unhealthy::WorkerNotReady
            })
        } else if self.workers.holders.concurrency() == 0 && !self.workers.holders.pull() {
            Some(Unhealthy::WorkerPaused)
        } else {
            None
        }
    }

    fn unheard_of(&self, now: Moment) -> Option<Unhealthy> {
        let Some(accepted_at) = self.link.accepted_at else {
            return Some(if self.link.waits_for_queues(&self.options) {
                Unhealthy::NotRegistered
            } else {
                Unhealthy::NoHeartbeat
            });
        };
        let (since, interval) = (accepted_at.elapsed(now), self.link.session.heartbeats.interval);
        let is_lost = since > interval.saturating_mul(INTERVALS_OF_A_HEARTBEAT);
        is_lost.then_some(Unhealthy::HeartbeatsLost { since, interval })
    }

    fn disconnected(&self, now: Moment) -> Option<Unhealthy> {
        let since = self.health_state.disconnected_since?.elapsed(now);
        (since >= LONGEST_WITHOUT_CONNECTION).then_some(Unhealthy::WorkerDisconnected { since })
    }

    /// Notes since when a worker that was ready has no holder left. A worker that was never ready
    /// may still be loading its data, and one that ended is restarted or ends ojs-init. If holders
    /// ask for their jobs, none has to be connected: the last process may have ended, and another
    /// one will start.
    pub(crate) fn watch_holders(&mut self, now: Moment) {
        let is_disconnected = self.phase() == Phase::Running
            && self.workers.supervision.is_alive()
            && self.workers.supervision.has_been_ready()
            && !self.workers.recycling.is_felt()
            && self.workers.holders.ready() == 0
            && !self.options.queues.are_named_by_holders();
        self.health_state.disconnected_since = if is_disconnected {
            self.health_state.disconnected_since.or(Some(now))
        } else {
            None
        };
    }
}
