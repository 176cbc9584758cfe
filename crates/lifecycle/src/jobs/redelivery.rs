//! A job that is delivered again while an outcome of it is in flight to the backend.
//!
//! After an ACK the job is done. After a FAIL or a requeue, most often that outcome returned the
//! job, and the new delivery is an ordinary job. Or the reservation had expired before, the outcome
//! hit the new one, and another worker has the job by now. Only a look can decide. The job waits
//! until the earlier outcome is settled. Then ojs-init looks at it, and starts it or gives it back
//! only if its reservation belongs to ojs-init. Meanwhile heartbeats name the job, because the
//! backend delivered it and nothing has shown a loss.

use std::time::Duration;

use crate::api::ids::{Claim, JobId, WorkerId};
use crate::api::{Call, Delivery, Failure, JobNotice, JobRequest, JobState, JobTimer, JobView, Notice, Reply};
use crate::jobs::job::{Again, Grant, Job, LookStep};
use crate::jobs::part::{Context, Jobs};
use crate::jobs::reports::is_ours;
use crate::jobs::said::Said;
use crate::jobs::stages::ReportStage;
use crate::retry::state::is_of_an_outage;

/// Time for which ojs-init tries to look at a repeated delivery.
const LOOK_FOR: Duration = Duration::from_secs(6 * 60);

/// The meaning of a look at a repeated delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LookVerdict {
    /// The delivery belongs to ojs-init.
    Ours,
    /// The delivery does not belong to ojs-init, for this reason.
    Void(&'static str),
    /// The delivery may belong to ojs-init. ojs-init neither starts it nor gives it back.
    Unknown,
}

impl Jobs {
    /// Marks a delivery that arrived while an ACK was in flight as done, because the backend
    /// decides by id.
    pub(super) fn done_as_well(&mut self, id: &JobId, cx: &Context) {
        let later: Vec<Claim> = self.ledger.claims_of(id).collect();
        for claim in later {
            self.comes_to_nothing(claim, "the ACK that was on its way is for it as well", cx);
        }
    }

    fn comes_to_nothing(&mut self, claim: Claim, why: &'static str, cx: &Context) {
        if let Some(job) = self.finish(claim, cx) {
            self.notify(JobNotice::Void(job.subject(), why));
            self.tell_whoever_waits(&job, cx);
        }
    }

    /// Looks at the deliveries whose earlier outcome is settled now, as far as there is room.
    pub(crate) fn look_at_redelivered(&mut self, cx: &Context) {
        let due: Vec<Claim> = self
            .ledger
            .to_look()
            .iter()
            .copied()
            .take(self.room_for_reports(cx))
            .collect();
        for claim in due {
            let Some(job) = self.ledger.get_mut(claim) else {
                continue;
            };
            if let Some(again) = &mut job.again {
                again.since.get_or_insert(cx.now);
            }
            let call = Call::GetJob { job: job.id().clone() };
            let sent = self.call(call, JobRequest::LookAgain(claim), cx);
            self.ledger.look_step(claim, LookStep::Looking(sent));
        }
    }

    /// Handles the reply to a look at a repeated delivery, or its failure.
    pub(crate) fn looked_again(&mut self, claim: Claim, reply: Reply, cx: &Context) {
        let Some(job) = self.ledger.get_mut(claim) else { return };
        let verdict = if let Reply::JobSeen(view) = reply {
            job.suspicion.may_have_lapsed &= !is_ours(job, &view);
            by_look(job, &view)
        } else if matches!(reply.failure(), Failure::Unsupported | Failure::Refused) {
            by_itself(job)
        } else {
            return self.look_failed(claim, reply.failure(), cx);
        };
        self.judge_redelivered(claim, verdict, cx);
    }

    fn judge_redelivered(&mut self, claim: Claim, verdict: LookVerdict, cx: &Context) {
        match verdict {
            LookVerdict::Ours => self.ledger.is_by_itself(claim),
            LookVerdict::Void(why) => self.comes_to_nothing(claim, why, cx),
            LookVerdict::Unknown => self.let_reservation_expire(
                claim,
                "it came again while its outcome was on its way, and whether it is ours cannot be told",
                cx,
            ),
        }
    }

    fn look_failed(&mut self, claim: Claim, failure: Failure, cx: &Context) {
        let Some(job) = self.ledger.get_mut(claim) else { return };
        let Some(again) = &mut job.again else { return };
        let before = again.setbacks.add(failure, cx.now);
        if again.since.is_some_and(|since| since.elapsed(cx.now) >= LOOK_FOR) {
            // In an outage of this length the reservation has expired, because heartbeats failed as
            // well.
            let verdict = if is_of_an_outage(failure) {
                LookVerdict::Unknown
            } else {
                by_itself(job)
            };
            return self.judge_redelivered(claim, verdict, cx);
        }
        let subject = job.subject();
        let pause = cx.retry_pause(before, failure);
        self.ledger.look_step(claim, LookStep::Pausing);
        self.timers.arm(JobTimer::LookAgain(claim), cx.now.after(pause));
        self.notify(Notice::CallFailed {
            what: "look",
            job: Some(subject),
            failure,
            retry_in: Some(pause),
        });
    }

    /// Replaces the delivery that waits in ojs-init's buffer by the new one. Another attempt has
    /// another envelope, another checkpoint and another claim time.
    pub(super) fn replace_waiting(
        &mut self,
        claim: Claim,
        delivery: &Delivery,
        worker: &WorkerId,
        grant: Grant,
        cx: &Context,
    ) {
        self.forget_looks(claim, cx);
        // The wait for a holder begins anew.
        self.timers.cancel(JobTimer::NoHandler(claim));
        self.ledger.replace(claim, delivery.clone());
        self.ledger.is_of(claim, worker, cx.now, grant);
    }

    /// Drops looks in flight, because they may still show the state before the newest reservation.
    /// Looks that have to decide are made anew.
    pub(super) fn forget_looks(&mut self, claim: Claim, cx: &Context) {
        let Some(job) = self.ledger.get_mut(claim) else { return };
        let lost = job.suspicion.look.take();
        let again = job.again.as_ref().map(|again| again.step);
        let report = job.report().map(|report| report.step);
        if let Some(look) = lost {
            self.say(Said::DropCall(look));
        }
        if let Some(LookStep::Looking(look)) = again {
            self.say(Said::DropCall(look));
        }
        if again.is_some_and(|step| step != LookStep::Behind) {
            self.timers.cancel(JobTimer::LookAgain(claim));
            self.ledger.look_step(claim, LookStep::Due);
        }
        if let Some(ReportStage::Looking(look, _)) = report {
            self.say(Said::DropCall(look));
            self.ledger.step(claim, ReportStage::Doubtful);
            self.timers.arm(JobTimer::Report(claim), cx.now);
        }
    }

    /// Ends the pauses of looks, because little time is left.
    pub(crate) fn hurry_looks(&mut self, cx: &Context) {
        let pausing = self
            .ledger
            .agains()
            .filter(|(_, again)| again.step == LookStep::Pausing);
        let pausing: Vec<Claim> = pausing.map(|(claim, _)| claim).collect();
        for claim in pausing {
            self.timers.arm_at_latest(JobTimer::LookAgain(claim), cx.now);
        }
    }
}

/// The state that the backend shows.
fn by_look(job: &Job, view: &JobView) -> LookVerdict {
    let is_new = |before| view.reservation.differs_from(before);
    match view.state {
        JobState::Active if !is_ours(job, view) => {
            LookVerdict::Void("another reservation of it is the one that counts")
        }
        JobState::Active if job.again.as_ref().is_some_and(|again| is_new(&again.before)) => LookVerdict::Ours,
        // The state gives no start of the reservation, the look is not permitted, or the backend
        // does not find the job.
        JobState::Active | JobState::Hidden | JobState::Missing => by_itself(job),
        JobState::Cancelled => LookVerdict::Void("it was cancelled"),
        JobState::Completed | JobState::Elsewhere => {
            LookVerdict::Void("the outcome that was on its way has ended it as well")
        }
    }
}

/// Decides by the delivery alone: whether its reservation differs from the one before.
fn by_itself(job: &Job) -> LookVerdict {
    let is_new = |again: &Again| job.delivery.reservation.differs_from(&again.before);
    if job.again.as_deref().is_none_or(is_new) {
        LookVerdict::Ours
    } else {
        LookVerdict::Unknown
    }
}
