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
    /// The jobs of this holder.
    HeldBy(HolderId),
    /// The jobs of this holder that are lost, and whose handlers have had their time to answer.
    OverdueOf(HolderId),
    /// A holder has the job.
    Held,
    /// A holder has the job, and the job is overdue.
    Overdue,
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
    /// The job waits in ojs-init's buffer.
    pub(super) is_waiting: bool,
    /// Type and queue, which name the lines in which the job waits. None if the job needs a look
    /// first, or waits until it can run alone.
    pub(super) line: Option<Arc<Subject>>,
    /// The lists that the job is in.
    lists: [Option<List>; 13],
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
        let (holder, overdue) = (job.holder(), job.holder().filter(|_| job.is_overdue));
        let is_in = |list, is_in: bool| is_in.then_some(list);
        Self {
            is_waiting,
            line: (is_startable && !job.is_suspect).then(|| job.subject()),
            lists: [
                holder.map(List::HeldBy),
                overdue.map(List::OverdueOf),
                is_in(List::Held, holder.is_some()),
                is_in(List::Overdue, overdue.is_some()),
                is_in(List::Due, is_sendable && !awaits_checkpoint && !is_requeue),
                is_in(List::DueRequeue, is_sendable && !awaits_checkpoint && is_requeue),
                is_in(List::AwaitsCheckpoint, is_sendable && awaits_checkpoint),
                is_in(List::ToLook, is_to_look),
                is_in(List::Suspect, is_startable && job.is_suspect),
                is_in(List::Lost, job.is_lost),
                is_in(List::Dropped, job.is_dropped),
                is_in(List::Surplus, report.is_some_and(|report| report.is_surplus)),
                is_in(List::Beside, is_beside),
            ],
        }
    }

    /// The lists that the job is in.
    pub(super) fn lists(&self) -> impl Iterator<Item = List> {
        self.lists.into_iter().flatten()
    }
}
