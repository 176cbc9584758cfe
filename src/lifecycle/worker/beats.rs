//! Heartbeats of holders that tell what they have.

use crate::lifecycle::api::ids::{HolderId, JobId};
use crate::lifecycle::api::{Effect, WorkerState};
use crate::lifecycle::jobs::job::Job;
use crate::lifecycle::machine::Lifecycle;

impl Lifecycle {
    /// A holder tells that it is there, and what it has: it is told which of that is.
    pub(super) fn beats(&mut self, holder: HolderId, named: Option<Vec<JobId>>) {
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
