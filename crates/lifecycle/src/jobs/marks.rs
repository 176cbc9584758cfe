//! The ledger's lists to which a job belongs. They follow from the job alone, so `check` can
//! compare them.

use std::sync::Arc;

use crate::api::ids::HolderId;
use crate::api::{Outcome, Subject};
use crate::jobs::job::{Hold, Job, LookStep, Place};
use crate::jobs::stages::ReportStage;

/// A list of claims in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum List {
    /// The job's outcome can be sent, and is no requeue.
    Due,
    /// The job's requeue can be sent.
    DueRequeue,
    /// Only a checkpoint in flight keeps the job's outcome from being sent.
    AwaitsCheckpoint,
    /// The job's look is due before the job is started or given back.
    ToLook,
    /// The job waits until it can run alone.
    Suspect,
    /// The reservation of the job is lost.
    Lost,
    /// Nothing shows that the job's holder still has it.
    Dropped,
    /// The job is given back at once.
    Surplus,
    /// The job is or was held before it is given back, and occupies no place.
    Beside,
}

/// The membership of one job in the ledger's lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marks {
    /// The holder of the job.
    pub(super) holder: Option<HolderId>,
    /// The job waits in ojs-init's buffer.
    pub(super) is_waiting: bool,
    /// Type and queue, which name the lines in which the job waits. None if the job needs a look
    /// first, or waits until it can run alone.
    pub(super) line: Option<Arc<Subject>>,
    /// The job is lost, and its handler has had its time to answer.
    pub(super) is_overdue: bool,
    /// Each list, and whether the job is in it.
    lists: [(List, bool); 9],
}

impl Marks {
    pub(super) fn of(job: &Job) -> Self {
        let is_waiting = job.place == Place::Waiting;
        let is_startable = is_waiting && job.again.is_none();
        let report = job.report();
        // As long as an earlier outcome of the job is in flight, a second one could only undo it.
        let is_sendable = report.is_some_and(|report| report.step == ReportStage::Due) && job.again.is_none();
        let is_requeue = report.is_some_and(|report| matches!(report.what, Outcome::Requeued { .. }));
        // The next attempt must not begin before its checkpoint is saved. After an ACK there is no
        // next attempt.
        let awaits_checkpoint =
            report.is_some_and(|report| !report.what.is_ack()) && job.news.checkpoint_call.is_some();
        let is_to_look = job.again.as_ref().is_some_and(|again| again.step == LookStep::Due);
        let is_beside = report.is_some_and(|report| matches!(report.hold, Hold::Beside | Hold::WasBeside));
        Self {
            holder: job.holder(),
            is_waiting,
            line: (is_startable && !job.is_suspect).then(|| job.subject()),
            is_overdue: job.is_overdue,
            lists: [
                (List::Due, is_sendable && !awaits_checkpoint && !is_requeue),
                (List::DueRequeue, is_sendable && !awaits_checkpoint && is_requeue),
                (List::AwaitsCheckpoint, is_sendable && awaits_checkpoint),
                (List::ToLook, is_to_look),
                (List::Suspect, is_startable && job.is_suspect),
                (List::Lost, job.is_lost),
                (List::Dropped, job.is_dropped),
                (List::Surplus, report.is_some_and(|report| report.is_surplus)),
                (List::Beside, is_beside),
            ],
        }
    }

    /// The lists that the job is in.
    pub(super) fn lists(&self) -> impl Iterator<Item = List> {
        let lists = self.lists.iter();
        lists.filter_map(|(list, is_in)| is_in.then_some(*list))
    }
}
