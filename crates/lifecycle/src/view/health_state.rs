//! The memory behind the replies to probes.

use crate::api::Moment;

/// Facts that only the replies to probes need.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct HealthState {
    /// Since when, in the phase running, a worker that has been ready and uses connections has no
    /// ready holder. A holder that pauses counts as ready.
    pub(super) disconnected_since: Option<Moment>,
}
