//! The ledger's lists to which a job belongs. They follow from the job alone, so `check` can
//! compare them.

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
    /// The job waits in ojs-init's buffer.
    pub(super) is_waiting: bool,
    /// Type and queue, which name the lines in which the job waits. None if the job needs a look
    /// first, or waits until it can run alone.
    pub(super) line: Option<Arc<Subject>>,
    /// Its outcome can be sent, and is no requeue.
    pub(super) is_due: bool,
    /// Its requeue can be sent.
    pub(super) is_due_requeue: bool,
    /// Only a checkpoint in flight keeps the job's outcome from being sent.
    pub(super) awaits_checkpoint: bool,
    /// The job's look is due before the job is started or given back.
    pub(super) is_to_look: bool,
    /// The job waits until it can run alone.
    pub(super) is_suspect: bool,
    /// The reservation of the job is lost.
    pub(super) is_lost: bool,
    /// The job is lost, and its handler has had its time to answer.
    pub(super) is_overdue: bool,
    /// Nothing shows that the job's holder still has it.
    pub(super) is_dropped: bool,
    /// The job is given back at once.
    pub(super) is_surplus: bool,
    /// The job is or was held before it is given back, and occupies no place.
    pub(super) is_beside: bool,
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
