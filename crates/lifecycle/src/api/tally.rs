//! Counts since the beginning of an end.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::api::end_cause::EndCause;
use crate::api::ids::{JobId, Text};
use crate::api::outcome::Outcome;

/// Counts since the beginning of the end. If ojs-init ended a process and the end followed from
/// that, the counts begin when ojs-init decides to end the process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ShutdownCounts {
    /// Jobs whose ACK the backend accepted.
    pub done: usize,
    /// Jobs whose FAIL the backend accepted, without those that were cut off.
    pub failed: usize,
    /// Jobs that were given back, without those that were cut off.
    pub handed_back: usize,
    /// Jobs that were cut off and whose FAIL the backend accepted.
    pub cut_off_failed: usize,
    /// Jobs that were cut off and given back.
    pub cut_off_handed_back: usize,
    /// Jobs without an accepted report, as far as ojs-init knows. They wait for their visibility
    /// timeout, unless a report without an answer was carried out.
    pub left: usize,
    /// A FETCH was given up. Jobs that it claimed wait for their visibility timeout as well.
    pub is_fetch_abandoned: bool,
    /// Time until the stop phase began, and whether a request forced it.
    pub stop: Option<(Duration, bool)>,
    /// Names of the jobs that were cut off, with their types. A job that was delivered twice has
    /// one entry.
    pub names: BTreeMap<JobId, Text>,
    /// Names and types of the jobs in `left`, at most
    /// [`MOST_LEFT_NAMES`](crate::api::MOST_LEFT_NAMES).
    pub left_names: BTreeMap<JobId, Text>,
    /// Jobs that failed because their process ended while it held them.
    pub died: usize,
    /// Names and types of the jobs in `died`, at most
    /// [`MOST_LEFT_NAMES`](crate::api::MOST_LEFT_NAMES).
    pub died_names: BTreeMap<JobId, Text>,
    /// ojs-init does not restart the worker because it ended too often.
    pub has_ended_too_often: bool,
    /// Why ojs-init last ended a process of the worker.
    pub ended_for: Option<EndCause>,
}

impl ShutdownCounts {
    pub(crate) fn settled(&mut self, job: &JobId, outcome: &Outcome) {
        match outcome {
            Outcome::Acked { .. } => self.done += 1,
            Outcome::Failed { .. } if self.names.contains_key(job) => self.cut_off_failed += 1,
            Outcome::Requeued { .. } if self.names.contains_key(job) => self.cut_off_handed_back += 1,
            Outcome::Failed { .. } => self.failed += 1,
            Outcome::Requeued { .. } => self.handed_back += 1,
        }
    }
}
