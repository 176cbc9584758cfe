//! Counts from the beginning of an end on.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::api::end_cause::EndCause;
use crate::api::ids::{JobId, Text};
use crate::api::outcome::Outcome;

/// Counts from the beginning of the end. If the end followed from a process that ojs-init ended,
/// the counts begin with that.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ShutdownCounts {
    /// Jobs whose ACK the backend has.
    pub done: usize,
    /// Jobs whose FAIL it has, without those that were cut off.
    pub failed: usize,
    /// Jobs that were given back, without those that were cut off.
    pub handed_back: usize,
    /// Jobs that were cut off and whose FAIL it has.
    pub cut_off_failed: usize,
    /// Jobs that were cut off and given back.
    pub cut_off_handed_back: usize,
    /// Jobs that the backend heard nothing more of, whatever they were: they wait for their
    /// visibility timeout.
    pub left: usize,
    /// A FETCH was given up: the same is true for what it claimed.
    pub is_fetch_abandoned: bool,
    /// When the stop phase began, after so much time, and whether somebody forced it.
    pub stop: Option<(Duration, bool)>,
    /// Names of the jobs that were cut off, with their types. One that was delivered twice has one.
    pub names: BTreeMap<JobId, Text>,
    /// Names and types of the jobs in `left`, of at most
    /// [`MOST_LEFT_NAMES`](crate::api::MOST_LEFT_NAMES) of them.
    pub left_names: BTreeMap<JobId, Text>,
    /// Jobs that failed because their process went away while it held them.
    pub died: usize,
    /// Names and types of at most [`MOST_LEFT_NAMES`](crate::api::MOST_LEFT_NAMES) of them.
    pub died_names: BTreeMap<JobId, Text>,
    /// The worker is not started again because it ended too often.
    pub has_ended_too_often: bool,
    /// Why we ended a process of the worker, the last one that we ended.
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
