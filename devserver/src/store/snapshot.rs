//! Snapshots of jobs: one, all, or counted.

use super::Store;
use super::job::{Delivery, Job, JobState};

/// A job as it was at one moment, for tests and people.
#[derive(Debug, Clone)]
pub struct JobSnapshot {
    /// The id of the job.
    pub id: String,
    /// The type of the job.
    pub kind: String,
    /// The queue of the job.
    pub queue: String,
    /// The state of the job.
    pub state: JobState,
    /// 0 before the first delivery, then the number of the execution.
    pub attempt: u32,
    /// The worker that has it; `None`: no worker, or one without a name.
    pub worker: Option<String>,
    /// Its deliveries, oldest first; at most the last 100.
    pub deliveries: Vec<Delivery>,
    /// How often it was delivered in all.
    pub times_delivered: u32,
    /// How many ACKs of it were accepted.
    pub times_acked: u32,
    /// Its errors, oldest first, as JSON; at most the last 25.
    pub errors: Vec<String>,
    /// The result of the job, as JSON.
    pub result: Option<String>,
    /// The state of its checkpoint, as JSON.
    pub checkpoint: Option<String>,
    /// Whether it is among the dead letters.
    pub is_dead_letter: bool,
    /// The envelope of the job, as JSON.
    pub envelope: String,
}

/// Which jobs are listed.
#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    pub state: Option<JobState>,
    pub queue: Option<String>,
}

impl Store {
    /// The jobs that pass the filter, newest first.
    pub fn newest(&self, filter: &JobFilter) -> impl Iterator<Item = &Job> {
        let jobs = self.by_number.values().rev().filter_map(|id| self.jobs.get(id));
        let (state, queue) = (filter.state, filter.queue.clone());
        jobs.filter(move |job| state.is_none_or(|state| job.state == state))
            .filter(move |job| queue.as_deref().is_none_or(|queue| &*job.queue == queue))
    }

    /// How many jobs pass the filter.
    pub fn how_many(&self, filter: &JobFilter) -> usize {
        let queue = filter.queue.as_deref().map(|name| self.index.queues.get(name));
        let of = |state| match queue {
            None => self.index.count(state),
            Some(queue) => queue.map_or(0, |queue| queue.counts.of(state)),
        };
        let all = || JobState::ALL.into_iter().map(of).sum();
        filter.state.map_or_else(all, of)
    }

    /// How many jobs are in each state.
    pub fn counts(&self) -> impl Iterator<Item = (JobState, usize)> {
        JobState::ALL.into_iter().map(|state| (state, self.index.count(state)))
    }

    /// How many jobs are in one state.
    pub fn count(&self, state: JobState) -> usize {
        self.index.count(state)
    }

    /// A job in its present state.
    pub fn snapshot(&self, job: &Job) -> JobSnapshot {
        JobSnapshot {
            id: job.id.to_string(),
            kind: job.kind.clone(),
            queue: job.queue.to_string(),
            state: job.state,
            attempt: job.attempt,
            worker: job.worker().map(|worker| worker.to_string()),
            deliveries: job.deliveries.iter().cloned().collect(),
            times_delivered: job.times_delivered,
            times_acked: job.times_acked,
            errors: job.errors.iter().map(|error| error.get().to_owned()).collect(),
            result: job.result.as_ref().map(|result| result.get().to_owned()),
            checkpoint: job
                .checkpoint
                .as_ref()
                .map(|checkpoint| checkpoint.state.get().to_owned()),
            is_dead_letter: job.is_dead_letter,
            envelope: crate::json::raw(&job.envelope(self.epoch)).get().to_owned(),
        }
    }

    /// All jobs in their present states, oldest first.
    pub fn snapshots(&self) -> Vec<JobSnapshot> {
        let jobs = self.by_number.values().filter_map(|id| self.jobs.get(id));
        jobs.map(|job| self.snapshot(job)).collect()
    }
}
