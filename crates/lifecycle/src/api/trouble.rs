//! Why the backend does not work at the moment, for the status and the metrics.

use std::time::Duration;

use crate::api::call::Failure;

/// The backend refuses or does not answer requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Trouble {
    /// How the last of these requests failed.
    pub failure: Failure,
    /// Time since the first of them.
    pub lasted: Duration,
    /// Outcomes that wait for the backend.
    pub waiting: usize,
    /// Time until the first reservation lapses; none if no job is reserved.
    pub lapses_in: Option<Duration>,
    /// The backend has never accepted a heartbeat since the start of ojs-init.
    pub is_from_the_start: bool,
}
