//! The cancel of one job by an operator. Its handler has the time that it has after the job's
//! timeout, and its answer counts. Without an answer the process of the handler is ended, and the
//! job gets the outcome of a job that a shutdown cuts off (`backend.leftovers`).

use crate::api::ids::{Claim, JobId};
use crate::api::{
    CANCELLED_BY_OPERATOR, CancelAnswer, CancelReason, CancelRefusal, JobEnd, JobNotice, JobTimer, Leftovers,
    StoppingJob,
};
use crate::jobs::dispatch::error;
use crate::jobs::job::Job;
use crate::jobs::losses::may_end_for_a_job;
use crate::jobs::part::{Context, Jobs};

impl Jobs {
    /// Cancels the job with this id, or the only one whose id begins with this text.
    pub(crate) fn operator_cancels(&mut self, text: &str, cx: &Context) -> CancelAnswer {
        match self.job_of(text).and_then(|id| self.undecided(&id)) {
            Ok(claim) if self.ledger.waiting().contains(claim) => self.cancel_before_start(claim, cx),
            Ok(claim) => self.cancel_at_holder(claim, cx),
            Err(refusal) => CancelAnswer::Refused(refusal),
        }
    }

    fn job_of(&self, text: &str) -> Result<JobId, CancelRefusal> {
        let whole = JobId(text.into());
        if self.ledger.claims_of(&whole).next().is_some() {
            return Ok(whole);
        }
        let ids = self.ledger.iter().map(|(_, job)| job.id());
        let mut ids = ids.filter(|id| !text.is_empty() && id.0.starts_with(text));
        let first = ids.next().ok_or(CancelRefusal::Unknown)?;
        if ids.any(|other| other != first) {
            return Err(CancelRefusal::Ambiguous);
        }
        Ok(first.clone())
    }

    /// The claim on this job that has no outcome yet.
    fn undecided(&self, id: &JobId) -> Result<Claim, CancelRefusal> {
        let mut refusal = CancelRefusal::Unknown;
        for claim in self.ledger.claims_of(id) {
            match self.ledger.get(claim).map(|job| (job, job.report())) {
                Some((job, Some(report))) => refusal = CancelRefusal::Decided(job.subject(), report.what.end()),
                Some((_, None)) => return Ok(claim),
                None => {}
            }
        }
        Err(refusal)
    }

    fn cancel_before_start(&mut self, claim: Claim, cx: &Context) -> CancelAnswer {
        let Some(job) = self.ledger.get(claim) else {
            return CancelAnswer::Refused(CancelRefusal::Unknown);
        };
        let (subject, end) = (job.subject(), end_of_cancelled(job, cx));
        self.notify(JobNotice::CancelledByOperator {
            job: subject.clone(),
            has_handler: false,
        });
        self.end_cancelled(claim, "an operator cancelled the job before it was started", cx);
        CancelAnswer::Decided(subject, end)
    }

    fn cancel_at_holder(&mut self, claim: Claim, cx: &Context) -> CancelAnswer {
        let job = self.ledger.get(claim);
        let Some((job, held)) = job.and_then(|job| Some((job, *job.held()?))) else {
            return CancelAnswer::Refused(CancelRefusal::Unknown);
        };
        let subject = job.subject();
        if job.is_dropped {
            return CancelAnswer::Refused(CancelRefusal::Dropped(subject));
        }
        if !may_end_for_a_job(held.holder, cx) {
            return CancelAnswer::Refused(CancelRefusal::CannotBeTold(subject));
        }
        let timer = JobTimer::JobGrace(claim);
        let process = cx.takers.process_of(held.holder);
        let is_ended = process.is_some_and(|process| cx.takers.ending(process).is_some());
        let is_ending = held.is_told_of_shutdown || is_ended;
        let is_news = !is_ending && !self.timers.is_armed(timer);
        if is_news {
            self.notify(JobNotice::CancelledByOperator {
                job: subject.clone(),
                has_handler: true,
            });
            self.cancel(claim, CancelReason::Operator, cx.options.timeout_grace, cx);
            // The end of the grace comes first, or soon enough.
            self.timers.cancel(JobTimer::JobTimeout(claim));
            self.timers.arm(timer, cx.now.after(cx.options.timeout_grace));
        }
        let cancelled = self.ledger.get(claim).and_then(Job::cancelled);
        let reason = cancelled.unwrap_or(CancelReason::Operator);
        let unanswered = match (self.ledger.get(claim), reason) {
            (Some(job), _) if job.is_lost => JobEnd::Lost,
            (_, CancelReason::Timeout) | (None, _) => JobEnd::Failed,
            (Some(job), _) => end_of_cancelled(job, cx),
        };
        let deadline = self.timers.deadline_of(timer).filter(|_| !is_ending);
        CancelAnswer::Stops(StoppingJob {
            job: subject,
            reason,
            is_news,
            ends_in: deadline.map(|at| at.remaining(cx.now)),
            drain_left: None,
            others: process.map_or(0, |process| cx.takers.jobs_of(process).saturating_sub(1)),
            unanswered,
        })
    }

    /// Decides a job that an operator cancelled and whose handler gives no answer any more.
    pub(super) fn end_cancelled(&mut self, claim: Claim, why: &str, cx: &Context) {
        self.leave_over(claim, why, || error(CANCELLED_BY_OPERATOR, why, true), cx);
    }
}

/// The outcome of a job that an operator cancelled, without an answer of its handler.
fn end_of_cancelled(job: &Job, cx: &Context) -> JobEnd {
    match cx.options.leftovers {
        Leftovers::Fail => JobEnd::Failed,
        Leftovers::Requeue if job.why_not_requeue(cx.backend.traits()).is_some() => JobEnd::Left,
        Leftovers::Requeue => JobEnd::Requeued,
    }
}
