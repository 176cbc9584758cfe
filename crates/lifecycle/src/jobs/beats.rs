//! Heartbeats of holders. A heartbeat lists the jobs that its holder has. An empty list means that
//! the holder has none. A heartbeat without a list leaves open which jobs the holder has.
//!
//! If the process of a holder is unknown, only its heartbeats show that it still works on a job. A
//! job that no heartbeat names for long enough is dropped: ojs-init names it in no heartbeat of its
//! own.
//!
//! Absence is counted in time, never in a number of heartbeats alone. A handler may send as many
//! heartbeats as it likes, and each names its own job and no other.

use std::time::Duration;

use crate::api::ids::{Claim, HolderId, JobId};
use crate::api::{DropCause, Effect, JobNotice, JobTimer, WorkerState};
use crate::jobs::job::{BeatRecord, Held, Job, Place};
use crate::jobs::memory::Remembered;
use crate::jobs::part::{Context, Jobs};
use crate::jobs::said::Said;

/// Heartbeats with an empty list, without which no job of their holder is dropped for want of a
/// name.
const LEAST_BEATS_WITHOUT: u8 = 3;

/// Shortest time without a word of a job, or of its holder, after which the job is dropped.
const LEAST_ABSENCE: Duration = Duration::from_secs(60);

/// Longest silence of a holder whose job has no timeout.
const SILENCE_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Most dropped jobs that are kept because their handlers may still run. The oldest is forgotten
/// first.
const MOST_DROPPED: usize = 1_000;

impl Jobs {
    /// Answers a heartbeat with the jobs whose reservations ojs-init keeps. The answer covers the
    /// jobs on its list, or all jobs of its holder if it has no list. A job is left out if it is
    /// not kept, as a backend leaves out a job that it did not extend.
    pub(crate) fn beats(&mut self, holder: HolderId, named: Option<Vec<JobId>>, cx: &Context) {
        if let Some(named) = &named {
            self.weigh_names(holder, named, cx);
        }
        let jobs = match named {
            Some(named) => named.into_iter().filter(|id| self.is_kept_by_somebody(id)).collect(),
            None => self.kept_by(holder),
        };
        let state = if cx.options.tell_worker {
            cx.end.told
        } else {
            WorkerState::Running
        };
        self.say(Said::Order(Effect::AnswerBeat { holder, state, jobs }));
    }

    /// Lets any holder of this kind report the outcome of a job that was given out. Forgets the
    /// earlier outcome of the job.
    pub(crate) fn is_given_out(&mut self, claim: Claim, id: HolderId, cx: &Context) {
        let is_shared = cx.takers.answer_limit(id).is_some();
        let Some(job) = self.ledger.get_mut(claim).filter(|_| is_shared) else {
            return;
        };
        job.any_may_answer = true;
        let id_of_job = job.id().clone();
        self.memory.forget(&id_of_job);
        self.listen_for_words(claim, id, cx);
    }

    /// Starts the silence limit of this job if only the holder's messages show that it has the job.
    pub(crate) fn listen_for_words(&mut self, claim: Claim, holder: HolderId, cx: &Context) {
        if cx.takers.is_known_by_words_alone(holder)
            && let Some(job) = self.ledger.get(claim)
        {
            let until = cx.now.after(self.silence_limit(job, cx));
            self.timers.arm(JobTimer::Silence(claim), until);
        }
    }

    /// Weighs a heartbeat for jobs that only heartbeats show. A heartbeat speaks for the jobs on
    /// its list, whichever holder has them: ojs-init may know the process of one connection of a
    /// program and not that of another one. An empty list speaks against the jobs of its holder.
    /// Any other list leaves the jobs that are not on it unchanged.
    fn weigh_names(&mut self, id: HolderId, named: &[JobId], cx: &Context) {
        for job in named {
            let claims: Vec<Claim> = self.ledger.claims_of(job).collect();
            for claim in claims {
                self.take_back_dropped(claim, cx);
                if let Some(beats) = self.beats_of(claim) {
                    *beats = BeatRecord::named_at(cx.now);
                }
            }
        }
        if !named.is_empty() || !cx.takers.is_known_by_words_alone(id) {
            return;
        }
        let held: Vec<Claim> = self.ledger.held_by(id).iter().copied().collect();
        for claim in held {
            let Some(beats) = self.beats_of(claim) else { continue };
            beats.beats_without = beats.beats_without.saturating_add(1);
            let BeatRecord {
                named_at,
                beats_without,
                ..
            } = *beats;
            let Some(job) = self.ledger.get(claim).filter(|job| !job.is_dropped) else {
                continue;
            };
            if beats_without >= LEAST_BEATS_WITHOUT && named_at.elapsed(cx.now) >= self.longest_absence(job, cx) {
                self.drop_job(claim, DropCause::NotNamed, cx);
            }
        }
    }

    fn beats_of(&mut self, claim: Claim) -> Option<&mut BeatRecord> {
        match &mut self.ledger.get_mut(claim)?.place {
            Place::Held(held) => Some(&mut held.beats),
            Place::Waiting | Place::Reporting(_) => None,
        }
    }

    /// Time without a heartbeat that names the job, after which the job may be dropped. This is as
    /// long as its reservation lasts without a heartbeat.
    fn longest_absence(&self, job: &Job, cx: &Context) -> Duration {
        let visibility = job.delivery.visibility.unwrap_or_default();
        visibility.max(cx.options.visibility_timeout).max(LEAST_ABSENCE)
    }

    /// Longest silence of the holder of this job. The pause between two heartbeats of a worker may
    /// be longer than the timeout of a job.
    fn silence_limit(&self, job: &Job, cx: &Context) -> Duration {
        let limit = job.delivery.timeout.unwrap_or(SILENCE_LIMIT);
        limit.max(self.longest_absence(job, cx))
    }

    /// Checks whether the holder has sent a message since this job's silence limit started, or any
    /// holder a heartbeat that names the job.
    pub(crate) fn silence_is_over(&mut self, claim: Claim, cx: &Context) {
        let Some(job) = self.ledger.get(claim) else { return };
        let Place::Held(Held { holder, beats, .. }) = &job.place else {
            return;
        };
        if !cx.takers.is_known_by_words_alone(*holder) {
            return;
        }
        let last_word = cx.takers.last_said(*holder).max(Some(beats.named_at));
        let until = last_word.map(|word| word.after(self.silence_limit(job, cx)));
        match until.filter(|until| *until > cx.now) {
            Some(until) => self.timers.arm(JobTimer::Silence(claim), until),
            None => self.drop_job(claim, DropCause::Silent, cx),
        }
    }

    /// Drops a job because nothing shows that the worker still has it. Its reservation expires, and
    /// its place is free. Its handler may still run: an end waits for that handler, and its outcome
    /// is sent to the backend.
    fn drop_job(&mut self, claim: Claim, why: DropCause, cx: &Context) {
        let Some(job) = self.ledger.get(claim) else { return };
        let (subject, is_lost) = (job.subject(), job.is_lost);
        if is_lost {
            self.finish(claim, cx);
        } else {
            self.forget_timers(claim);
            self.ledger.drop_job(claim);
        }
        self.notify(JobNotice::Dropped(subject, why));
        if self.ledger.dropped() > MOST_DROPPED
            && let Some(oldest) = self.ledger.oldest_dropped()
        {
            self.let_dropped_go(oldest, cx);
        }
    }

    /// Removes a dropped job from the ledger. A later outcome is still sent to the backend.
    pub(crate) fn let_dropped_go(&mut self, claim: Claim, cx: &Context) {
        if let Some(job) = self.finish(claim, cx) {
            let (id, worker) = (job.id().clone(), job.worker);
            let dropped = Remembered::Dropped(Box::new(job.delivery), worker);
            self.memory.remember(id, dropped);
        }
    }

    /// Reports a job whose timeout expired although its holder's process is not ended for that. The
    /// state is shown as long as the job lasts.
    pub(crate) fn is_past_its_time(&mut self, claim: Claim, cx: &Context) {
        let Some(job) = self.ledger.get_mut(claim) else { return };
        let (subject, took) = (job.subject(), job.worked_for(cx.now));
        if let Place::Held(Held { is_past_its_time, .. }) = &mut job.place {
            *is_past_its_time = true;
            self.notify(JobNotice::TimeoutPassed(subject, took));
        }
    }

    /// Whether a holder has this job, and ojs-init keeps its reservation. This is narrower than
    /// [`Self::knows`], which also holds for a job that is dropped, lost or decided.
    fn is_kept_by_somebody(&self, id: &JobId) -> bool {
        let mut jobs = self.ledger.claims_of(id).filter_map(|claim| self.ledger.get(claim));
        jobs.any(|job| job.holder().is_some() && job.is_kept_reserved())
    }

    fn kept_by(&self, holder: HolderId) -> Vec<JobId> {
        let held = self.ledger.held_by(holder).iter();
        let held = held.filter_map(|claim| self.ledger.get(*claim));
        held.filter(|job| job.is_kept_reserved())
            .map(Job::id)
            .cloned()
            .collect()
    }
}
