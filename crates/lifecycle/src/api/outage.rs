//! An outage of the backend, for a log line.

use std::time::Duration;

use crate::api::call::Failure;

/// An outage of the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Outage {
    /// Time since the first failed request.
    pub lasted: Duration,
    /// How the last request failed.
    pub failure: Failure,
    /// Number of failed requests.
    pub failed: u32,
    /// Outcomes that wait for the backend.
    pub waiting: usize,
    /// Time until the backend may give the first of the worker's jobs to another worker. The last
    /// accepted heartbeat and the FETCH set it. None: the worker has no jobs.
    pub lapses_in: Option<Duration>,
}
