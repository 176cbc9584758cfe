//! Jobs that are given back again and again. To give a job back costs no attempt, so nothing else would ever end such a circle: the
//! backend hands out the same jobs first, and others behind them never come.
//!
//! No FETCH can name the jobs or types that it does not want. So ojs-init holds a job of this kind for a while before the requeue goes
//! out, with its reservation kept by heartbeats, and longer each time. Meanwhile the job takes no place of another one.

use std::time::Duration;

use crate::lifecycle::api::ids::{Claim, JobId};
use crate::lifecycle::api::{FIRST_HOLD, LONGEST_HOLD, Moment, Notice, Timer};
use crate::lifecycle::jobs::job::Job;
use crate::lifecycle::jobs::returns::Returned;
use crate::lifecycle::jobs::stages::ReportEvent;
use crate::lifecycle::machine::Lifecycle;

/// Most jobs that are held beside those that the concurrency allows. A further one keeps its place while it is held, so that the pace of
/// the circle stays bounded.
const MOST_BESIDE: usize = 256;

/// The same for each job that the concurrency allows: a small worker keeps few jobs of others.
const MOST_BESIDE_EACH: usize = 8;

/// The part of the visibility timeout that a hold takes at most.
const VISIBILITY_SHARE: u32 = 3;

/// Who gives a job back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GivenBackBy {
    /// The worker, which asks for this delay.
    Worker(Duration),
    /// ojs-init: the holder of the job is gone.
    Us,
    /// ojs-init, and no holder ever had the job. More of these come with a FETCH only, which pauses, and each FETCH leaves some of them
    /// here. So they are counted and not held.
    UsUnstarted,
}

impl Lifecycle {
    /// A job goes back: for how long it is held first, if it is. Nothing is where no FETCH would bring it again.
    pub(super) fn brake(&mut self, claim: Claim, by: GivenBackBy, now: Moment) -> Option<Duration> {
        if !self.is_taking_jobs() || self.ending.has_its_one_job(&self.options) {
            return None;
        }
        // No heartbeat keeps the reservation of a dropped job.
        let subject = self.jobs.get(claim).filter(|job| !job.is_dropped)?.subject();
        let Returned {
            is_news,
            is_many,
            times,
        } = match by {
            GivenBackBy::Worker(_) => self.returns.by_worker(&subject.id, &subject.kind, now),
            GivenBackBy::Us | GivenBackBy::UsUnstarted => self.returns.by_itself(&subject.id, now),
        };
        if is_news {
            self.notify(Notice::GivenBackAgain {
                job: subject.clone(),
                times,
                is_of_type: matches!(by, GivenBackBy::Worker(_)),
                is_held: by != GivenBackBy::UsUnstarted,
            });
        }
        let asked = match by {
            GivenBackBy::Worker(after) => after,
            GivenBackBy::Us => Duration::ZERO,
            GivenBackBy::UsUnstarted => return None,
        };
        let braked = if is_many {
            self.returns.hold(&subject.id, now)
        } else {
            Duration::ZERO
        };
        let job = self.jobs.get(claim)?;
        // The reservation may be near its end: where heartbeats fail, a hold must not outlast it.
        let reserved = self.reserved_until(job).remaining(now);
        let longest = LONGEST_HOLD.min(self.granted(job) / VISIBILITY_SHARE).min(reserved);
        Some(asked.max(braked).min(longest)).filter(|hold| !hold.is_zero())
    }

    /// Holds a job whose requeue was just decided.
    pub(super) fn hold(&mut self, claim: Claim, hold: Duration, now: Moment) {
        let most_beside = self.most_active().saturating_mul(MOST_BESIDE_EACH).min(MOST_BESIDE);
        let is_beside = self.jobs.held_back() < most_beside;
        self.jobs.hold(claim, is_beside);
        // The worker's part is over now.
        self.measure(claim, now);
        // Others wait for its place.
        let hold = if is_beside { hold } else { hold.min(FIRST_HOLD) };
        self.timers.arm(Timer::Report(claim), now.after(hold));
    }

    /// No FETCH goes out from now on, so that nothing can come again: what is held goes back at once.
    pub(in crate::lifecycle) fn end_holds(&mut self, now: Moment) {
        // A walk: a phase, and the time between two workers, begin once.
        let held = self.jobs.iter().filter(|(_, job)| job.is_held_back());
        let held: Vec<Claim> = held.map(|(claim, _)| claim).collect();
        for claim in held {
            self.end_hold(claim, now);
        }
    }

    /// A job comes again while we hold it, so its reservation was over: it is of no use to hold it any longer.
    pub(super) fn end_hold_of(&mut self, id: &JobId, now: Moment) {
        let held = self
            .jobs
            .claims_of(id)
            .find(|claim| self.jobs.get(*claim).is_some_and(Job::is_held_back));
        if let Some(claim) = held {
            self.end_hold(claim, now);
        }
    }

    fn end_hold(&mut self, claim: Claim, now: Moment) {
        self.timers.cancel(Timer::Report(claim));
        self.report_event(claim, ReportEvent::TimerDue, now);
    }

    /// Whether the hold of a job ends now and its reservation may be over: somebody else may have it, whom a requeue would hit.
    pub(super) fn was_held_too_long(&self, claim: Claim, now: Moment) -> bool {
        self.jobs
            .get(claim)
            .is_some_and(|job| job.is_held_back() && self.reserved_until(job) <= now)
    }
}
