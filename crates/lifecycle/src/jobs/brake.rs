//! The brake on jobs that are given back again and again. A release costs no attempt, so only the
//! brake ends this circle. The backend hands out the returned jobs first, and the jobs behind them
//! never start.
//!
//! A FETCH cannot exclude jobs or types. ojs-init therefore holds a returned job for some time
//! before it sends the requeue. Heartbeats keep the reservation, and the job occupies no place of
//! another job. Each hold of a job is longer than the one before.

use std::time::Duration;

use crate::api::ids::{Claim, JobId};
use crate::api::{FIRST_HOLD, JobNotice, JobTimer, LONGEST_HOLD};
use crate::jobs::job::Job;
use crate::jobs::part::{Context, Jobs};
use crate::jobs::returns::Returned;
use crate::jobs::stages::ReportEvent;

/// Most jobs that are held beside those that the concurrency allows. A further job keeps its place
/// during its hold, which bounds the pace of the circle.
const MOST_BESIDE: usize = 256;

/// Most jobs that are held beside the concurrency, for each job that the concurrency allows. The
/// bound limits how many jobs a small worker keeps from other workers.
const MOST_BESIDE_EACH: usize = 8;

/// Longest hold, as a part of the visibility timeout.
const VISIBILITY_SHARE: u32 = 3;

/// The side that gives a job back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GivenBackBy {
    /// The worker, which asks for this delay.
    Worker(Duration),
    /// ojs-init, because the holder of the job has left.
    Us,
    /// ojs-init, and no holder ever had the job. The return is counted, and the job is not held.
    /// The pause of FETCH bounds the pace, because only a FETCH brings more of these jobs.
    UsUnstarted,
}

/// The decision of the brake about a job that is given back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Braked {
    /// How long the job is held first.
    pub(super) hold: Option<Duration>,
    /// FETCH needs no pause, because the hold keeps the job from coming straight back.
    pub(super) is_pause_enough: bool,
}

impl Jobs {
    /// Counts the return of a job, and decides whether the job is held. A job is not held if no
    /// FETCH can return that job again.
    pub(super) fn brake(&mut self, claim: Claim, by: GivenBackBy, cx: &Context) -> Braked {
        let no_hold = Braked::default();
        if !cx.takes_jobs || cx.end.has_its_one_job {
            return no_hold;
        }
        // No heartbeat keeps the reservation of a dropped job.
        let Some(job) = self.ledger.get(claim).filter(|job| !job.is_dropped) else {
            return no_hold;
        };
        let subject = job.subject();
        let Returned {
            is_news,
            is_many,
            times,
        } = match by {
            GivenBackBy::Worker(_) => self.returns.by_worker(&subject.id, &subject.kind, cx.now),
            GivenBackBy::Us | GivenBackBy::UsUnstarted => self.returns.by_itself(&subject.id, cx.now),
        };
        if is_news {
            self.notify(JobNotice::GivenBackAgain {
                job: subject.clone(),
                times,
                is_of_type: matches!(by, GivenBackBy::Worker(_)),
                is_held: by != GivenBackBy::UsUnstarted,
            });
        }
        let asked = match by {
            GivenBackBy::Worker(after) => after,
            GivenBackBy::Us => Duration::ZERO,
            GivenBackBy::UsUnstarted => return no_hold,
        };
        let braked = if is_many {
            self.returns.hold(&subject.id, cx.now)
        } else {
            Duration::ZERO
        };
        let Some(job) = self.ledger.get(claim) else {
            return no_hold;
        };
        // If heartbeats fail, the reservation may be near its end. A hold must not outlast the
        // reservation.
        let reserved = job.reserved_until.remaining(cx.now);
        let longest = LONGEST_HOLD.min(job.granted / VISIBILITY_SHARE).min(reserved);
        let hold = asked.max(braked).min(longest);
        Braked {
            hold: Some(hold).filter(|hold| !hold.is_zero()),
            is_pause_enough: !hold.is_zero() && (is_many || hold >= cx.options.poll_interval),
        }
    }

    /// Holds a job whose requeue was just decided.
    pub(super) fn hold(&mut self, claim: Claim, hold: Duration, cx: &Context) {
        let most_beside = cx.most_active().saturating_mul(MOST_BESIDE_EACH).min(MOST_BESIDE);
        let is_beside = self.ledger.beside() < most_beside;
        self.ledger.hold(claim, is_beside);
        // The worker's part ends here, not at the end of the hold.
        self.measure(claim, cx);
        // Other jobs wait for the place of a job that keeps it.
        let hold = if is_beside { hold } else { hold.min(FIRST_HOLD) };
        self.timers.arm(JobTimer::Report(claim), cx.now.after(hold));
    }

    /// Ends all holds, because no FETCH is sent from now on and so no job can be delivered again.
    pub(crate) fn end_holds(&mut self, cx: &Context) {
        // A walk over all jobs, once for each phase and once between two workers.
        let held = self.ledger.iter().filter(|(_, job)| job.is_held_back());
        let held: Vec<Claim> = held.map(|(claim, _)| claim).collect();
        for claim in held {
            self.end_hold(claim, cx);
        }
    }

    /// Ends the hold of a job that is delivered again. Its reservation has expired, so the hold
    /// keeps nothing.
    pub(super) fn end_hold_of(&mut self, id: &JobId, cx: &Context) {
        let held = self
            .ledger
            .claims_of(id)
            .find(|claim| self.ledger.get(*claim).is_some_and(Job::is_held_back));
        if let Some(claim) = held {
            self.end_hold(claim, cx);
        }
    }

    fn end_hold(&mut self, claim: Claim, cx: &Context) {
        self.timers.cancel(JobTimer::Report(claim));
        self.report_event(claim, ReportEvent::TimerDue, cx);
    }
}
