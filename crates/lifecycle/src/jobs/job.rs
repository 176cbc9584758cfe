//! A claimed job: its place and its state.

use std::sync::Arc;
use std::time::Duration;

use crate::api::ids::{CallId, HolderId, JobId, PullId, Text, WorkerId};
use crate::api::{BackendTraits, CancelReason, Delivery, Moment, Outcome, Progress, Reservation, Subject};
use crate::jobs::stages::ReportStage;
use crate::retry::state::RetryState;

/// One claimed job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Job {
    /// The delivery. The envelope is empty once a worker has the job.
    pub delivery: Delivery,
    /// The incarnation for which the job was claimed.
    pub worker: WorkerId,
    /// When the backend delivered the job.
    pub claimed_at: Moment,
    /// The visibility timeout with which the backend delivered the job.
    pub granted: Duration,
    /// Until when the job is reserved, as far as ojs-init knows. It counts from the moment at which
    /// the FETCH or the last heartbeat was sent, because the answer may have waited.
    pub reserved_until: Moment,
    /// The stage of the job between its claim and its end.
    pub place: Place,
    /// The reservation has ended, or another worker has it. No heartbeat names the job, and its
    /// outcome is not sent. Only a worker can have a lost job; see `Ledger::lose`.
    pub is_lost: bool,
    /// The job is lost, and its handler has had its time to answer.
    pub is_overdue: bool,
    /// Nothing shows that the holder still has the job, so no heartbeat names it. Its handler may
    /// still run. Only a holder can have a dropped job; see `Ledger::drop_job`.
    pub is_dropped: bool,
    /// The process of the job crashed the last time, so the job waits until it can run alone.
    pub is_suspect: bool,
    /// The suspicion after heartbeats that did not extend the job.
    pub suspicion: Suspicion,
    /// Set if the job was delivered while the outcome of an earlier delivery was in flight. That
    /// outcome may have ended this delivery as well.
    pub again: Option<Box<Again>>,
    /// News for the backend that are not its outcome.
    pub news: News,
    /// The job was given to a worker.
    pub handover: Option<Handover>,
    /// The job was given to a holder that waits for the reply to each outcome. Any other holder of
    /// that kind may report the outcome.
    pub any_may_answer: bool,
}

/// The reservation with which the backend delivered a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The visibility timeout.
    pub lasts: Duration,
    /// The end, as far as ojs-init knows.
    pub until: Moment,
}

/// The hand-over of a job to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handover {
    /// When the worker got the job; for the log and the metrics.
    pub at: Moment,
    /// Bytes of the envelope without its checkpoint.
    pub envelope_bytes: usize,
    /// The first request of the outcome has reported how long the worker had the job.
    pub is_measured: bool,
}

/// The state of a reservation that a heartbeat did not extend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Suspicion {
    /// The reservation may have ended: a heartbeat did not extend it, or came too late. A later
    /// heartbeat proves nothing, because it may have extended the reservation of another worker.
    /// Only a look does.
    pub may_have_lapsed: bool,
    /// The request of the look in flight.
    pub look: Option<CallId>,
    /// When the last one was made.
    pub looked_at: Option<Moment>,
    /// The heartbeat that led to the suspicion extended another job, so the backend has its store.
    pub is_backed: bool,
    /// When the backend first replied that the job does not exist, if no reply since has denied
    /// that.
    pub missing_since: Option<Moment>,
}

/// The open question about a delivery, before the job is started or given back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Again {
    /// The ended reservation of the earlier delivery, set once that delivery is settled.
    pub before: Reservation,
    /// The step of the look.
    pub step: LookStep,
    /// Looks that failed.
    pub setbacks: RetryState,
    /// When the first one was made.
    pub since: Option<Moment>,
}

/// The steps of a look at a repeated delivery.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum LookStep {
    /// The outcome of the earlier delivery is still in flight.
    #[default]
    Behind,
    /// The look is sent as soon as there is room.
    Due,
    /// The look is in flight.
    Looking(CallId),
    /// To be made again after a pause.
    Pausing,
}

/// Where a job is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// In ojs-init's buffer.
    Waiting,
    /// A holder has the job.
    Held(Held),
    /// Decided, and the backend has not confirmed the outcome yet.
    Reporting(Box<Report>),
}

/// A job that a worker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Held {
    /// The holder that has the job.
    pub holder: HolderId,
    /// The request for jobs that the job answered. None if the job was given without a request.
    pub pull: Option<PullId>,
    /// The first reason for which the job was cancelled.
    pub cancelled: Option<CancelReason>,
    /// The shutdown has cancelled the job, so it gets no further cancel.
    pub is_told_of_shutdown: bool,
    /// The job's timeout has expired, and ojs-init does not enforce it.
    pub is_past_its_time: bool,
    /// The heartbeats about the job, if they alone show that the worker has it.
    pub beats: BeatRecord,
}

/// The heartbeats of the worker about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BeatRecord {
    /// When a heartbeat last named the job; at first, when the job was given out or adopted.
    pub named_at: Moment,
    /// Heartbeats since then with which its holder reported that it has no job.
    pub beats_without: u8,
    /// The job was dropped, delivered again and adopted, and no heartbeat has named it since.
    pub was_adopted: bool,
}

impl BeatRecord {
    /// Named at this moment.
    pub fn named_at(now: Moment) -> Self {
        Self {
            named_at: now,
            beats_without: 0,
            was_adopted: false,
        }
    }
}

/// An outcome in flight to the backend.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Report {
    /// The outcome.
    pub what: Outcome,
    /// In the form of the bare schema: the backend refused the full one (requirements C-05, C-24).
    pub is_bare: bool,
    /// The stage of the report.
    pub step: ReportStage,
    /// Failed attempts to deliver the outcome.
    pub setbacks: RetryState,
    /// The holder that gets the reply when the backend has the outcome.
    pub listener: Option<HolderId>,
    /// The job is given back at once. No worker was to get it, and it does not count as active.
    pub is_surplus: bool,
    /// Whether the job is held before its first requeue is sent.
    pub hold: Hold,
    /// Requests of this outcome that were sent, minus those that certainly never reached the
    /// backend.
    pub sent: u32,
    /// The question of the next look.
    pub question: Question,
    /// Since when no look at the job succeeds, if one has failed.
    pub looks_fail_since: Option<Moment>,
    /// A look since the last request showed the job as active, with the reservation of ojs-init. Or
    /// the backend offers no look.
    pub is_seen_ours: bool,
    /// Set if the backend replied that the job does not exist.
    pub missing: Option<Missing>,
    /// The backend has refused a result of this job. From this moment on, a refused ACK is
    /// sent without its result.
    pub other_answer_until: Option<Moment>,
}

/// The question of a look at a job before its outcome is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Question {
    /// Whether a FAIL or a requeue that got no answer was carried out.
    Done,
    /// Whether the reservation still belongs to ojs-init, before a FAIL or a requeue that the
    /// backend cannot have is sent.
    StillOurs,
    /// Whether the job is completed, because an ACK got a conflict without the job's state.
    Completed,
    /// Whether the backend can read the job at all. The backend answers each ACK with an error,
    /// perhaps because of the result.
    ResultTaken,
}

/// A job that the backend does not find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Missing {
    /// When the backend first replied that the job does not exist.
    pub since: Moment,
    /// From this moment on ojs-init believes the reply: the reservation known at `since` has
    /// expired, or `MISSING_FOR_GOOD` has passed.
    pub until: Moment,
    /// Requests from this moment on reached a store that had shown itself since the first time.
    pub asked_again: Option<Moment>,
}

/// Progress and checkpoints: at most one of each is in flight, and the newest one waits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct News {
    /// To be sent.
    pub progress: Option<Progress>,
    /// The newest with its time, sent or not, for operators; without its data, and with a bounded
    /// message.
    pub last_progress: Option<Box<(Progress, Moment)>>,
    /// Sent.
    pub progress_call: Option<CallId>,
    /// To be sent.
    pub checkpoint: Option<Text>,
    /// The request in flight, with its text in case it has to be repeated.
    pub checkpoint_call: Option<(CallId, Text)>,
    /// Failed attempts to save the checkpoint.
    pub checkpoint_failures: u32,
    /// Checkpoints in a row whose attempts failed and that a newer one replaced.
    pub checkpoints_replaced: u32,
}

/// Whether a job that is given back is held first, see `brake`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hold {
    /// The job is not held, or its hold in its place has ended.
    No,
    /// The job is held, and counts against the concurrency as before.
    InItsPlace,
    /// The job is held, and occupies no place of another job until it has been given back.
    Beside,
    /// The hold has ended. The job occupies no place until the backend has the requeue.
    WasBeside,
}

impl Report {
    /// Whether the report waits for the end of its hold.
    pub fn is_held(&self) -> bool {
        let is_held = match self.hold {
            Hold::No | Hold::WasBeside => false,
            Hold::InItsPlace | Hold::Beside => true,
        };
        is_held && self.step == ReportStage::Pausing
    }

    /// Ends the hold, if there is one.
    pub fn end_hold(&mut self) {
        self.hold = match self.hold {
            Hold::No | Hold::InItsPlace => Hold::No,
            Hold::Beside | Hold::WasBeside => Hold::WasBeside,
        };
    }

    /// Counts a request of the outcome that is sent.
    pub fn goes_out(&mut self) {
        self.sent = self.sent.saturating_add(1);
    }

    /// Uncounts a request that certainly never reached the backend.
    pub fn did_not_get_there(&mut self) {
        self.sent = self.sent.saturating_sub(1);
    }
}

impl Job {
    /// Name, type and queue of the job.
    pub fn subject(&self) -> Arc<Subject> {
        Arc::clone(&self.delivery.subject)
    }

    /// The name that the backend gave the job.
    pub fn id(&self) -> &JobId {
        &self.delivery.subject.id
    }

    /// Time since a worker got the job.
    pub fn worked_for(&self, now: Moment) -> Option<Duration> {
        self.handover.map(|handover| handover.at.elapsed(now))
    }

    /// Whether another attempt may continue from the job's checkpoint. False if the job is done or
    /// lost.
    pub fn needs_its_checkpoint(&self) -> bool {
        let is_done = matches!(&self.place, Place::Reporting(report) if report.what.is_ack());
        !is_done && !self.is_lost
    }

    /// The facts about the job that a holder has; none if no holder has it.
    pub fn held(&self) -> Option<&Held> {
        match &self.place {
            Place::Held(held) => Some(held),
            Place::Waiting | Place::Reporting(_) => None,
        }
    }

    /// The holder of the job.
    pub fn holder(&self) -> Option<HolderId> {
        self.held().map(|held| held.holder)
    }

    /// The request for jobs that this job answered, if a holder has the job.
    pub fn pull(&self) -> Option<PullId> {
        self.held()?.pull
    }

    /// Why its handler was told to stop, if it was.
    pub fn cancelled(&self) -> Option<CancelReason> {
        self.held()?.cancelled
    }

    /// Whether the job is given back and waits for the end of its hold.
    pub fn is_held_back(&self) -> bool {
        self.report().is_some_and(Report::is_held)
    }

    /// Whether the job is held back and occupies no place of another job.
    pub fn is_held_beside(&self) -> bool {
        self.is_held_back() && self.report().is_some_and(|report| report.hold == Hold::Beside)
    }

    /// Its outcome, where that waits for the backend.
    pub fn report(&self) -> Option<&Report> {
        match &self.place {
            Place::Reporting(report) => Some(report),
            Place::Waiting | Place::Held(_) => None,
        }
    }

    /// Whether its outcome waits for the backend.
    pub fn is_reporting(&self) -> bool {
        self.report().is_some()
    }

    /// Whether a heartbeat extends the reservation of the job. A FAIL or requeue that may have been
    /// carried out is left out. The job may already run elsewhere, and no backend checks whose
    /// reservation a heartbeat extends.
    pub fn is_kept_reserved(&self) -> bool {
        let may_be_done = |report: &Report| match report.step {
            ReportStage::Due | ReportStage::Pausing | ReportStage::ResultRefused => false,
            ReportStage::Sent(..) => true,
            ReportStage::Doubtful | ReportStage::Looking(..) => report.question != Question::StillOurs,
        };
        let is_doubtful = self
            .report()
            .is_some_and(|report| !report.what.is_ack() && may_be_done(report));
        !self.is_lost && !self.is_dropped && !is_doubtful
    }

    /// Why the job must not be requeued, if so. A requeue would discard the job, or could do so if
    /// the backend discards requeues.
    pub fn why_not_requeue(&self, backend: BackendTraits) -> Option<&'static str> {
        match (self.delivery.reservation.attempt, self.delivery.subject.max_attempts) {
            (Some(attempt), Some(most)) if attempt < most => None,
            (Some(_), Some(_)) => Some("its attempts are used up, and a requeue could discard it"),
            (None, _) | (_, None) if backend.discards_requeues => {
                Some("a requeue could discard it: whether it has an attempt left is not known")
            }
            (None, _) | (_, None) => None,
        }
    }
}
