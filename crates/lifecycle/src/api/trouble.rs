//! Why the backend does not work for us at the moment, for whoever looks at an instrument.

use std::time::Duration;

use crate::api::call::Failure;

/// The backend refuses or does not answer requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Trouble {
    /// How the last of these requests failed.
    pub failure: Failure,
    /// Since the first of them.
    pub lasted: Duration,
    /// Outcomes that wait for the backend.
    pub waiting: usize,
    /// Until the first reservation lapses; none where no job is reserved.
    pub lapses_in: Option<Duration>,
    /// The backend has never accepted a heartbeat since the start of ojs-init.
    pub is_from_the_start: bool,
}
