//! The memory of outages of the backend.

use crate::api::{Failure, Moment};

/// The memory of outages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Outages {
    pub(super) now: Option<Present>,
    /// Registrations and heartbeats that fail, in whatever way.
    pub(super) greetings: Option<Failing>,
    /// A heartbeat was accepted since the start.
    pub(super) was_ever_accepted: bool,
    /// Before this moment no other beginning is told: a network that comes and goes is told once a
    /// minute.
    pub(super) tells_again_at: Option<Moment>,
    /// Requests that failed in outages that nobody was told of.
    pub(super) untold: u32,
    /// When the last heartbeat that was accepted went out, and until when the jobs that it named
    /// are reserved.
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
    /// Since when.
    pub(super) since: Moment,
    /// How the last one failed.
    pub(super) failure: Failure,
}
