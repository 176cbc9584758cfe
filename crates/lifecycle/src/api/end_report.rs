//! The report about an end: its cause, its course, and the outcomes of the jobs from then on.

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
    /// How long the last worker had run.
    pub ran: Option<Duration>,
    /// Time since the end began.
    pub took: Duration,
    /// The exit status; none while the stop phase begins.
    pub status: Option<u8>,
    /// A signal ended ojs-init at once. The exit status shows which.
    pub is_abandoned: bool,
    /// Finished jobs whose ACK the backend never accepted.
    pub unreported: usize,
    /// How many jobs were cut off. In a report at the start of the stop phase: how many are about
    /// to be.
    pub cut_off: usize,
    /// Why the backend does not work, if so.
    pub backend: Option<Trouble>,
    /// Further counts, with the names of the jobs that were cut off.
    pub tally: ShutdownCounts,
}

impl EndReport {
    /// Whether the stop phase was forced before the end of the drain.
    pub fn is_forced(&self) -> bool {
        self.tally.stop.is_some_and(|(_, is_forced)| is_forced)
    }
}

/// Causes of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndedBy {
    /// A signal, the operator, the backend or the configuration asked for the end.
    Asked(Reason),
    /// The worker ended by itself, and is not started again.
    WorkerEnded,
    /// ojs-init ended the worker and does not start it again.
    WorkerWasEnded,
    /// The worker could not be started; this is the exit status.
    NotStarted(u8),
    /// A signal that ends ojs-init at once, during normal operation.
    AtOnce,
}

/// Most names of jobs that are left to their visibility timeout. The text has no room for more.
pub const MOST_LEFT_NAMES: usize = 512;
