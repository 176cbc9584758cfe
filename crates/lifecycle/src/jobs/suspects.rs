//! Jobs that were in a process when it crashed. One of them may be the cause, so each runs alone
//! the next time.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::api::Moment;
use crate::api::ids::{Claim, JobId, ProcessId};

/// Most jobs that are remembered; beyond that the one is forgotten that would be forgotten first.
const MOST_REMEMBERED: usize = 1_000;

/// How long a job is remembered: longer than most retry policies wait between two attempts.
const REMEMBERED_FOR: Duration = Duration::from_secs(3_600);

/// Time for which a process gets no other job, to become empty for a suspect. After that the
/// suspect runs beside other jobs.
pub(crate) const EMPTIED_WITHIN: Duration = Duration::from_secs(30);

/// Time for which a suspect has its process for itself. After that other jobs run beside it,
/// because most jobs that crash do so early.
pub(crate) const ALONE_FOR: Duration = Duration::from_secs(60);

/// Longest wait of a suspect for its isolation, from its claim. After that it is an ordinary job.
/// Otherwise many suspects, isolated one after the other, would occupy the whole concurrency.
pub(crate) const ISOLATED_WITHIN: Duration = Duration::from_secs(120);

/// The memory of crashes, and the job that has a process for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Suspects {
    /// The jobs that were in a process when it crashed, each with the time at which its entry is
    /// removed.
    crashed: BTreeMap<JobId, Moment>,
    pub(crate) isolation: Option<Isolation>,
}

/// One suspect whose process gets no other job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Isolation {
    /// The suspect.
    pub claim: Claim,
    /// The process that the suspect has for itself.
    pub process: ProcessId,
    /// The job runs; before that the process finishes its other jobs.
    pub is_running: bool,
    /// When the isolation ends at the latest.
    pub until: Moment,
}

impl Suspects {
    /// Remembers that this job was in a process when it crashed.
    pub(crate) fn remember(&mut self, id: JobId, now: Moment) {
        let crashed = &mut self.crashed;
        crashed.retain(|_, until| *until > now);
        crashed.insert(id, now.after(REMEMBERED_FOR));
        while crashed.len() > MOST_REMEMBERED
            && let Some(first) = crashed
                .iter()
                .min_by_key(|(_, until)| **until)
                .map(|(id, _)| id.clone())
        {
            crashed.remove(&first);
        }
    }

    /// Forgets a job that has its own outcome.
    pub(crate) fn forget(&mut self, id: &JobId) {
        self.crashed.remove(id);
    }

    /// Whether the process of this job crashed the last time.
    pub(crate) fn knows(&self, id: &JobId, now: Moment) -> bool {
        self.crashed.get(id).is_some_and(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::new(Duration::from_secs(seconds))
    }

    fn job(number: u64) -> JobId {
        JobId(format!("{number:05}").as_str().into())
    }

    #[test]
    fn a_crash_is_remembered_for_an_hour_or_until_the_job_has_an_outcome() {
        let mut suspects = Suspects::default();
        suspects.remember(job(1), at(0));
        suspects.remember(job(2), at(0));
        suspects.forget(&job(2));
        assert!(suspects.knows(&job(1), at(3_599)) && !suspects.knows(&job(1), at(3_600)));
        assert!(!suspects.knows(&job(2), at(0)));
        suspects.remember(job(3), at(3_600));
        assert_eq!(suspects.crashed.len(), 1);
    }

    #[test]
    fn however_many_jobs_crash_a_thousand_are_remembered_and_the_oldest_are_forgotten() {
        let mut suspects = Suspects::default();
        for number in 0..1_100 {
            suspects.remember(job(2_000 - number), at(number));
        }
        assert_eq!(suspects.crashed.len(), 1_000);
        assert!(!suspects.knows(&job(2_000), at(1_100)) && suspects.knows(&job(901), at(1_100)));
    }
}
