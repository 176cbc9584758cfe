//! Heartbeats of holders that tell what they have; and what becomes of a job when nothing but the words of its holder tells that it is
//! still worked on, and these say otherwise, or nothing any more: it is dropped.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::lifecycle::api::ids::{Claim, HolderId, JobId};
use crate::lifecycle::api::{DropCause, Effect, Moment, Notice, Timer, WorkerState};
use crate::lifecycle::jobs::job::{Held, Job, Place};
use crate::lifecycle::jobs::memory::Remembered;
use crate::lifecycle::machine::Lifecycle;
use crate::lifecycle::worker::holder::Holder;

/// Heartbeats in a row that do not name a job after which its holder does not have it.
const UNNAMED_LIMIT: u8 = 3;

/// How long the holder of a job without a timeout may say nothing.
const SILENCE_LIMIT: Duration = Duration::from_secs(30 * 60);

impl Lifecycle {
    /// A holder tells that it is there, and what it has: it is told which of that is.
    pub(super) fn beats(&mut self, holder: HolderId, named: Option<Vec<JobId>>) {
        if let Some(named) = &named {
            self.drop_what_is_not_named(holder, named);
        }
        let jobs = match named {
            Some(named) => named.into_iter().filter(|id| self.is_kept_by_somebody(id)).collect(),
            None => self.kept_by(holder),
        };
        let state = if self.options.tell_worker {
            self.state()
        } else {
            WorkerState::Running
        };
        self.order(Effect::AnswerBeat { holder, state, jobs });
    }

    /// A job was given out: any holder of this kind may tell its outcome, and what became of it before counts no more.
    pub(in crate::lifecycle) fn is_given_out(&mut self, claim: Claim, id: HolderId, now: Moment) {
        let Some(holder) = self.holders.get(id) else { return };
        let (is_shared, is_by_words) = (holder.manners.answer_within.is_some(), holder.is_known_by_words_alone());
        let Some(job) = self.jobs.get_mut(claim).filter(|_| is_shared) else {
            return;
        };
        job.any_may_answer = true;
        let (id, limit) = (job.id().clone(), silence_limit(job));
        self.memory.forget(&id);
        if is_by_words {
            self.timers.arm(Timer::Silence(claim), now.after(limit));
        }
    }

    /// Jobs that a holder does not name although it tells what it has, which nothing else tells.
    fn drop_what_is_not_named(&mut self, id: HolderId, named: &[JobId]) {
        if !self.holders.get(id).is_some_and(Holder::is_known_by_words_alone) {
            return;
        }
        let named: BTreeSet<&JobId> = named.iter().collect();
        let held: Vec<Claim> = self.jobs.held_by(id).iter().copied().collect();
        for claim in held {
            let Some(job) = self.jobs.get_mut(claim) else { continue };
            let is_named = named.contains(job.id());
            let Place::Held(held) = &mut job.place else { continue };
            held.unnamed = if is_named { 0 } else { held.unnamed.saturating_add(1) };
            if held.unnamed >= UNNAMED_LIMIT {
                self.drop_job(claim, DropCause::NotNamed);
            }
        }
    }

    /// A job has been with a holder for as long as that may say nothing: whether it has said anything since.
    pub(in crate::lifecycle) fn silence_is_over(&mut self, claim: Claim, now: Moment) {
        let Some(job) = self.jobs.get(claim) else { return };
        let limit = silence_limit(job);
        let holder = job.holder().and_then(|holder| self.holders.get(holder));
        let Some(holder) = holder.filter(|holder| holder.is_known_by_words_alone()) else {
            return;
        };
        let since = holder
            .last_said
            .map(|said| said.after(limit))
            .filter(|until| *until > now);
        match since {
            Some(until) => self.timers.arm(Timer::Silence(claim), until),
            None => self.drop_job(claim, DropCause::Silent),
        }
    }

    /// Nobody takes care of this job any more: its reservation runs out, and its place is free. What is told of it later goes to the
    /// backend all the same.
    fn drop_job(&mut self, claim: Claim, why: DropCause) {
        let Some(job) = self.finish(claim) else { return };
        self.notify(Notice::Dropped(job.subject(), why));
        if !job.is_lost {
            let (id, worker) = (job.id().clone(), job.worker);
            let dropped = Remembered::Dropped(Box::new(job.delivery), worker);
            self.memory.remember(id, dropped);
        }
    }

    /// The timeout of a job is over whose holder is not ended for that: it is told, and shown as long as it lasts.
    pub(in crate::lifecycle) fn is_past_its_time(&mut self, claim: Claim, now: Moment) {
        let Some(job) = self.jobs.get_mut(claim) else { return };
        let (subject, took) = (job.subject(), job.worked_for(now));
        if let Place::Held(Held { is_past_its_time, .. }) = &mut job.place {
            *is_past_its_time = true;
            self.notify(Notice::TimeoutPassed(subject, took));
        }
    }

    /// Whether somebody has this job, and its reservation is ours.
    fn is_kept_by_somebody(&self, id: &JobId) -> bool {
        let mut jobs = self.jobs.claims_of(id).filter_map(|claim| self.jobs.get(claim));
        jobs.any(|job| job.holder().is_some() && !job.is_lost)
    }

    fn kept_by(&self, holder: HolderId) -> Vec<JobId> {
        let held = self.jobs.held_by(holder).iter();
        let held = held.filter_map(|claim| self.jobs.get(*claim));
        held.filter(|job| !job.is_lost).map(Job::id).cloned().collect()
    }
}

/// How long the holder of this job may say nothing.
fn silence_limit(job: &Job) -> Duration {
    job.delivery.timeout.unwrap_or(SILENCE_LIMIT)
}
