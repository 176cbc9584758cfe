//! The figures of one life of a fleet.

use std::time::Duration;

use ojs_lifecycle::api::{Call, Reply};

use super::backend::{Change, Job};
use super::conditions::Conditions;

/// The cause of a FETCH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// An event stream has brought it forward.
    WakeUp,
    /// The pause after an empty FETCH ended.
    Poll,
    /// A place became free, or a FETCH that brought jobs asks for more.
    Other,
}

/// The figures. Requests and jobs are those of the measurement.
#[derive(Debug)]
pub struct Account {
    conditions: Conditions,
    pub woken_fetches: u64,
    pub polls: u64,
    pub other_fetches: u64,
    /// FETCHes that brought no job.
    pub empty_fetches: u64,
    pub heartbeats: u64,
    /// ACKs, and all other requests except FETCHes and heartbeats.
    pub other_requests: u64,
    /// Jobs that were enqueued.
    pub jobs: usize,
    /// From the job's enqueueing to its handler, in ascending order.
    pub pick_ups: Vec<Duration>,
    /// Jobs of each worker.
    pub jobs_of_workers: Vec<u32>,
    /// Jobs in answers that arrived after the machine had given up the request, at any time.
    pub lost: u64,
    /// Jobs that were not done exactly once, at any time.
    pub wrong: usize,
}

impl Account {
    pub(super) fn new(conditions: &Conditions) -> Self {
        Self {
            conditions: conditions.clone(),
            woken_fetches: 0,
            polls: 0,
            other_fetches: 0,
            empty_fetches: 0,
            heartbeats: 0,
            other_requests: 0,
            jobs: 0,
            pick_ups: Vec::new(),
            jobs_of_workers: vec![0; conditions.workers],
            lost: 0,
            wrong: 0,
        }
    }

    pub(super) fn sent(&mut self, call: &Call, cause: Cause, now: Duration) {
        if !self.conditions.is_measured(now) {
            return;
        }
        let count = match call {
            Call::Fetch { .. } => match cause {
                Cause::WakeUp => &mut self.woken_fetches,
                Cause::Poll => &mut self.polls,
                Cause::Other => &mut self.other_fetches,
            },
            Call::Heartbeat { .. } => &mut self.heartbeats,
            Call::Register { .. }
            | Call::Report { .. }
            | Call::GetJob { .. }
            | Call::Progress { .. }
            | Call::Checkpoint { .. }
            | Call::Manifest
            | Call::Listen { .. }
            | Call::Deregister { .. } => &mut self.other_requests,
        };
        *count += 1;
    }

    pub(super) fn answered(&mut self, reply: &Reply, now: Duration) {
        let is_empty = matches!(reply, Reply::Fetched(jobs) if jobs.is_empty());
        self.empty_fetches += u64::from(is_empty && self.conditions.is_measured(now));
    }

    /// A worker's handler begins with a job.
    pub(super) fn picked_up(&mut self, worker: usize, enqueued: Duration, now: Duration) {
        if self.conditions.is_measured(enqueued) {
            self.pick_ups.push(now - enqueued);
            self.jobs_of_workers[worker] += 1;
        }
    }

    pub(super) fn close(&mut self, jobs: &[Job]) {
        self.pick_ups.sort_unstable();
        let is_measured = |job: &&Job| self.conditions.is_measured(job.enqueued);
        self.jobs = jobs.iter().filter(is_measured).count();
        let is_wrong = |job: &&Job| job.state != Change::Completed || job.runs != 1;
        self.wrong = jobs.iter().filter(is_wrong).count();
    }

    pub fn fetches(&self) -> u64 {
        self.woken_fetches + self.polls + self.other_fetches
    }

    /// The number for each job; `None` without jobs.
    pub fn for_each_job(&self, count: u64) -> Option<f64> {
        (self.jobs > 0).then(|| count as f64 / self.jobs as f64)
    }

    /// The pick-up that this share of the jobs does not exceed.
    pub fn pick_up(&self, share: f64) -> Option<Duration> {
        let last = self.pick_ups.len().checked_sub(1)?;
        let index = (self.pick_ups.len() as f64 * share).ceil() as usize;
        self.pick_ups.get(index.saturating_sub(1).min(last)).copied()
    }

    /// FETCHes that brought nothing and heartbeats, of one worker in a second.
    pub fn idle_requests_a_second(&self) -> f64 {
        let requests = self.empty_fetches + self.heartbeats;
        requests as f64 / self.conditions.workers as f64 / self.conditions.measured.as_secs_f64()
    }

    /// All requests that the backend gets in a second.
    pub fn requests_a_second(&self) -> f64 {
        let requests = self.fetches() + self.heartbeats + self.other_requests;
        requests as f64 / self.conditions.measured.as_secs_f64()
    }

    /// The jobs of the busiest worker over the mean of all; `None` without jobs.
    pub fn busiest_over_mean(&self) -> Option<f64> {
        let total: u32 = self.jobs_of_workers.iter().sum();
        let most = self.jobs_of_workers.iter().max().copied().unwrap_or(0);
        (total > 0).then(|| f64::from(most) * self.jobs_of_workers.len() as f64 / f64::from(total))
    }
}
