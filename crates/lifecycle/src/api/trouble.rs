//! Trouble with the backend: for the log, the status and the probes.

use std::time::Duration;

use crate::api::call::Failure;

/// The backend refuses or does not answer requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Trouble {
    /// How the last of these requests failed.
    pub failure: Failure,
    /// Number of failed requests of an outage. Zero without an outage: requests are only refused.
    pub failed: u32,
    /// Time since the first of them.
    pub lasted: Duration,
    /// Outcomes that wait for the backend.
    pub waiting: usize,
    /// Time until the backend may give the first of the worker's jobs to another worker. The last
    /// accepted heartbeat and the FETCH set it. None: no job is reserved.
    pub lapses_in: Option<Duration>,
    /// The backend has never accepted a heartbeat since the start of ojs-init.
    pub is_from_the_start: bool,
}
