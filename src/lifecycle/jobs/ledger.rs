//! The ledger: every job that we claimed and whose outcome the backend does not have yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::lifecycle::api::effect::CancelReason;
use crate::lifecycle::api::event::{Delivery, Habits, JobError, Progress, Reservation, Subject};
use crate::lifecycle::api::ids::{CallId, Claim, ConnectionId, JobId, Text, WorkerId};
use crate::lifecycle::api::time::Moment;
use crate::lifecycle::backend::retry_state::Setbacks;

/// One claimed job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Job {
    /// What the backend delivered. The envelope is empty once a worker has it.
    pub delivery: Delivery,
    /// On whose behalf it was claimed.
    pub worker: WorkerId,
    /// When the backend gave it to us.
    pub claimed_at: Moment,
    /// Until when a heartbeat last extended its reservation.
    pub extended_until: Option<Moment>,
    /// Where it is.
    pub place: Place,
    /// The reservation is no longer ours: no heartbeat names it, and its outcome interests nobody. Only a worker can have
    /// such a job; see [`Ledger::lose`].
    pub is_lost: bool,
    /// What heartbeats that did not extend it have led to.
    pub suspicion: Suspicion,
    /// It came while the outcome of an earlier delivery was on its way, and may have ended with that one.
    pub again: Option<Again>,
    /// News for the backend that are not its outcome.
    pub news: News,
}

/// What is known of a reservation that a heartbeat did not extend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Suspicion {
    /// A look at the job is on its way.
    pub is_looked_at: bool,
    /// When the last one was made.
    pub looked_at: Option<Moment>,
    /// The heartbeat that led to it extended another job: the backend has its store.
    pub is_backed: bool,
    /// When the backend first said that it knows no such job, and has not said otherwise since.
    pub missing_since: Option<Moment>,
}

/// What is to be found out about a delivery before anything is done with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Again {
    /// The reservation that came before it and has ended: known from then on.
    pub before: Reservation,
    /// How far it is.
    pub step: LookStep,
    /// Looks that failed.
    pub setbacks: Setbacks,
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
    Reporting(Report),
}

/// A job that a worker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Held {
    /// On which connection.
    pub connection: ConnectionId,
    /// Why it was told to stop working on it, at first.
    pub cancelled: Option<CancelReason>,
    /// The stop phase has told it so.
    pub is_told_of_shutdown: bool,
}

/// An outcome on its way to the backend.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Report {
    /// The outcome.
    pub what: What,
    /// In the form of the bare schema: the backend refused the full one (requirements C-05, C-24).
    pub is_bare: bool,
    /// How far it is.
    pub step: Step,
    /// Failed attempts to deliver it.
    pub setbacks: Setbacks,
    /// Who is told when the backend has it.
    pub connection: Option<ConnectionId>,
    /// The job goes straight back: it was never meant for a worker and does not count as active.
    pub is_surplus: bool,
    /// Requests of this outcome that went out, less those that certainly never got there.
    pub sent: u32,
    /// What the next look is to find out.
    pub question: Question,
    /// The backend said that there is no such job.
    pub missing: Option<Missing>,
}

/// What a look at a job finds out before its outcome is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Question {
    /// Was a FAIL or a requeue carried out that had no answer?
    Done,
    /// Is the job completed? An ACK was answered with a conflict that does not say it.
    Completed,
    /// Does the backend get at the job at all? It answers each ACK with an error, perhaps because of the result.
    ResultTaken,
}

/// A job that the backend does not find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Missing {
    /// The first time that it said so.
    pub since: Moment,
    /// From then on it is believed: the reservation is over, as it stood at that time.
    pub until: Moment,
}

/// An outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum What {
    /// Done.
    Ack {
        /// The result, as JSON.
        result: Option<Text>,
    },
    /// Failed.
    Fail {
        /// How.
        error: JobError,
    },
    /// Given back.
    Requeue {
        /// Why.
        reason: Text,
    },
}

/// How far a report is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// To be sent as soon as there is room.
    Due,
    /// To be sent again after a pause.
    Pausing,
    /// Sent, at this moment.
    Sent(CallId, Moment),
    /// Sent before, and it may have been carried out: to be looked at, after a pause.
    Doubtful,
    /// Looked at, since this moment.
    Looking(CallId, Moment),
    /// The backend does not take the result: the worker has a moment to answer differently.
    ResultRefused,
}

/// Progress and checkpoints: at most one of each is on its way and one waits, the newest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct News {
    /// To be sent.
    pub progress: Option<Progress>,
    /// Sent.
    pub progress_call: Option<CallId>,
    /// To be sent.
    pub checkpoint: Option<Text>,
    /// Sent, with its text in case it has to be repeated.
    pub checkpoint_call: Option<(CallId, Text)>,
    /// Failed attempts to save the checkpoint.
    pub checkpoint_failures: u32,
}

impl Step {
    /// Whether it ends by time alone, with another attempt.
    #[must_use]
    pub fn is_pause(self) -> bool {
        match self {
            Self::Pausing | Self::Doubtful => true,
            Self::Due | Self::Sent(..) | Self::Looking(..) | Self::ResultRefused => false,
        }
    }
}

impl Job {
    /// What it is.
    #[must_use]
    pub fn subject(&self) -> Arc<Subject> {
        Arc::clone(&self.delivery.subject)
    }

    /// The name that the backend gave it.
    #[must_use]
    pub fn id(&self) -> &JobId {
        &self.delivery.subject.id
    }

    /// Who holds it.
    #[must_use]
    pub fn holder(&self) -> Option<ConnectionId> {
        match &self.place {
            Place::Held(held) => Some(held.connection),
            Place::Waiting | Place::Reporting(_) => None,
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

    /// Whether a heartbeat shall extend its reservation. A FAIL or requeue that may have been carried out is left out:
    /// the job may already run elsewhere, and nobody checks whose reservation a heartbeat extends.
    #[must_use]
    pub fn is_kept_reserved(&self) -> bool {
        let is_doubtful = match &self.place {
            Place::Waiting | Place::Held(_) => false,
            Place::Reporting(report) => match report.what {
                What::Ack { .. } => false,
                What::Fail { .. } | What::Requeue { .. } => match report.step {
                    Step::Due | Step::Pausing | Step::ResultRefused => false,
                    Step::Sent(..) | Step::Doubtful | Step::Looking(..) => true,
                },
            },
        };
        !self.is_lost && !is_doubtful
    }

    /// Why it must not be requeued, if so: that would discard it, or could with a backend that does such a thing.
    #[must_use]
    pub fn why_not_requeue(&self, backend: Habits) -> Option<&'static str> {
        match (self.delivery.reservation.attempt, self.delivery.subject.max_attempts) {
            (Some(attempt), Some(most)) if attempt < most => None,
            (Some(_), Some(_)) => Some("a requeue would discard it: its attempts are used up"),
            (None, _) | (_, None) if backend.discards_requeues => {
                Some("a requeue could discard it: whether it has an attempt left is not known")
            }
            (None, _) | (_, None) => None,
        }
    }
}

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Ledger {
    jobs: BTreeMap<Claim, Job>,
    by_id: BTreeSet<(JobId, Claim)>,
    waiting: BTreeSet<Claim>,
    due: BTreeSet<Claim>,
    to_look: BTreeSet<Claim>,
    lost: BTreeSet<Claim>,
    unanswered: BTreeSet<Claim>,
    surplus: usize,
    next: u64,
}

impl Ledger {
    /// Enters a job; it waits, behind an earlier claim on the same job if there is one.
    pub fn add(&mut self, delivery: Delivery, worker: WorkerId, now: Moment) -> Claim {
        self.next += 1;
        let claim = Claim(self.next);
        let is_again = self.claims_of(&delivery.subject.id).next().is_some();
        self.by_id.insert((delivery.subject.id.clone(), claim));
        self.waiting.insert(claim);
        let job = Job {
            delivery,
            worker,
            claimed_at: now,
            extended_until: None,
            place: Place::Waiting,
            is_lost: false,
            suspicion: Suspicion::default(),
            again: is_again.then(Again::default),
            news: News::default(),
        };
        self.jobs.insert(claim, job);
        claim
    }

    /// Moves a job.
    pub fn place(&mut self, claim: Claim, place: Place) {
        let Some(job) = self.jobs.get_mut(&claim) else { return };
        let was_surplus = is_surplus(&job.place);
        let is_due = matches!(&place, Place::Reporting(report) if report.step == Step::Due);
        let is_waiting = place == Place::Waiting;
        let is_surplus = is_surplus(&place);
        job.place = place;
        set(&mut self.due, claim, is_due);
        set(&mut self.waiting, claim, is_waiting);
        self.surplus = self.surplus + usize::from(is_surplus) - usize::from(was_surplus);
    }

    /// Strikes a job out. What waited behind it is to be looked at.
    pub fn remove(&mut self, claim: Claim) -> Option<Job> {
        let job = self.jobs.remove(&claim)?;
        self.by_id.remove(&(job.id().clone(), claim));
        self.waiting.remove(&claim);
        self.due.remove(&claim);
        self.to_look.remove(&claim);
        self.lost.remove(&claim);
        self.unanswered.remove(&claim);
        self.surplus -= usize::from(is_surplus(&job.place));
        let next = self.claims_of(job.id()).next();
        if let Some(next) = next
            && let Some(again) = self.jobs.get_mut(&next).and_then(|next| next.again.as_mut())
            && again.step == LookStep::Behind
        {
            again.before = job.delivery.reservation.clone();
            again.step = LookStep::Due;
            self.to_look.insert(next);
        }
        Some(job)
    }

    /// The reservation of a job that a worker has is somebody else's, or over.
    pub fn lose(&mut self, claim: Claim) {
        if let Some(job) = self.jobs.get_mut(&claim) {
            job.is_lost = true;
            self.lost.insert(claim);
        }
    }

    /// It is ours again: it was delivered once more.
    pub fn regain(&mut self, claim: Claim) {
        self.lost.remove(&claim);
        self.unanswered.remove(&claim);
        if let Some(job) = self.jobs.get_mut(&claim) {
            job.is_lost = false;
        }
    }

    /// The handler of a lost job has had its time to answer.
    pub fn is_overdue(&mut self, claim: Claim) {
        set(&mut self.unanswered, claim, self.lost.contains(&claim));
    }

    /// How many are lost.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.lost.len()
    }

    /// The lost jobs whose handlers have had their time to answer, and have not.
    #[must_use]
    pub fn unanswered(&self) -> &BTreeSet<Claim> {
        &self.unanswered
    }

    /// Sets how far the look at such a delivery is.
    pub fn look_step(&mut self, claim: Claim, step: LookStep) {
        if let Some(again) = self.jobs.get_mut(&claim).and_then(|job| job.again.as_mut()) {
            again.step = step;
            set(&mut self.to_look, claim, step == LookStep::Due);
        }
    }

    /// A delivery like any other from here on.
    pub fn is_by_itself(&mut self, claim: Claim) {
        self.to_look.remove(&claim);
        if let Some(job) = self.jobs.get_mut(&claim) {
            job.again = None;
        }
    }

    /// Every delivery that came while an earlier outcome was on its way.
    pub fn agains(&mut self) -> impl Iterator<Item = (Claim, &mut Again)> {
        self.jobs
            .iter_mut()
            .filter_map(|(claim, job)| Some((*claim, job.again.as_mut()?)))
    }

    /// One job.
    #[must_use]
    pub fn get(&self, claim: Claim) -> Option<&Job> {
        self.jobs.get(&claim)
    }

    /// One job, to change anything but its place.
    pub fn get_mut(&mut self, claim: Claim) -> Option<&mut Job> {
        self.jobs.get_mut(&claim)
    }

    /// How far the report of a job is.
    pub fn report_mut(&mut self, claim: Claim) -> Option<&mut Report> {
        match &mut self.jobs.get_mut(&claim)?.place {
            Place::Reporting(report) => Some(report),
            Place::Waiting | Place::Held(_) => None,
        }
    }

    /// Every report.
    pub fn reports(&mut self) -> impl Iterator<Item = (Claim, &mut Report)> {
        self.jobs.iter_mut().filter_map(|(claim, job)| match &mut job.place {
            Place::Reporting(report) => Some((*claim, report)),
            Place::Waiting | Place::Held(_) => None,
        })
    }

    /// Sets how far the report of a job is.
    pub fn step(&mut self, claim: Claim, step: Step) {
        if let Some(report) = self.report_mut(claim) {
            report.step = step;
            set(&mut self.due, claim, step == Step::Due);
        }
    }

    /// Every job.
    pub fn iter(&self) -> impl Iterator<Item = (Claim, &Job)> {
        self.jobs.iter().map(|(claim, job)| (*claim, job))
    }

    /// The claims on the job of this name, oldest first; there are two while the outcome of an earlier one is on its
    /// way.
    pub fn claims_of(&self, id: &JobId) -> impl Iterator<Item = Claim> {
        self.by_id
            .range((id.clone(), Claim(0))..=(id.clone(), Claim(u64::MAX)))
            .map(|(_, claim)| *claim)
    }

    /// The jobs in our buffer, oldest first.
    #[must_use]
    pub fn waiting(&self) -> &BTreeSet<Claim> {
        &self.waiting
    }

    /// The reports that can be sent.
    #[must_use]
    pub fn due(&self) -> &BTreeSet<Claim> {
        &self.due
    }

    /// The jobs that can be looked at before anything is done with them.
    #[must_use]
    pub fn to_look(&self) -> &BTreeSet<Claim> {
        &self.to_look
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Jobs that count against the concurrency: all but those that go straight back, and those that are lost.
    #[must_use]
    pub fn active(&self) -> usize {
        self.unfinished() - self.lost.len()
    }

    /// The same and those that are lost: a worker may still be working on them.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.jobs.len() - self.surplus
    }

    /// Jobs whose reservations are ours, those that go straight back among them.
    #[must_use]
    pub fn reserved(&self) -> usize {
        self.jobs.len() - self.lost.len()
    }
}

fn is_surplus(place: &Place) -> bool {
    match place {
        Place::Reporting(report) => report.is_surplus,
        Place::Waiting | Place::Held(_) => false,
    }
}

fn set(claims: &mut BTreeSet<Claim>, claim: Claim, is_member: bool) {
    if is_member {
        claims.insert(claim);
    } else {
        claims.remove(&claim);
    }
}
