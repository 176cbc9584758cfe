//! What the answers to probes depend on and nothing else keeps.

use crate::api::Moment;

/// What has to be remembered to answer. Nothing else depends on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct HealthState {
    /// Since when, in running, a worker that has been ready and keeps a connection to us has no
    /// ready holder. One that pauses has.
    pub(super) disconnected_since: Option<Moment>,
}
