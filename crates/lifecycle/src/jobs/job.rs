//! A job that was claimed: where it is, and what is known of it.

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
    /// On whose behalf it was claimed.
    pub worker: WorkerId,
    /// When the backend gave it to us.
    pub claimed_at: Moment,
    /// Until when a heartbeat last extended its reservation.
    pub extended_until: Option<Moment>,
    /// Where it is.
    pub place: Place,
    /// The reservation is no longer ours: no heartbeat names it, and its outcome interests nobody.
    /// Only a worker can have such a job; see `Ledger::lose`.
    pub is_lost: bool,
    /// The same, and its handler has had its time to answer.
    pub is_overdue: bool,
    /// Nothing tells that its holder still has it, so no heartbeat names it; its handler may run
    /// all the same. Only a holder can have such a job; see `Ledger::drop_job`.
    pub is_dropped: bool,
    /// Its process crashed the last time: it waits until it can run alone.
    pub is_suspect: bool,
    /// The suspicion after heartbeats that did not extend the job.
    pub suspicion: Suspicion,
    /// The job came while the outcome of an earlier delivery was on its way, and may have ended
    /// with that one.
    pub again: Option<Box<Again>>,
    /// News for the backend that are not its outcome.
    pub news: News,
    /// The job was given to a worker.
    pub handover: Option<Handover>,
    /// The job was given to a holder that waits for the reply to each outcome. Any other such
    /// holder may report the outcome.
    pub any_may_answer: bool,
}

/// When a worker got a job: for the log and the metrics, nothing is decided by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handover {
    /// When it got the job.
    pub at: Moment,
    /// How long it had the job was told with the first request of the outcome.
    pub is_measured: bool,
}

/// The state of a reservation that a heartbeat did not extend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Suspicion {
    /// The look at the job that is on its way.
    pub look: Option<CallId>,
    /// When the last one was made.
    pub looked_at: Option<Moment>,
    /// The heartbeat that led to it extended another job: the backend has its store.
    pub is_backed: bool,
    /// When the backend first said that it knows no such job, and has not said otherwise since.
    pub missing_since: Option<Moment>,
}

/// The open question about a delivery, before anything is done with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Again {
    /// The reservation that came before it and has ended: known from then on.
    pub before: Reservation,
    /// How far it is.
    pub step: LookStep,
    /// Looks that failed.
    pub setbacks: RetryState,
    /// When the first one was made.
    pub since: Option<Moment>,
}

/// How far a look at such a delivery is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum LookStep {
    /// The outcome before it is still on its way.
    #[default]
    Behind,
    /// To be made as soon as there is room.
    Due,
    /// On its way.
    Looking(CallId),
    /// To be made again after a pause.
    Pausing,
}

/// Where a job is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// In our buffer.
    Waiting,
    /// With a worker.
    Held(Held),
    /// Decided; the backend has to be told.
    Reporting(Box<Report>),
}

/// A job that a worker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Held {
    /// Which holder has it.
    pub holder: HolderId,
    /// The request for jobs that it was the answer to; none where it was given unasked.
    pub pull: Option<PullId>,
    /// Why it was told to stop working on it, at first.
    pub cancelled: Option<CancelReason>,
    /// The stop phase has told it so.
    pub is_told_of_shutdown: bool,
    /// The job's timeout is over, and nothing is made of that.
    pub is_past_its_time: bool,
    /// The heartbeats about the job, if they alone show that the worker has it.
    pub beats: BeatRecord,
}

/// The heartbeats of the worker about a job that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BeatRecord {
    /// When a heartbeat last named it; at first, when it was given out or adopted.
    pub named_at: Moment,
    /// Heartbeats since then that said of its holder that it has no job.
    pub beats_without: u8,
    /// The job was dropped, came again and was adopted, and no heartbeat has named it since.
    pub was_adopted: bool,
}

impl BeatRecord {
    /// Named at this moment.
    #[must_use]
    pub fn named_at(now: Moment) -> Self {
        Self {
            named_at: now,
            beats_without: 0,
            was_adopted: false,
        }
    }
}

/// An outcome on its way to the backend.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Report {
    /// The outcome.
    pub what: Outcome,
    /// In the form of the bare schema: the backend refused the full one (requirements C-05, C-24).
    pub is_bare: bool,
    /// How far it is.
    pub step: ReportStage,
    /// Failed attempts to deliver it.
    pub setbacks: RetryState,
    /// The holder that is told when the backend has the outcome.
    pub listener: Option<HolderId>,
    /// The job goes straight back: it was never meant for a worker and does not count as active.
    pub is_surplus: bool,
    /// Whether it is held before it goes out for the first time.
    pub hold: Hold,
    /// Requests of this outcome that went out, less those that certainly never got there.
    pub sent: u32,
    /// The question of the next look.
    pub question: Question,
    /// The backend said that there is no such job.
    pub missing: Option<Missing>,
    /// The backend has refused a result of this job. From this moment on, a refused ACK goes out
    /// without its result.
    pub other_answer_until: Option<Moment>,
}

/// The question of a look at a job before its outcome is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Question {
    /// Was a FAIL or a requeue carried out that had no answer?
    Done,
    /// Is the job completed? An ACK was answered with a conflict that does not say it.
    Completed,
    /// Does the backend get at the job at all? It answers each ACK with an error, perhaps because
    /// of the result.
    ResultTaken,
}

/// A job that the backend does not find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Missing {
    /// The first time that it said so.
    pub since: Moment,
    /// From then on it is believed: the reservation is over, as it stood at that time.
    pub until: Moment,
    /// Requests from this moment on reached a store that had shown itself since the first time.
    pub asked_again: Option<Moment>,
}

/// Progress and checkpoints: at most one of each is on its way and one waits, the newest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct News {
    /// To be sent.
    pub progress: Option<Progress>,
    /// The newest, sent or not, for operators; without its data, and with a bounded message.
    pub last_progress: Option<Box<Progress>>,
    /// Sent.
    pub progress_call: Option<CallId>,
    /// To be sent.
    pub checkpoint: Option<Text>,
    /// Sent, with its text in case it has to be repeated.
    pub checkpoint_call: Option<(CallId, Text)>,
    /// Failed attempts to save the checkpoint.
    pub checkpoint_failures: u32,
    /// Checkpoints in a row whose attempts failed, and whose place a newer one took.
    pub checkpoints_replaced: u32,
}

/// Whether a job that goes back is held first, see `brake`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hold {
    /// The job is not held, or its hold in its place is over.
    No,
    /// The job is held, and counts against the concurrency as before.
    InItsPlace,
    /// The job is held, and takes no place of another job until it has gone back.
    Beside,
    /// The hold is over. The job takes no place until the backend has the requeue.
    WasBeside,
}

impl Report {
    /// Whether it waits for the end of its hold.
    #[must_use]
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

    /// A request of it goes out.
    pub fn goes_out(&mut self) {
        self.sent = self.sent.saturating_add(1);
    }

    /// One of them certainly never got there.
    pub fn did_not_get_there(&mut self) {
        self.sent = self.sent.saturating_sub(1);
    }
}

impl Job {
    /// Name, type and queue of the job.
    #[must_use]
    pub fn subject(&self) -> Arc<Subject> {
        Arc::clone(&self.delivery.subject)
    }

    /// The name that the backend gave it.
    #[must_use]
    pub fn id(&self) -> &JobId {
        &self.delivery.subject.id
    }

    /// Since a worker got it.
    #[must_use]
    pub fn worked_for(&self, now: Moment) -> Option<Duration> {
        self.handover.map(|handover| handover.at.elapsed(now))
    }

    /// Whether anybody may go on with it from its checkpoint: not where it is done, nor where it is
    /// somebody else's by now.
    #[must_use]
    pub fn needs_its_checkpoint(&self) -> bool {
        let is_done = matches!(&self.place, Place::Reporting(report) if report.what.is_ack());
        !is_done && !self.is_lost
    }

    /// The holder of the job.
    #[must_use]
    pub fn holder(&self) -> Option<HolderId> {
        match &self.place {
            Place::Held(held) => Some(held.holder),
            Place::Waiting | Place::Reporting(_) => None,
        }
    }

    /// The request for jobs that it was given to, where a holder has it.
    #[must_use]
    pub fn pull(&self) -> Option<PullId> {
        match &self.place {
            Place::Held(held) => held.pull,
            Place::Waiting | Place::Reporting(_) => None,
        }
    }

    /// Whether it goes back and waits for the end of its hold.
    #[must_use]
    pub fn is_held_back(&self) -> bool {
        self.report().is_some_and(Report::is_held)
    }

    /// The same, and it takes no place of another job.
    #[must_use]
    pub fn is_held_beside(&self) -> bool {
        self.is_held_back() && self.report().is_some_and(|report| report.hold == Hold::Beside)
    }

    /// Its outcome, where that waits for the backend.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        match &self.place {
            Place::Reporting(report) => Some(report),
            Place::Waiting | Place::Held(_) => None,
        }
    }

    /// Whether its outcome waits for the backend.
    #[must_use]
    pub fn is_reporting(&self) -> bool {
        match &self.place {
            Place::Reporting(_) => true,
            Place::Waiting | Place::Held(_) => false,
        }
    }

    /// Whether a heartbeat shall extend its reservation. A FAIL or requeue that may have been
    /// carried out is left out: the job may already run elsewhere, and nobody checks whose
    /// reservation a heartbeat extends.
    #[must_use]
    pub fn is_kept_reserved(&self) -> bool {
        let is_doubtful = match &self.place {
            Place::Waiting | Place::Held(_) => false,
            Place::Reporting(report) => match report.what {
                Outcome::Acked { .. } => false,
                Outcome::Failed { .. } | Outcome::Requeued { .. } => match report.step {
                    ReportStage::Due | ReportStage::Pausing | ReportStage::ResultRefused => false,
                    ReportStage::Sent(..) | ReportStage::Doubtful | ReportStage::Looking(..) => true,
                },
            },
        };
        !self.is_lost && !self.is_dropped && !is_doubtful
    }

    /// Why it must not be requeued, if so: that would discard it, or could with a backend that does
    /// such a thing.
    #[must_use]
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
