//! What the answers to probes depend on and nothing else keeps.

use crate::lifecycle::api::Moment;

/// What has to be remembered to answer. Nothing else depends on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(in crate::lifecycle) struct HealthState {
    /// When the backend last accepted a heartbeat of the present incarnation.
    pub(super) accepted_at: Option<Moment>,
    /// Since when, in running, a worker that has been ready and keeps a connection to us has no ready holder. One that pauses has.
    pub(super) disconnected_since: Option<Moment>,
}

impl HealthState {
    /// Another incarnation begins.
    pub(in crate::lifecycle) fn reset(&mut self) {
        *self = Self::default();
    }

    /// A heartbeat of the present incarnation was accepted.
    pub(in crate::lifecycle) fn heartbeat_accepted(&mut self, now: Moment) {
        self.accepted_at = Some(now);
    }
}
