//! The choice of the holder for each job, and the timeout of a job.

use std::sync::Arc;
use std::time::Duration;

use crate::api::ids::{Claim, HolderId, JobId, PullId, Text, WorkerId};
use crate::api::{
    CancelReason, Death, Delivery, EndCause, GivenJob, JOB_FRAME_BYTES, JobError, JobNotice, JobTimer, Leftovers,
    MOST_JOB_ID_BYTES, Moment, Outcome, Phase, ToWorker,
};
use crate::jobs::doubts::grant;
use crate::jobs::facts::Offered;
use crate::jobs::job::{BeatRecord, Grant, Handover, Held, Job, Place};
use crate::jobs::losses::may_end_for_a_job;
use crate::jobs::part::{Context, Jobs};
use crate::jobs::said::Said;

/// The FETCH that brought a job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claimed<'a> {
    /// The incarnation for which it was sent.
    pub(crate) worker: &'a WorkerId,
    /// That incarnation has ended.
    pub(crate) is_former: bool,
    /// When it was sent. The reservation lasts from here on at least: the answer may have waited.
    pub(crate) asked_at: Moment,
}

impl Jobs {
    /// Enters one job from a FETCH. Returns whether the job is new to ojs-init.
    pub(crate) fn claim(&mut self, mut delivery: Delivery, claimed: Claimed, cx: &Context) -> bool {
        delivery.timeout = delivery.timeout.or(cx.options.job_timeout);
        let subject = Arc::clone(&delivery.subject);
        let id = &subject.id;
        let Claimed { worker, is_former, .. } = claimed;
        let grant = grant(&delivery, claimed.asked_at, cx);
        if self.adopt(id, &delivery, worker, grant, cx) {
            return false;
        }
        let is_full = cx.end.has_its_one_job || self.ledger.active() >= cx.most_active();
        let is_surplus = is_former || !cx.takes_jobs || is_full;
        let is_suspect = self.has_to_run_alone(&delivery, cx);
        self.doubt_earlier(id, cx);
        let claim = self.ledger.add(delivery, worker.clone(), cx.now, grant);
        self.ledger.is_suspect(claim, is_suspect);
        self.end_hold_of(id, cx);
        if is_surplus {
            let reason = "not started: more than was asked for, or no longer taking jobs";
            self.requeue(claim, reason, cx);
            return true;
        }
        self.say(Said::Claimed);
        if !self.is_refused_as_too_large(claim, cx) {
            self.notify(JobNotice::Claimed(subject));
        }
        true
    }

    /// The job is delivered again, so the reservation of its earlier FAIL or requeue may have
    /// ended. That outcome would end the new attempt, which has not run.
    fn doubt_earlier(&mut self, id: &JobId, cx: &Context) {
        let earlier: Vec<Claim> = self.ledger.claims_of(id).collect();
        for claim in earlier {
            if let Some(job) = self.ledger.get_mut(claim)
                && let Place::Reporting(report) = &mut job.place
                && !report.what.is_ack()
            {
                report.is_seen_ours = false;
                job.suspicion.may_have_lapsed = true;
                self.forget_looks(claim, cx);
            }
        }
    }

    /// Whether the last process of this job crashed, so that the job waits until it can run alone.
    fn has_to_run_alone(&self, delivery: &Delivery, cx: &Context) -> bool {
        let has_crashed = delivery.has_crashed || self.suspects.knows(&delivery.subject.id, cx.now);
        has_crashed && cx.options.isolates_suspects
    }

    /// Fails a job that is too large to give to a worker or to be answered. Another attempt would
    /// end in the same failure. If only the copy of the checkpoint is too much, the worker gets the
    /// job without that copy.
    fn is_refused_as_too_large(&mut self, claim: Claim, cx: &Context) -> bool {
        let Some(job) = self.ledger.get_mut(claim) else {
            return false;
        };
        let left_out = checkpoint_beyond(cx.takers.frame_limit(), &mut job.delivery);
        let why = too_large(&job.delivery, cx);
        if left_out.is_some() && why.is_none() {
            let job = job.subject();
            self.notify(JobNotice::CheckpointTooLarge { job, is_saved: true });
        }
        if let Some(why) = &why {
            self.fail(claim, error("job_too_large", why, false), cx);
        }
        why.is_some()
    }

    /// Adopts the new delivery of a job that ojs-init has already. Its handler goes on with the new
    /// reservation. If no holder has the job yet, the whole delivery is replaced.
    fn adopt(&mut self, id: &JobId, delivery: &Delivery, worker: &WorkerId, grant: Grant, cx: &Context) -> bool {
        let held = self.ledger.claims_of(id).find(|claim| {
            self.ledger.get(*claim).is_some_and(|job| match job.place {
                Place::Waiting | Place::Held(_) => true,
                Place::Reporting(_) => false,
            })
        });
        let Some(claim) = held else { return false };
        if self.ledger.waiting().contains(claim) {
            self.replace_waiting(claim, delivery, worker, grant, cx);
            self.ledger.is_suspect(claim, self.has_to_run_alone(delivery, cx));
            if !self.is_refused_as_too_large(claim, cx) {
                self.notify(JobNotice::Replaced(Arc::clone(&delivery.subject)));
            }
            return true;
        }
        if self.is_dropped_once_more(claim) {
            // The job was dropped twice, and no heartbeat named it in between: the worker does not
            // have it.
            self.let_dropped_go(claim, cx);
            return false;
        }
        if self.is_regained_beyond_credit(claim, cx) {
            let why = "more than was asked for, and its handler has not stopped since it was lost";
            self.notify(JobNotice::Abandoned(Arc::clone(&delivery.subject), why));
            return true;
        }
        self.forget_looks(claim, cx);
        self.regain(claim, cx);
        let Some(job) = self.ledger.get_mut(claim) else {
            return false;
        };
        job.delivery.reservation = delivery.reservation.clone();
        job.delivery.subject = Arc::clone(&delivery.subject);
        self.ledger.is_of(claim, worker, cx.now, grant);
        self.notify(JobNotice::Adopted(Arc::clone(&delivery.subject)));
        true
    }

    /// Gives back the jobs that no holder can get. Outside the phase running these are all waiting
    /// jobs, otherwise those beyond what all holders together accept.
    pub(crate) fn return_surplus(&mut self, cx: &Context) {
        let keep = match (cx.takes_jobs, cx.takers.pull()) {
            (false, _) => 0,
            // Suspects run one after the other, so each needs room only while it is isolated.
            (true, false) if cx.takers.are_ready() => cx.takers.free().max(self.ledger.suspects().len()),
            (true, false) => cx.takers.free(),
            // A holder may still ask for the waiting jobs; see `unasked`.
            (true, true) => usize::MAX,
        };
        let waiting = self.ledger.waiting();
        for claim in waiting.newest(waiting.len().saturating_sub(keep)) {
            self.requeue(claim, "not started: no worker can take it now", cx);
        }
    }

    /// Checks all waiting jobs for a taker again, because the set of holders has changed.
    pub(crate) fn others_take_jobs(&mut self) {
        self.ledger.waiting_mut().all_are_fresh();
    }

    /// Checks for each new job, or for all if the holders changed, whether a holder accepts it.
    /// Returns the jobs that newly have no taker.
    pub(crate) fn ask_who_takes(&mut self, cx: &Context) -> Vec<Claim> {
        let limit = cx.takers.frame_limit();
        let mut untaken = Vec::new();
        for claim in self.ledger.waiting_mut().take_fresh() {
            let bytes = self.ledger.get(claim).map_or(0, |job| frame_bytes(&job.delivery));
            if limit.is_some_and(|most| bytes > most) && self.is_refused_as_too_large(claim, cx) {
                // The holders that could accept the job have left since it arrived.
                continue;
            }
            let Some(job) = self.ledger.get(claim) else { continue };
            let is_taken = cx.takers.take(offered(job));
            if is_taken {
                self.timers.cancel(JobTimer::NoHandler(claim));
            }
            if self.ledger.waiting_mut().is_taken(claim, is_taken) {
                untaken.push(claim);
            }
        }
        untaken
    }

    /// Gives out the oldest job that a holder can get now. Returns false if there is none. A job
    /// without a free holder is not looked at again before a holder is free for it.
    pub(crate) fn give_next(&mut self, cx: &Context) -> bool {
        let Some((claim, holder)) = self.next_to_give(cx) else {
            return false;
        };
        self.give(claim, holder, cx);
        true
    }

    /// The oldest job that a holder can get now, with that holder.
    fn next_to_give(&self, cx: &Context) -> Option<(Claim, HolderId)> {
        let bytes = |claim| self.ledger.get(claim).map_or(0, |job| frame_bytes(&job.delivery));
        let claim = cx.takers.oldest_for_the_idle(&|types, limit| {
            let fits = |claim| limit.is_none_or(|most| bytes(claim) <= most);
            self.ledger.waiting().oldest(types, fits)
        })?;
        let holder = cx.takers.choose(offered(self.ledger.get(claim)?))?;
        Some((claim, holder))
    }

    pub(super) fn give(&mut self, claim: Claim, holder: HolderId, cx: &Context) {
        if let Some(given) = self.hand_to(claim, holder, None, cx) {
            self.say(Said::Give(holder, ToWorker::Job(given)));
            self.tell_of_handover(claim, holder);
        }
    }

    /// Moves the job to the holder, and returns the data that the holder gets.
    pub(crate) fn hand_to(
        &mut self,
        claim: Claim,
        holder: HolderId,
        pull: Option<PullId>,
        cx: &Context,
    ) -> Option<GivenJob> {
        let job = self.ledger.get_mut(claim)?;
        let subject = job.subject();
        let envelope = std::mem::take(&mut job.delivery.envelope);
        let checkpoint = job.delivery.checkpoint.take();
        job.handover = Some(Handover {
            at: cx.now,
            envelope_bytes: envelope
                .len()
                .saturating_sub(checkpoint.as_ref().map_or(0, |state| state.len())),
            is_measured: false,
        });
        let timeout = job.delivery.timeout;
        let held = Held {
            holder,
            pull,
            cancelled: None,
            is_told_of_shutdown: false,
            is_past_its_time: false,
            beats: BeatRecord::named_at(cx.now),
        };
        self.place(claim, Place::Held(held));
        self.is_given_out(claim, holder, cx);
        self.timers.cancel(JobTimer::NoHandler(claim));
        if let Some(timeout) = timeout {
            self.timers.arm(JobTimer::JobTimeout(claim), cx.now.after(timeout));
        }
        Some(GivenJob {
            subject,
            envelope,
            checkpoint,
        })
    }

    pub(crate) fn tell_of_handover(&mut self, claim: Claim, holder: HolderId) {
        if let Some(job) = self.ledger.get(claim) {
            let subject = job.subject();
            self.notify(JobNotice::HandedOver(subject, holder));
        }
    }

    /// The job's own timeout has expired (contract of the worker socket: `cancel`, reason timeout).
    pub(crate) fn job_timed_out(&mut self, claim: Claim, cx: &Context) {
        let Some(job) = self.ledger.get(claim) else { return };
        if job.is_lost {
            // The log has the loss already, and the job was cancelled then.
            return self.end_if_stuck(claim, cx);
        }
        if !job.holder().is_some_and(|holder| may_end_for_a_job(holder, cx)) {
            return self.is_past_its_time(claim, cx);
        }
        self.notify(JobNotice::TimedOut(job.subject(), job.worked_for(cx.now)));
        self.cancel(claim, CancelReason::Timeout, cx.options.timeout_grace, cx);
        self.timers
            .arm(JobTimer::JobGrace(claim), cx.now.after(cx.options.timeout_grace));
    }

    /// Ends the process of a handler that went on for the whole grace, because nothing else stops
    /// it.
    pub(crate) fn ignored_cancel(&mut self, claim: Claim, cx: &Context) {
        let Some(job) = self.ledger.get(claim) else { return };
        let Place::Held(held) = job.place else { return };
        let cause = EndCause::Hung {
            job: job.subject(),
            told: held.cancelled.unwrap_or(CancelReason::Timeout),
            grace: cx.options.timeout_grace,
        };
        if let Some(process) = cx.takers.process_of(held.holder) {
            self.say(Said::EndProcess(process, cause));
        }
    }

    /// Cancels the job at its holder. The first reason stays. A job that the shutdown has cancelled
    /// gets no further cancel, because the shutdown has the shortest grace.
    pub(crate) fn cancel(&mut self, claim: Claim, reason: CancelReason, grace: Duration, cx: &Context) {
        let Some(job) = self.ledger.get(claim) else { return };
        let Place::Held(mut held) = job.place.clone() else {
            return;
        };
        if held.is_told_of_shutdown {
            return;
        }
        let id = job.id().clone();
        held.cancelled = held.cancelled.or(Some(reason));
        held.is_told_of_shutdown = reason == CancelReason::Shutdown;
        let grace = cx.end.cancel_grace_left.map_or(grace, |end| grace.min(end));
        self.place(claim, Place::Held(held));
        let word = ToWorker::Cancel { job: id, reason, grace };
        self.say(Said::Tell(held.holder, word));
    }

    /// Decides a job whose process ended without an answer. Returns whether the job fails because
    /// of the process's end.
    pub(crate) fn cut_off(&mut self, claim: Claim, death: &Death, cx: &Context) -> bool {
        let Some(job) = self.ledger.get(claim) else {
            return false;
        };
        let Place::Held(held) = job.place else { return false };
        let (is_lost, id) = (job.is_lost, job.id().clone());
        let is_hung = |cause: &EndCause| matches!(cause, EndCause::Hung { .. });
        let is_of_another = |cause: &EndCause| matches!(cause, EndCause::Hung { job, .. } if job.id != id);
        let is_recycled = |cause: &EndCause| *cause == EndCause::Recycled;
        // Besides the stop phase and the end of a process, only a recycling cancels jobs like this.
        let ends_by_recycling = held.is_told_of_shutdown && !was_ended_for(held.holder, |_| true, cx);
        // In a drain the earlier of the two ends decides.
        let has_time_left = cx.end.phase == Phase::Stop && self.timers.is_armed(JobTimer::JobGrace(claim));
        if is_lost {
            self.finish(claim, cx);
        } else if held.cancelled == Some(CancelReason::Timeout) && !has_time_left {
            let message = "the handler did not end within the job's timeout";
            self.fail(claim, error("timeout", message, true), cx);
        } else if held.cancelled == Some(CancelReason::Operator) && !has_time_left {
            let why = "an operator cancelled the job, and its handler did not answer in time";
            self.end_cancelled(claim, why, cx);
        } else if cx.end.phase == Phase::Stop {
            self.cut_off_by_shutdown(claim, cx);
        } else if ends_by_recycling
            || was_ended_for(held.holder, is_recycled, cx) && !was_ended_for(held.holder, is_of_another, cx)
        {
            self.cut_off_by_recycling(claim, cx);
        } else if was_ended_for(held.holder, is_hung, cx) {
            self.requeue(claim, "its process was ended because another job of it hung", cx);
        } else {
            let mut error = error("worker_death", &death.to_string(), true);
            error.details = Some(death.details().into());
            self.fail(claim, error, cx);
            return true;
        }
        false
    }

    fn cut_off_by_shutdown(&mut self, claim: Claim, cx: &Context) {
        self.cut_off_by_end(claim);
        self.leave_over(claim, "interrupted by a shutdown", cx.shutdown_error, cx);
    }

    /// Decides a job that ran on after the grace period of a recycling, as a shutdown would.
    fn cut_off_by_recycling(&mut self, claim: Claim, cx: &Context) {
        let error = || JobError {
            code: Some(cx.options.shutdown_error_code.clone()),
            kind: Some(cx.options.shutdown_error_type.clone()),
            details: Some(r#"{"reason":"recycled"}"#.into()),
            ..JobError::new("the worker was recycled before the job was finished")
        };
        self.leave_over(claim, "interrupted because its worker was recycled", error, cx);
    }

    /// Decides a job that got no answer as `backend.leftovers` wants: it goes back for this reason,
    /// or fails with this error.
    pub(super) fn leave_over(&mut self, claim: Claim, why: &str, error: impl FnOnce() -> JobError, cx: &Context) {
        match cx.options.leftovers {
            Leftovers::Requeue => self.requeue(claim, why, cx),
            Leftovers::Fail => self.fail(claim, error(), cx),
        }
    }

    pub(super) fn fail(&mut self, claim: Claim, error: JobError, cx: &Context) {
        self.decide(claim, Outcome::Failed { error }, None, false, cx);
    }

    pub(super) fn requeue(&mut self, claim: Claim, reason: &str, cx: &Context) {
        let was_waiting = self.ledger.get(claim).is_some_and(|job| job.place == Place::Waiting);
        self.decide(
            claim,
            Outcome::Requeued {
                reason: reason.into(),
                after: Duration::ZERO,
            },
            None,
            was_waiting,
            cx,
        );
    }
}

/// Why a job is too large, if it is.
fn too_large(delivery: &Delivery, cx: &Context) -> Option<String> {
    let id = delivery.subject.id.0.len();
    let bytes = frame_bytes(delivery);
    if let Some(most) = cx.takers.frame_limit().filter(|most| bytes > *most) {
        Some(format!("the envelope is larger than {most} bytes (worker.max_frame)"))
    } else if id > MOST_JOB_ID_BYTES {
        Some(format!(
            "the id has {id} bytes, and a worker can answer at most {MOST_JOB_ID_BYTES}"
        ))
    } else {
        None
    }
}

/// Takes the copy of the checkpoint out of a job whose frame would be longer than `most` with it.
/// The envelope still has the checkpoint.
fn checkpoint_beyond(most: Option<usize>, delivery: &mut Delivery) -> Option<Text> {
    let is_too_long = most.is_some_and(|most| frame_bytes(delivery) > most);
    delivery.checkpoint.take_if(|_| is_too_long)
}

/// Bytes of the frame in which this job is given to a worker.
pub(super) fn frame_bytes(delivery: &Delivery) -> usize {
    let checkpoint = delivery.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.len());
    delivery.envelope.len() + checkpoint + JOB_FRAME_BYTES
}

/// An error from ojs-init: code and type are the same word (requirements C-05, E-01).
pub(super) fn error(word: &str, message: &str, retryable: bool) -> JobError {
    JobError {
        code: Some(word.into()),
        kind: Some(word.into()),
        retryable,
        ..JobError::new(message)
    }
}

/// The job as the possible takers see it.
pub(super) fn offered(job: &Job) -> Offered<'_> {
    Offered {
        subject: &job.delivery.subject,
        bytes: frame_bytes(&job.delivery),
    }
}

/// Whether ojs-init ended the holder's process, or the worker, for a cause like this.
fn was_ended_for(holder: HolderId, is: impl Fn(&EndCause) -> bool, cx: &Context) -> bool {
    let of_process = cx
        .takers
        .process_of(holder)
        .and_then(|process| cx.takers.ending(process));
    let causes = [of_process, cx.takers.worker_ended_for()];
    causes.into_iter().flatten().any(is)
}
