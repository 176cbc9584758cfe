//! An outage of the backend, as a person is told of it.

use std::time::Duration;

use crate::api::call::Failure;

/// An outage, as a person is told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Outage {
    /// Since its first failed request.
    pub lasted: Duration,
    /// How the last request failed.
    pub failure: Failure,
    /// Requests that failed.
    pub failed: u32,
    /// Outcomes that wait for the backend.
    pub waiting: usize,
    /// Until the first of the jobs that we have may be given to others, as far as the last
    /// heartbeat that was accepted and the FETCH secured it. None: we have none.
    pub lapses_in: Option<Duration>,
}
