//! The memory behind the replies to probes.

use crate::api::Moment;

/// Facts that only the replies to probes need.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct HealthState {
    /// Since when, in running, a worker that has been ready and keeps a connection to us has no
    /// ready holder. One that pauses has.
    pub(super) disconnected_since: Option<Moment>,
}
