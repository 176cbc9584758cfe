//! Which job goes to which holder, and what becomes of one that takes too long.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::lifecycle::api::ids::{Claim, HolderId, JobId, PullId, WorkerId};
use crate::lifecycle::api::{
    CancelReason, Death, Delivery, EndCause, GivenJob, JOB_FRAME_BYTES, JobError, Leftovers, MOST_JOB_ID_BYTES, Moment,
    Notice, Outcome, Phase, Timer, ToWorker,
};
use crate::lifecycle::jobs::job::{Handover, Held, Place, Words};
use crate::lifecycle::machine::Lifecycle;
use crate::lifecycle::worker::offers::Offer;

impl Lifecycle {
    /// Takes in what a FETCH brought; it may have been made on behalf of an incarnation that is over by now. Whether
    /// anything of it is new to us.
    pub(in crate::lifecycle) fn claim(&mut self, deliveries: Vec<Delivery>, worker: WorkerId, now: Moment) -> bool {
        let mut is_news = false;
        let is_former = !self.link.agent().is(&worker);
        let mut seen: BTreeSet<JobId> = BTreeSet::new();
        for delivery in deliveries {
            let subject = Arc::clone(&delivery.subject);
            let id = &subject.id;
            if !seen.insert(id.clone()) || self.adopt(id, &delivery, &worker, now) {
                continue;
            }
            let is_full = self.ending.has_its_one_job(&self.options) || self.jobs.active() >= self.most_active();
            let is_surplus = is_former || !self.is_taking_jobs() || is_full;
            let has_crashed = delivery.has_crashed || self.suspects.knows(id, now);
            let is_suspect = has_crashed && self.options.isolates_suspects;
            let claim = self.jobs.add(delivery, worker.clone(), now);
            self.jobs.is_suspect(claim, is_suspect);
            self.end_hold_of(id, now);
            is_news = true;
            if is_surplus {
                let reason = "not started: more than was asked for, or no longer taking jobs";
                self.requeue(claim, reason, now);
                continue;
            }
            self.ending.job_claimed();
            if !self.is_refused_as_too_large(claim, now) {
                self.notify(Notice::Claimed(subject));
            }
        }
        is_news
    }

    pub(in crate::lifecycle) fn most_active(&self) -> usize {
        usize::try_from(self.options.concurrency).unwrap_or(usize::MAX)
    }

    /// Fails a job that no worker can be given, or could not answer: another attempt would end in the same way.
    fn is_refused_as_too_large(&mut self, claim: Claim, now: Moment) -> bool {
        let why = self.jobs.get(claim).and_then(|job| self.too_large(&job.delivery));
        if let Some(why) = &why {
            self.fail(claim, error("job_too_large", why, false), now);
        }
        why.is_some()
    }

    fn too_large(&self, delivery: &Delivery) -> Option<String> {
        let id = delivery.subject.id.0.len();
        let bytes = frame_bytes(delivery);
        if let Some(most) = self.workers.holders().frame_limit().filter(|most| bytes > *most) {
            Some(format!("the envelope is larger than {most} bytes (worker.max_frame)"))
        } else if id > MOST_JOB_ID_BYTES {
            Some(format!(
                "the id has {id} bytes, and a worker can answer at most {MOST_JOB_ID_BYTES}"
            ))
        } else {
            None
        }
    }

    /// A job that is here was delivered again: its handler goes on, with the new reservation. Where nobody has it yet,
    /// everything is new.
    fn adopt(&mut self, id: &JobId, delivery: &Delivery, worker: &WorkerId, now: Moment) -> bool {
        let held = self.jobs.claims_of(id).find(|claim| {
            self.jobs.get(*claim).is_some_and(|job| match job.place {
                Place::Waiting | Place::Held(_) => true,
                Place::Reporting(_) => false,
            })
        });
        let Some(claim) = held else { return false };
        if self.jobs.waiting().contains(claim) {
            self.replace_waiting(claim, delivery, worker, now);
            if !self.is_refused_as_too_large(claim, now) {
                self.notify(Notice::Replaced(Arc::clone(&delivery.subject)));
            }
            return true;
        }
        if self.is_dropped_once_more(claim) {
            // Two such times without a word: the worker does not have it.
            self.let_dropped_go(claim);
            return false;
        }
        if self.is_regained_beyond_credit(claim) {
            let why = "more than was asked for, and its handler has not stopped since it was lost";
            self.notify(Notice::Abandoned(Arc::clone(&delivery.subject), why));
            return true;
        }
        self.forget_looks(claim, now);
        self.regain(claim, now);
        let Some(job) = self.jobs.get_mut(claim) else {
            return false;
        };
        job.delivery.reservation = delivery.reservation.clone();
        job.delivery.subject = Arc::clone(&delivery.subject);
        self.jobs.is_of(claim, worker, now);
        self.notify(Notice::Adopted(Arc::clone(&delivery.subject)));
        true
    }

    /// Gives back what nobody can be given: outside running everything that waits, else what is more than all
    /// holders together take.
    pub(in crate::lifecycle) fn return_surplus(&mut self, now: Moment) {
        let keep = match (self.is_taking_jobs(), self.workers.holders().pull()) {
            (false, _) => 0,
            // Suspects run one after the other, so each of them needs room only at its own turn.
            (true, false) if self.workers.holders().ready() > 0 => {
                self.workers.holders().free().max(self.jobs.suspects().len())
            }
            (true, false) => self.workers.holders().free(),
            // Somebody may ask for them; see `unasked`.
            (true, true) => usize::MAX,
        };
        let waiting = self.jobs.waiting();
        for claim in waiting.newest(waiting.len().saturating_sub(keep)) {
            self.requeue(claim, "not started: no worker can take it now", now);
        }
    }

    /// Gives the jobs that wait, the oldest first, each to the holder with most room for it. What nobody can be given now is not
    /// looked at again before somebody can.
    pub(in crate::lifecycle) fn hand_over(&mut self, now: Moment) {
        let are_new_offers = self.workers.take_new_offers();
        if !self.is_taking_jobs() || self.jobs.waiting().is_empty() {
            return;
        }
        if are_new_offers {
            self.jobs.waiting_mut().all_are_fresh();
        }
        self.give_to_pulls(now);
        let untaken = self.ask_who_takes(now);
        while let Some((claim, holder)) = self.next_to_give() {
            self.give(claim, holder, now);
        }
        self.nobody_takes(&untaken, now);
    }

    /// Asks of each job that has come, or of all when others are there to take them, whether anybody takes it. Those that nobody
    /// does come back, as far as that is news.
    fn ask_who_takes(&mut self, now: Moment) -> Vec<Claim> {
        let limit = self.workers.holders().frame_limit();
        let mut untaken = Vec::new();
        for claim in self.jobs.waiting_mut().take_fresh() {
            let Some(job) = self.jobs.get(claim) else { continue };
            let (kind, bytes) = (&job.delivery.subject.kind, frame_bytes(&job.delivery));
            if limit.is_some_and(|most| bytes > most) {
                // Whoever could be given it has left since it came.
                self.is_refused_as_too_large(claim, now);
                continue;
            }
            let is_taken = self.workers.holders().take(kind, bytes);
            if is_taken {
                self.timers.cancel(Timer::NoHandler(claim));
            }
            if self.jobs.waiting_mut().is_taken(claim, is_taken) {
                untaken.push(claim);
            }
        }
        untaken
    }

    /// The oldest job that somebody can be given now, and who.
    fn next_to_give(&self) -> Option<(Claim, HolderId)> {
        let bytes = |claim| self.jobs.get(claim).map_or(0, |job| frame_bytes(&job.delivery));
        let oldest = |offer: &Offer| {
            let fits = |claim| offer.frame_limit.is_none_or(|most| bytes(claim) <= most);
            self.jobs.waiting().oldest(offer.types.as_deref(), fits)
        };
        let claim = self.workers.holders().idle().filter_map(oldest).min()?;
        let job = self.jobs.get(claim)?;
        let holder = self
            .workers
            .holders()
            .choose(&job.delivery.subject.kind, bytes(claim))?;
        Some((claim, holder))
    }

    pub(super) fn give(&mut self, claim: Claim, holder: HolderId, now: Moment) {
        let Some(GivenJob { envelope, checkpoint }) = self.hand_to(claim, holder, None, now) else {
            return;
        };
        let word = ToWorker::Job { envelope, checkpoint };
        self.workers(now, |workers, _| workers.serve(holder, word));
        self.tell_of_handover(claim, holder);
        self.workers(now, |workers, cx| workers.outbound(holder, true, cx));
    }

    /// From here on the holder has the job: what it is given of it.
    pub(super) fn hand_to(
        &mut self,
        claim: Claim,
        holder: HolderId,
        pull: Option<PullId>,
        now: Moment,
    ) -> Option<GivenJob> {
        let job = self.jobs.get_mut(claim)?;
        let envelope = std::mem::replace(&mut job.delivery.envelope, "".into());
        let checkpoint = job.delivery.checkpoint.take();
        job.handover = Some(Handover {
            at: now,
            is_measured: false,
        });
        let timeout = job.delivery.timeout;
        let held = Held {
            holder,
            pull,
            cancelled: None,
            is_told_of_shutdown: false,
            is_past_its_time: false,
            words: Words::named_at(now),
        };
        self.place(claim, Place::Held(held));
        self.is_given_out(claim, holder, now);
        self.timers.cancel(Timer::NoHandler(claim));
        if let Some(timeout) = timeout {
            self.timers.arm(Timer::JobTimeout(claim), now.after(timeout));
        }
        Some(GivenJob { envelope, checkpoint })
    }

    pub(super) fn tell_of_handover(&mut self, claim: Claim, holder: HolderId) {
        if let Some(job) = self.jobs.get(claim) {
            let subject = job.subject();
            self.notify(Notice::HandedOver(subject, holder));
        }
    }

    /// The job's own timeout is over (contract of the worker socket: `cancel`, reason timeout).
    pub(in crate::lifecycle) fn job_timed_out(&mut self, claim: Claim, now: Moment) {
        let Some(job) = self.jobs.get(claim) else { return };
        if job.is_lost {
            // It has been told of already, and its handler was told to stop.
            return self.end_if_stuck(claim, now);
        }
        if !job.holder().is_some_and(|holder| self.may_end_for_a_job(holder)) {
            return self.is_past_its_time(claim, now);
        }
        self.notify(Notice::TimedOut(job.subject(), job.worked_for(now)));
        self.cancel(claim, CancelReason::Timeout, self.options.timeout_grace, now);
        self.timers
            .arm(Timer::JobGrace(claim), now.after(self.options.timeout_grace));
    }

    /// The handler went on for all of the grace: nothing but the end of its process stops it.
    pub(in crate::lifecycle) fn ignored_cancel(&mut self, claim: Claim, now: Moment) {
        let Some(job) = self.jobs.get(claim) else { return };
        let Place::Held(held) = job.place else { return };
        let cause = EndCause::Hung {
            job: job.subject(),
            told: held.cancelled.unwrap_or(CancelReason::Timeout),
            grace: self.options.timeout_grace,
        };
        if let Some(holder) = self.workers.holders().get(held.holder) {
            self.end_process(holder.process, cause, now);
        }
    }

    /// Tells whoever holds the job to stop working on it. The first reason stays; and whom the shutdown has told is told no
    /// second time, for that is the shortest grace of all.
    pub(in crate::lifecycle) fn cancel(&mut self, claim: Claim, reason: CancelReason, grace: Duration, now: Moment) {
        let Some(job) = self.jobs.get(claim) else { return };
        let Place::Held(mut held) = job.place.clone() else {
            return;
        };
        if held.is_told_of_shutdown {
            return;
        }
        let id = job.id().clone();
        held.cancelled = held.cancelled.or(Some(reason));
        held.is_told_of_shutdown = reason == CancelReason::Shutdown;
        let end = self.ending.shutdown().cancel_grace_left(now);
        let grace = end.map_or(grace, |end| grace.min(end));
        self.place(claim, Place::Held(held));
        self.tell(held.holder, ToWorker::Cancel { job: id, reason, grace });
        self.workers(now, |workers, cx| workers.signal_cancel(held.holder, cx));
    }

    /// Decides a job of a process that is gone and did not answer it. Whether the job fails because of the process's end.
    pub(in crate::lifecycle) fn cut_off(&mut self, claim: Claim, death: &Death, now: Moment) -> bool {
        let Some(job) = self.jobs.get(claim) else { return false };
        let Place::Held(held) = job.place else { return false };
        let is_lost = job.is_lost;
        // In a drain the earlier of the two ends decides.
        let has_time_left = self.phase() == Phase::Stop && self.timers.deadline_of(Timer::JobGrace(claim)).is_some();
        if is_lost {
            self.finish(claim);
        } else if held.cancelled == Some(CancelReason::Timeout) && !has_time_left {
            let message = "the handler did not end within the job's timeout";
            self.fail(claim, error("timeout", message, true), now);
        } else if self.phase() == Phase::Stop {
            self.cut_off_by_shutdown(claim, now);
        } else if self.ended_for_another_job(held.holder) {
            self.requeue(claim, "its process was ended because another job of it hung", now);
        } else {
            let mut error = error("worker_death", &death.to_string(), true);
            error.details = Some(death.details().into());
            self.fail(claim, error, now);
            return true;
        }
        false
    }

    /// Whether the process at the other end was ended because a handler hung. It is no fault of its other jobs.
    fn ended_for_another_job(&self, holder: HolderId) -> bool {
        let of_process = self
            .workers
            .holders()
            .get(holder)
            .and_then(|holder| self.workers.holders().ending(holder.process));
        let of_worker = self.workers.supervision().ended_for();
        [of_process, of_worker]
            .into_iter()
            .flatten()
            .any(|cause| matches!(cause, EndCause::Hung { .. }))
    }

    fn cut_off_by_shutdown(&mut self, claim: Claim, now: Moment) {
        self.job_cut_off(claim);
        match self.options.leftovers {
            Leftovers::Requeue => self.requeue(claim, "interrupted by a shutdown", now),
            Leftovers::Fail => {
                let error = self.ending.shutdown_error(&self.options, now);
                self.fail(claim, error, now);
            }
        }
    }

    pub(super) fn fail(&mut self, claim: Claim, error: JobError, now: Moment) {
        self.decide(claim, Outcome::Failed { error }, None, false, now);
    }

    pub(super) fn requeue(&mut self, claim: Claim, reason: &str, now: Moment) {
        let was_waiting = self.jobs.get(claim).is_some_and(|job| job.place == Place::Waiting);
        self.decide(
            claim,
            Outcome::Requeued {
                reason: reason.into(),
                after: Duration::ZERO,
            },
            None,
            was_waiting,
            now,
        );
    }
}

/// Bytes of the frame in which such a job is given to a worker.
pub(super) fn frame_bytes(delivery: &Delivery) -> usize {
    let checkpoint = delivery.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.len());
    delivery.envelope.len() + checkpoint + JOB_FRAME_BYTES
}

/// An error of ours: code and type are the same word (requirements C-05, E-01).
pub(super) fn error(word: &str, message: &str, retryable: bool) -> JobError {
    JobError {
        code: Some(word.into()),
        kind: Some(word.into()),
        message: message.into(),
        retryable,
        details: None,
        backtrace: None,
    }
}
