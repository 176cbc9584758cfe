//! Hands jobs out to workers.

use std::sync::Arc;
use std::time::Duration;

use super::job::{JobId, JobState, Reservation, WorkerId};
use super::{LONGEST, Store};
use crate::moment::Moment;
use crate::refusal::Refusal;

/// Most jobs that one FETCH gets.
const MAX_FETCH: u64 = 1_000;

/// The contents of a FETCH.
#[derive(Debug, Clone, Default)]
pub struct Fetch {
    /// The queues, in the order in which they are looked through.
    pub queues: Vec<String>,
    /// How many jobs are wanted at most.
    pub count: u64,
    /// The worker that sent the request; `None`: it gives no name.
    pub worker: Option<String>,
    /// How long the jobs are to be reserved.
    pub visibility: Option<Duration>,
    /// How long jobs are reserved if neither the request nor the job names a time.
    pub default_visibility: Option<Duration>,
    /// Whether a quiet worker, by directive or by its own report, still gets jobs.
    pub ignores_quiet: bool,
}

impl Store {
    /// Hands out jobs: in the order of the queues, in each by priority and age.
    ///
    /// # Errors
    ///
    /// There are too many workers.
    pub fn fetch(&mut self, now: Moment, fetch: &Fetch) -> Result<Vec<JobId>, Refusal> {
        let worker: Option<WorkerId> = fetch.worker.as_deref().map(Arc::from);
        if let Some(worker) = &worker
            && !self.worker_or_new(now, worker)?.is_running()
            && !fetch.ignores_quiet
        {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for _ in 0..fetch.count.min(MAX_FETCH) {
            let Some(id) = self.next_of(&fetch.queues) else { break };
            let default = fetch.default_visibility.unwrap_or(self.settings.visibility_timeout);
            self.reserve(now, &id, worker.clone(), fetch.visibility, default);
            found.push(id);
        }
        Ok(found)
    }

    /// Hands out every available job that was delivered before, from all queues.
    pub fn take_over(&mut self, now: Moment, worker: &str) -> Vec<JobId> {
        let ready = self.index.queues.values().flat_map(|queue| queue.ready.values());
        let had = |id: &&JobId| self.jobs.get(*id).is_some_and(|job| job.times_delivered > 0);
        let found: Vec<JobId> = ready.filter(had).cloned().collect();
        for id in &found {
            self.reserve(now, id, Some(Arc::from(worker)), None, self.settings.visibility_timeout);
        }
        found
    }

    /// Makes a job active, for a worker with or without a name.
    pub(super) fn reserve(
        &mut self,
        now: Moment,
        id: &JobId,
        worker: Option<WorkerId>,
        visibility: Option<Duration>,
        default: Duration,
    ) {
        let is_ended_here = self.ends_executions_of(worker.as_ref());
        self.change(id, |job| {
            let length = visibility.or(job.visibility).unwrap_or(default);
            let length = length.min(LONGEST);
            job.state = JobState::Active;
            job.attempt = job.attempts_used + 1;
            job.started_at = Some(now);
            job.times_out_at = job
                .timeout
                .filter(|_| is_ended_here)
                .map(|timeout| now + timeout.min(LONGEST));
            job.due_at = Some((now + length).min(job.times_out_at.unwrap_or(now + length)));
            job.reservation = Some(Reservation { worker, length });
            job.progress = None;
            job.deliver(now);
        });
    }

    /// The next job to hand out from these queues.
    fn next_of(&self, queues: &[String]) -> Option<JobId> {
        let open = queues.iter().filter_map(|name| self.index.queues.get(name.as_str()));
        let mut ready = open
            .filter(|queue| queue.paused_at.is_none())
            .map(|queue| queue.ready.first_key_value());
        ready.find_map(|first| first.map(|(_, id)| Arc::clone(id)))
    }
}
