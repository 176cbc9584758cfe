//! Which of the ledger's lists a job belongs to. It follows from the job alone, so that the lists
//! can be checked.

use std::sync::Arc;

use crate::api::ids::HolderId;
use crate::api::{Outcome, Subject};
use crate::jobs::job::{Hold, Job, LookStep, Place};
use crate::jobs::stages::ReportStage;

/// The lists of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marks {
    /// The holder of the job.
    pub(super) holder: Option<HolderId>,
    /// The job waits in our buffer.
    pub(super) is_waiting: bool,
    /// Type and queue, which name the lines in which the job waits. None while it is to be looked
    /// at first, or waits until it can run alone.
    pub(super) line: Option<Arc<Subject>>,
    /// Its outcome can be sent, and is no requeue.
    pub(super) is_due: bool,
    /// Its requeue can be sent.
    pub(super) is_due_requeue: bool,
    /// Its outcome could be sent but for a checkpoint that is on its way.
    pub(super) awaits_checkpoint: bool,
    /// The job can be looked at before anything is done with it.
    pub(super) is_to_look: bool,
    /// The job waits until it can run alone.
    pub(super) is_suspect: bool,
    /// Its reservation is not ours any more.
    pub(super) is_lost: bool,
    /// The same, and its handler has had its time to answer.
    pub(super) is_overdue: bool,
    /// Nothing tells that its holder still has it.
    pub(super) is_dropped: bool,
    /// The job goes straight back.
    pub(super) is_surplus: bool,
    /// The job is or was held before it goes back, and takes no place.
    pub(super) is_beside: bool,
}

impl Marks {
    pub(super) fn of(job: &Job) -> Self {
        let is_waiting = job.place == Place::Waiting;
        let is_startable = is_waiting && job.again.is_none();
        let report = job.report();
        // As long as an earlier outcome of the same job is on its way, a second one could only undo
        // it.
        let is_sendable = report.is_some_and(|report| report.step == ReportStage::Due) && job.again.is_none();
        let is_requeue = report.is_some_and(|report| matches!(report.what, Outcome::Requeued { .. }));
        // A checkpoint is for the next attempt: that must not begin before it is saved. After an
        // ACK there is none.
        let awaits_checkpoint =
            report.is_some_and(|report| !report.what.is_ack()) && job.news.checkpoint_call.is_some();
        Self {
            holder: job.holder(),
            is_waiting,
            line: (is_startable && !job.is_suspect).then(|| job.subject()),
            is_due: is_sendable && !awaits_checkpoint && !is_requeue,
            is_due_requeue: is_sendable && !awaits_checkpoint && is_requeue,
            awaits_checkpoint: is_sendable && awaits_checkpoint,
            is_to_look: job.again.as_ref().is_some_and(|again| again.step == LookStep::Due),
            is_suspect: is_startable && job.is_suspect,
            is_lost: job.is_lost,
            is_overdue: job.is_overdue,
            is_dropped: job.is_dropped,
            is_surplus: report.is_some_and(|report| report.is_surplus),
            is_beside: report.is_some_and(|report| matches!(report.hold, Hold::Beside | Hold::WasBeside)),
        }
    }
}
