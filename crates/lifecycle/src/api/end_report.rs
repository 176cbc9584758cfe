//! The account of an end: who began it, how it went, and the outcomes of the jobs from then on.

use std::time::Duration;

use crate::api::tally::ShutdownCounts;
use crate::api::trouble::Trouble;
use crate::api::words::Reason;
use crate::api::worker_end::WorkerEnd;

/// The facts of the termination log. `wire::termination_log` has its text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EndReport {
    /// The cause of the end.
    pub cause: EndedBy,
    /// How the last worker ended, once it has.
    pub worker: Option<WorkerEnd>,
    /// How long that one had run by then.
    pub ran: Option<Duration>,
    /// Since the end began.
    pub took: Duration,
    /// How it ended; none while the stop phase begins.
    pub status: Option<u8>,
    /// A signal ended it at once: the exit status says which.
    pub is_abandoned: bool,
    /// Finished jobs whose ACK the backend never took.
    pub unreported: usize,
    /// How many jobs are cut off; as the stop phase begins, how many are about to be.
    pub cut_off: usize,
    /// Why the backend does not work, if so.
    pub backend: Option<Trouble>,
    /// The rest, with the names of the jobs that are cut off.
    pub tally: ShutdownCounts,
}

impl EndReport {
    /// Whether somebody did not want to wait for the end of the drain.
    #[must_use]
    pub fn is_forced(&self) -> bool {
        self.tally.stop.is_some_and(|(_, is_forced)| is_forced)
    }
}

/// Causes of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndedBy {
    /// Somebody asked for it.
    Asked(Reason),
    /// The worker ended by itself, and is not started again.
    WorkerEnded,
    /// We ended the worker, and do not start it again.
    WorkerWasEnded,
    /// The worker could not be started, which is this exit status.
    NotStarted(u8),
    /// A signal that ends at once, out of normal operation.
    AtOnce,
}

/// Most names of jobs that are left to their visibility timeout: more than the text has room for.
pub const MOST_LEFT_NAMES: usize = 512;
