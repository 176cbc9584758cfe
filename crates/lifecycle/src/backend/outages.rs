//! The memory of outages of the backend.

use crate::api::{Failure, Moment};

/// The memory of outages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Outages {
    pub(super) now: Option<Present>,
    /// Registrations and heartbeats that fail for any reason.
    pub(super) greetings: Option<Failing>,
    /// A heartbeat was accepted since the start.
    pub(super) was_ever_accepted: bool,
    /// No new outage is logged before this moment, so an unstable network is logged once a minute.
    pub(super) tells_again_at: Option<Moment>,
    /// Failed requests of outages that were not logged.
    pub(super) untold: u32,
    /// When the last accepted heartbeat was sent, and until when the jobs that it named are
    /// reserved.
    pub(super) secured: Option<(Moment, Moment)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Present {
    pub(super) since: Moment,
    pub(super) failure: Failure,
    pub(super) failed: u32,
    pub(super) is_told: bool,
}

/// Requests that fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Failing {
    pub(super) since: Moment,
    pub(super) failure: Failure,
}
