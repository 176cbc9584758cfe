//! Replies to holders that wait for one. Any such holder may report the outcome of any job that one
//! of them was given.
//!
//! The first outcome of a claim decides. A later one gets the same reply and is not sent to the
//! backend. The reply is sent when the backend has the outcome or when the holder's time limit
//! expires. After the end has begun it is sent at once, because ojs-init alone is then responsible
//! for the outcome.

use crate::api::ids::{Claim, HolderId, JobId};
use crate::api::{About, ErrorCode, JobTimer, Outcome};
use crate::jobs::doubts::grant;
use crate::jobs::job::{Job, Place};
use crate::jobs::memory::Remembered;
use crate::jobs::part::{Context, Jobs};
use crate::jobs::stages::ReportStage;

const WAS_LOST: &str = "the reservation was lost; the backend takes no outcome from us";

/// The state of a job for which a holder reports an outcome.
enum Standing {
    /// The outcome is not decided, or the backend refused the one that it received.
    Open(Claim),
    /// The job is lost.
    Lost(Claim),
    /// The outcome that counts, and whether the backend has it.
    Decided(About, bool),
    Refused(ErrorCode),
    /// The job was dropped and removed from the ledger. The claim, if any, is another one on that
    /// job in ojs-init's buffer.
    Dropped(Option<Claim>),
    /// The memory has no entry that the job was ever given out.
    Unknown,
}

impl Jobs {
    /// Returns the claim on this job that this holder has. Refuses the answer if the holder has
    /// none.
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

    /// Processes the answer of a holder to a job. Returns false if it changes nothing for the
    /// holder.
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

    /// Decides the job anew if the backend refused its result and this holder was asked for another
    /// answer. Returns whether that was so.
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

    /// Reports the outcome from a holder that waits for the reply.
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
                // A claim that waits serves as well as the dropped one. If none waits, the outcome
                // counts against no holder's credit.
                let late = claim.or_else(|| self.take_up_again(job, cx));
                if let Some(late) = late {
                    self.memory.forget(job);
                    if let Some(job) = self.ledger.get_mut(late) {
                        job.any_may_answer = true;
                    }
                    self.decide(late, what, Some(id), claim.is_none(), cx);
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

    /// Enters a dropped job again, for its late outcome.
    fn take_up_again(&mut self, id: &JobId, cx: &Context) -> Option<Claim> {
        let Remembered::Dropped(delivery, worker) = self.memory.forget(id)? else {
            return None;
        };
        let grant = grant(&delivery, cx.now, cx);
        let claim = self.ledger.add(*delivery, worker, cx.now, grant);
        // No heartbeat has named it since it was dropped.
        let job = self.ledger.get_mut(claim)?;
        job.suspicion.may_have_lapsed = true;
        Some(claim)
    }

    /// Limits the time that a holder waits for the reply to this outcome.
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

    /// Replies to every waiting holder, because the end has begun.
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

    /// Stops the holder's wait after a refusal, because the holder may still report another
    /// outcome.
    pub(super) fn listener_was_told(&mut self, claim: Claim, listener: HolderId, cx: &Context) {
        if cx.takers.answer_limit(listener).is_some()
            && let Some(report) = self.ledger.report_mut(claim)
        {
            report.listener = None;
            self.timers.cancel(JobTimer::AnswerBy(claim));
        }
    }

    /// Confirms the outcome of a removed job to the holder that waits for the reply. The backend
    /// has the outcome, or no reply will arrive any more.
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

    /// Remembers that the backend has the outcome, if any of several holders may report it.
    pub(super) fn remember_settled(&mut self, job: &Job) {
        if job.any_may_answer
            && let Some(report) = job.report()
        {
            let settled = Remembered::Decided(report.what.about(), true);
            self.memory.remember(job.id().clone(), settled);
        }
    }

    /// Remembers that the backend refused the outcome, if any of several holders may report it.
    pub(super) fn remember_refusal(&mut self, job: &Job, code: ErrorCode) {
        if job.any_may_answer {
            self.memory.remember(job.id().clone(), Remembered::Refused(code));
        }
    }
}
