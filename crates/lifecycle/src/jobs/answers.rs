//! Replies to holders that wait for one. Any such holder may report the outcome of any job that one
//! of them was given.
//!
//! The first outcome of a claim decides. A later one gets the same reply and is not sent to the
//! backend. The reply goes out when the backend has the outcome, when the holder's time is over, or
//! at once when the end has begun: from then on ojs-init alone is responsible for the outcome.

use crate::api::ids::{Claim, HolderId, JobId};
use crate::api::{About, Delivery, ErrorCode, JobTimer, Outcome};
use crate::jobs::job::{Job, Place};
use crate::jobs::memory::Remembered;
use crate::jobs::part::{Context, Jobs};
use crate::jobs::stages::ReportStage;

const WAS_LOST: &str = "the reservation was lost; the backend takes no outcome from us";

/// How it stands with a job of which an outcome is told.
enum Standing {
    /// Its outcome is not decided, or the backend does not take the one that it was told.
    Open(Claim),
    /// The job is lost.
    Lost(Claim),
    /// The outcome that counts, and whether the backend has it.
    Decided(About, bool),
    Refused(ErrorCode),
    /// The job was dropped and struck out. If another claim on it waits in our buffer, this is it.
    Dropped(Option<Claim>),
    /// The job was never given out, as far as the memory goes.
    Unknown,
}

impl Jobs {
    /// The claim on this job that this holder has; tells it when it holds none.
    pub(crate) fn held_by(&mut self, id: HolderId, job: &JobId) -> Option<Claim> {
        let held = self
            .ledger
            .claims_of(job)
            .find(|claim| self.ledger.get(*claim).and_then(|job| job.holder()) == Some(id));
        if held.is_none() {
            let message = "this connection does not hold that job; it was answered already, or never given to it";
            self.refuse(id, ErrorCode::NotHeld, message, job.clone());
        }
        held
    }

    /// The one answer to a job. Returns false where it changes nothing for the holder.
    pub(crate) fn answered(&mut self, id: HolderId, job: &JobId, what: Outcome, cx: &Context) -> bool {
        if cx.takers.answer_limit(id).is_some() {
            self.outcome_is_told(id, job, what, cx);
            return true;
        }
        if self.answered_differently(id, job, &what, cx) {
            return false;
        }
        let Some(claim) = self.held_by(id, job) else {
            return false;
        };
        if self.ledger.get(claim).is_some_and(|job| job.is_lost) {
            self.finish(claim, cx);
            let message = "the reservation was lost; the backend takes no outcome from us";
            self.refuse(id, ErrorCode::Lost, message, job.clone());
        } else {
            self.decide(claim, what, Some(id), false, cx);
        }
        true
    }

    /// Whether this is another answer to a job whose result the backend does not take.
    fn answered_differently(&mut self, id: HolderId, job: &JobId, what: &Outcome, cx: &Context) -> bool {
        let refused = self.ledger.claims_of(job).find(|claim| {
            self.ledger.get(*claim).is_some_and(|job| {
                matches!(&job.place, Place::Reporting(report)
                    if report.step == ReportStage::ResultRefused && report.listener == Some(id))
            })
        });
        let Some(claim) = refused else { return false };
        self.decide(claim, what.clone(), Some(id), false, cx);
        true
    }

    /// A holder that waits for the answer tells an outcome.
    fn outcome_is_told(&mut self, id: HolderId, job: &JobId, what: Outcome, cx: &Context) {
        match self.standing(job) {
            Standing::Open(claim) => self.decide(claim, what, Some(id), false, cx),
            Standing::Lost(claim) => {
                self.finish(claim, cx);
                self.refuse(id, ErrorCode::Lost, WAS_LOST, job.clone());
            }
            Standing::Decided(about, is_settled) => self.confirm(Some(id), job.clone(), about, is_settled),
            Standing::Refused(code) => {
                let message = "the backend takes no outcome of this job from us any more";
                self.refuse(id, code, message, job.clone());
            }
            Standing::Dropped(claim) => {
                // One that waits is as good as the one that was dropped; without one the outcome is
                // on nobody's credit.
                let late = claim.or_else(|| self.take_up_again(job, cx));
                if let Some(late) = late {
                    self.memory.forget(job);
                    if let Some(job) = self.ledger.get_mut(late) {
                        job.any_may_answer = true;
                    }
                    let may_be_elsewhere = claim.is_none() && !what.is_ack();
                    self.decide(late, what, Some(id), claim.is_none(), cx);
                    if may_be_elsewhere {
                        self.look_first(late, cx);
                    }
                }
            }
            Standing::Unknown => {
                let message = "that job was never given out here";
                self.refuse(id, ErrorCode::NotHeld, message, job.clone());
            }
        }
    }

    /// Whether an outcome of this job would be accepted, confirmed or refused here, and not by the
    /// backend. Heartbeats have a narrower rule: `is_kept_by_somebody`.
    pub(crate) fn knows(&self, id: &JobId) -> bool {
        !matches!(self.standing(id), Standing::Unknown)
    }

    fn standing(&self, id: &JobId) -> Standing {
        let claims = self
            .ledger
            .claims_of(id)
            .filter_map(|claim| Some((claim, self.ledger.get(claim)?)));
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
    fn take_up_again(&mut self, id: &JobId, cx: &Context) -> Option<Claim> {
        let Remembered::Dropped(delivery, worker) = self.memory.forget(id)? else {
            return None;
        };
        let delivery: Delivery = *delivery;
        Some(self.ledger.add(delivery, worker, cx.now))
    }

    /// Somebody waits for the answer to this outcome, and must not wait for ever.
    pub(super) fn limit_the_wait(&mut self, claim: Claim, cx: &Context) {
        let Some(limit) = self.waiting_listener(claim).and_then(|id| cx.takers.answer_limit(id)) else {
            return;
        };
        if cx.end.phase.is_terminating() || self.ledger.get(claim).is_some_and(Job::is_held_back) {
            self.outcome_is_ours(claim);
        } else {
            self.timers.arm(JobTimer::AnswerBy(claim), cx.now.after(limit));
        }
    }

    fn waiting_listener(&self, claim: Claim) -> Option<HolderId> {
        self.ledger.get(claim)?.report()?.listener
    }

    /// The holder that reported this outcome has its reply. From here on ojs-init alone is
    /// responsible for the outcome.
    pub(crate) fn outcome_is_ours(&mut self, claim: Claim) {
        self.timers.cancel(JobTimer::AnswerBy(claim));
        let Some(report) = self.ledger.report_mut(claim) else {
            return;
        };
        let (listener, about) = (report.listener.take(), report.what.about());
        let id = self.ledger.get(claim).map(|job| job.id().clone());
        if let Some(id) = id {
            self.confirm(listener, id, about, false);
        }
    }

    /// The end has begun: whoever waits for an answer gets it now.
    pub(crate) fn outcomes_are_ours(&mut self, cx: &Context) {
        let listens = self
            .ledger
            .reports()
            .filter_map(|(claim, report)| Some((claim, report.listener?)));
        let listens: Vec<(Claim, HolderId)> = listens.collect();
        for (claim, listener) in listens {
            if cx.takers.answer_limit(listener).is_some() {
                self.outcome_is_ours(claim);
            }
        }
    }

    /// Somebody who was told no, and may tell another outcome, waits for nothing until then.
    pub(super) fn listener_was_told(&mut self, claim: Claim, listener: HolderId, cx: &Context) {
        if cx.takers.answer_limit(listener).is_some()
            && let Some(report) = self.ledger.report_mut(claim)
        {
            report.listener = None;
            self.timers.cancel(JobTimer::AnswerBy(claim));
        }
    }

    /// A job is struck out whose outcome nobody will hear of any more, or has been heard of by
    /// whatever way: who waits for the answer gets it.
    pub(super) fn tell_whoever_waits(&mut self, job: &Job, cx: &Context) {
        if let Some(report) = job.report()
            && let Some(listener) = report.listener
            && cx.takers.answer_limit(listener).is_some()
        {
            let about: About = report.what.about();
            self.confirm(Some(listener), job.id().clone(), about, false);
        }
    }

    /// Remembers the end of a job that any of several holders may report.
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
