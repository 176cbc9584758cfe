//! Outcomes of holders that wait for the answer. Any of them may tell the outcome of any job that was given to one of them. The first
//! outcome of a claim decides; who tells another one gets its answer, and the backend hears nothing of it. The answer comes when the
//! backend has the outcome, when the holder may wait no longer, or at once when the end has begun: from then on the outcome is ours.

use std::time::Duration;

use crate::lifecycle::api::ids::{Claim, HolderId, JobId};
use crate::lifecycle::api::{About, Delivery, ErrorCode, Moment, Outcome, Timer};
use crate::lifecycle::jobs::job::{Job, Place};
use crate::lifecycle::jobs::memory::Remembered;
use crate::lifecycle::jobs::stages::ReportStage;
use crate::lifecycle::machine::Lifecycle;

const WAS_LOST: &str = "the reservation was lost; the backend takes no outcome from us";

/// How it stands with a job of which an outcome is told.
enum Standing {
    /// Its outcome is not decided, or the backend does not take the one that it was told.
    Open(Claim),
    /// It is lost.
    Lost(Claim),
    /// The outcome that counts, and whether the backend has it.
    Decided(About, bool),
    Refused(ErrorCode),
    /// It was dropped and struck out; the claim on the same job that waits in our buffer, if there is one.
    Dropped(Option<Claim>),
    /// It was never given out, as far as is remembered.
    Unknown,
}

impl Lifecycle {
    /// The claim on this job that this holder has; tells it when it holds none.
    pub(in crate::lifecycle) fn held_by(&mut self, id: HolderId, job: &JobId) -> Option<Claim> {
        let held = self
            .jobs
            .claims_of(job)
            .find(|claim| self.jobs.get(*claim).and_then(|job| job.holder()) == Some(id));
        if held.is_none() {
            let message = "this connection does not hold that job; it was answered already, or never given to it";
            self.refuse(id, ErrorCode::NotHeld, message, Some(job.clone()));
        }
        held
    }

    /// The one answer to a job.
    pub(in crate::lifecycle) fn answered(&mut self, id: HolderId, job: &JobId, what: Outcome, now: Moment) {
        if self.answer_limit(id).is_some() {
            self.outcome_is_told(id, job, what, now);
            return self.end_if_a_handler_is_stuck(id, now);
        }
        if self.answered_differently(id, job, &what, now) {
            return;
        }
        let Some(claim) = self.held_by(id, job) else { return };
        if self.jobs.get(claim).is_some_and(|job| job.is_lost) {
            self.finish(claim);
            let message = "the reservation was lost; the backend takes no outcome from us";
            self.refuse(id, ErrorCode::Lost, message, Some(job.clone()));
        } else {
            self.decide(claim, what, Some(id), false, now);
        }
        // A holder that pauses gets no slot back by its answer.
        self.end_if_a_handler_is_stuck(id, now);
    }

    /// Whether this is another answer to a job whose result the backend does not take.
    fn answered_differently(&mut self, id: HolderId, job: &JobId, what: &Outcome, now: Moment) -> bool {
        let refused = self.jobs.claims_of(job).find(|claim| {
            self.jobs.get(*claim).is_some_and(|job| {
                matches!(&job.place, Place::Reporting(report)
                    if report.step == ReportStage::ResultRefused && report.listener == Some(id))
            })
        });
        let Some(claim) = refused else { return false };
        self.decide(claim, what.clone(), Some(id), false, now);
        true
    }

    /// How long a holder may wait for the answer to an outcome; none where it does not wait for that alone.
    pub(in crate::lifecycle) fn answer_limit(&self, id: HolderId) -> Option<Duration> {
        self.workers.holders().get(id)?.manners.answer_within
    }

    /// A holder that waits for the answer tells an outcome.
    pub(in crate::lifecycle) fn outcome_is_told(&mut self, id: HolderId, job: &JobId, what: Outcome, now: Moment) {
        match self.standing(job) {
            Standing::Open(claim) => self.decide(claim, what, Some(id), false, now),
            Standing::Lost(claim) => {
                self.finish(claim);
                self.refuse(id, ErrorCode::Lost, WAS_LOST, Some(job.clone()));
            }
            Standing::Decided(about, is_settled) => self.confirm(Some(id), job.clone(), about, is_settled),
            Standing::Refused(code) => {
                let message = "the backend takes no outcome of this job from us any more";
                self.refuse(id, code, message, Some(job.clone()));
            }
            Standing::Dropped(claim) => {
                // One that waits is as good as the one that was dropped; without one the outcome is on nobody's credit.
                let late = claim.or_else(|| self.take_up_again(job, now));
                if let Some(late) = late {
                    self.memory.forget(job);
                    if let Some(job) = self.jobs.get_mut(late) {
                        job.any_may_answer = true;
                    }
                    let may_be_elsewhere = claim.is_none() && !what.is_ack();
                    self.decide(late, what, Some(id), claim.is_none(), now);
                    if may_be_elsewhere {
                        self.look_first(late, now);
                    }
                }
            }
            Standing::Unknown => {
                let message = "that job was never given out here";
                self.refuse(id, ErrorCode::NotHeld, message, Some(job.clone()));
            }
        }
    }

    fn standing(&self, id: &JobId) -> Standing {
        let claims = self
            .jobs
            .claims_of(id)
            .filter_map(|claim| Some((claim, self.jobs.get(claim)?)));
        let mut waiting = None;
        let mut decided = None;
        for (claim, job) in claims {
            match &job.place {
                Place::Waiting => waiting = Some(claim),
                Place::Held(_) if !job.any_may_answer => {}
                Place::Held(_) if job.is_lost => return Standing::Lost(claim),
                Place::Held(_) => return Standing::Open(claim),
                Place::Reporting(report) if report.step == ReportStage::ResultRefused && job.any_may_answer => {
                    return Standing::Open(claim);
                }
                Place::Reporting(report) if job.any_may_answer => decided = Some(report.what.about()),
                Place::Reporting(_) => {}
            }
        }
        if let Some(about) = decided {
            return Standing::Decided(about, false);
        }
        match self.memory.of(id) {
            Some(Remembered::Decided(about, is_settled)) => Standing::Decided(*about, *is_settled),
            Some(Remembered::Refused(code)) => Standing::Refused(*code),
            Some(Remembered::Dropped(..)) => Standing::Dropped(waiting),
            None => Standing::Unknown,
        }
    }

    /// A job that was dropped is ours once more, for the outcome that comes late.
    fn take_up_again(&mut self, id: &JobId, now: Moment) -> Option<Claim> {
        let Remembered::Dropped(delivery, worker) = self.memory.forget(id)? else {
            return None;
        };
        let delivery: Delivery = *delivery;
        Some(self.jobs.add(delivery, worker, now))
    }

    /// Somebody waits for the answer to this outcome, and must not wait for ever.
    pub(super) fn limit_the_wait(&mut self, claim: Claim, now: Moment) {
        let Some(limit) = self.waiting_listener(claim).and_then(|id| self.answer_limit(id)) else {
            return;
        };
        if self.phase().is_terminating() || self.jobs.get(claim).is_some_and(Job::is_held_back) {
            self.outcome_is_ours(claim);
        } else {
            self.timers.arm(Timer::AnswerBy(claim), now.after(limit));
        }
    }

    fn waiting_listener(&self, claim: Claim) -> Option<HolderId> {
        self.jobs.get(claim)?.report()?.listener
    }

    /// Whoever told this outcome has its answer: from here on it is ours alone.
    pub(in crate::lifecycle) fn outcome_is_ours(&mut self, claim: Claim) {
        self.timers.cancel(Timer::AnswerBy(claim));
        let Some(report) = self.jobs.report_mut(claim) else {
            return;
        };
        let (listener, about) = (report.listener.take(), report.what.about());
        let id = self.jobs.get(claim).map(|job| job.id().clone());
        if let Some(id) = id {
            self.confirm(listener, id, about, false);
        }
    }

    /// The end has begun: whoever waits for an answer gets it now.
    pub(in crate::lifecycle) fn outcomes_are_ours(&mut self) {
        let listens = self
            .jobs
            .reports()
            .filter_map(|(claim, report)| Some((claim, report.listener?)));
        let listens: Vec<(Claim, HolderId)> = listens.collect();
        for (claim, listener) in listens {
            if self.answer_limit(listener).is_some() {
                self.outcome_is_ours(claim);
            }
        }
    }

    /// Somebody who was told no, and may tell another outcome, waits for nothing until then.
    pub(super) fn listener_was_told(&mut self, claim: Claim, listener: HolderId) {
        if self.answer_limit(listener).is_some()
            && let Some(report) = self.jobs.report_mut(claim)
        {
            report.listener = None;
            self.timers.cancel(Timer::AnswerBy(claim));
        }
    }

    /// A job is struck out whose outcome nobody will hear of any more, or has been heard of by whatever way: who waits for the answer
    /// gets it.
    pub(super) fn tell_whoever_waits(&mut self, job: &Job) {
        if let Some(report) = job.report()
            && let Some(listener) = report.listener
            && self.answer_limit(listener).is_some()
        {
            let about: About = report.what.about();
            self.confirm(Some(listener), job.id().clone(), about, false);
        }
    }

    /// What becomes of a job that any of several may answer is remembered.
    pub(super) fn remember_end(&mut self, job: &Job) {
        if job.any_may_answer {
            let what = match &job.place {
                Place::Reporting(report) => Remembered::Decided(report.what.about(), false),
                Place::Held(_) | Place::Waiting => Remembered::Refused(ErrorCode::Lost),
            };
            self.memory.remember(job.id().clone(), what);
        }
    }

    /// The same, where the backend has its outcome.
    pub(super) fn remember_settled(&mut self, job: &Job) {
        if job.any_may_answer
            && let Some(report) = job.report()
        {
            let settled = Remembered::Decided(report.what.about(), true);
            self.memory.remember(job.id().clone(), settled);
        }
    }

    /// The same, where the backend said no.
    pub(super) fn remember_refusal(&mut self, job: &Job, code: ErrorCode) {
        if job.any_may_answer {
            self.memory.remember(job.id().clone(), Remembered::Refused(code));
        }
    }
}
