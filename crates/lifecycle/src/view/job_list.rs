//! The jobs as an operator sees them, the oldest first.

use ojs_values::small;

use crate::api::{CancelReason, Claim, JobActivity, JobList, JobPlace, JobStatus, JobTimer, Moment};
use crate::jobs::job::{Held, Job, Place};
use crate::machine::Lifecycle;

/// Most jobs in a list, the oldest of all.
pub const MOST_JOBS_LISTED: usize = 1_000;

impl Lifecycle {
    /// The list of jobs.
    pub fn job_list(&self, now: Moment) -> JobList {
        JobList {
            not_shown: self.jobs.ledger.iter().count().saturating_sub(MOST_JOBS_LISTED),
            jobs: self.shown_jobs(MOST_JOBS_LISTED, now),
        }
    }

    /// The `most` oldest jobs. Sorts all jobs, so the cost grows with their number.
    pub(super) fn shown_jobs(&self, most: usize, now: Moment) -> Vec<JobStatus> {
        let mut jobs: Vec<(Moment, Claim)> = self
            .jobs
            .ledger
            .iter()
            .map(|(claim, job)| (job.claimed_at, claim))
            .collect();
        small::sort_by(&mut jobs, |one, other| one < other);
        let oldest = jobs.into_iter().take(most);
        let oldest = oldest.filter_map(|(_, claim)| Some((claim, self.jobs.ledger.get(claim)?)));
        oldest.map(|(claim, job)| self.shown_job(claim, job, now)).collect()
    }

    fn shown_job(&self, claim: Claim, job: &Job, now: Moment) -> JobStatus {
        let (place, is_cancelled) = match &job.place {
            Place::Waiting => (JobPlace::Waiting, false),
            Place::Held(held) => (JobPlace::Held(held.holder), held.cancelled.is_some()),
            Place::Reporting(report) if report.is_held() => (JobPlace::GoesBack, false),
            Place::Reporting(_) => (JobPlace::Reporting, false),
        };
        let holder = job.holder().and_then(|id| self.workers.holders.get(id));
        let remaining = |timer| self.jobs.timers.deadline_of(timer).map(|at| at.remaining(now));
        let progress = job.news.last_progress.as_deref();
        JobStatus {
            subject: job.subject(),
            age: job.claimed_at.elapsed(now),
            place,
            is_cancelled: is_cancelled || job.is_lost,
            ends_in: remaining(JobTimer::JobGrace(claim)),
            progress: progress.map(|(progress, at)| (progress.clone(), at.elapsed(now))),
            activity: activity(job),
            process: holder
                .filter(|holder| !holder.is_of_unknown_process)
                .map(|holder| holder.process),
            held_for: job.worked_for(now).filter(|_| holder.is_some()),
            times_out_in: remaining(JobTimer::JobTimeout(claim)),
        }
    }
}

fn activity(job: &Job) -> JobActivity {
    match &job.place {
        Place::Waiting if job.again.is_some() => JobActivity::WaitsForLook,
        Place::Waiting if job.is_suspect => JobActivity::WaitsForTurn,
        Place::Waiting => JobActivity::WaitsForHandler,
        Place::Held(held) => of_held(job, held),
        Place::Reporting(report) if report.is_held() => JobActivity::GoesBack,
        Place::Reporting(report) => JobActivity::Reports(report.what.end()),
    }
}

fn of_held(job: &Job, held: &Held) -> JobActivity {
    match held.cancelled {
        _ if job.is_dropped => JobActivity::IsDropped,
        Some(reason) => JobActivity::Stops(reason),
        None if job.is_lost => JobActivity::Stops(CancelReason::Lost),
        None if held.is_past_its_time => JobActivity::RunsPastTimeout,
        None => JobActivity::Runs,
    }
}
