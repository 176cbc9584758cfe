//! The jobs, and every rule about them. No clock and no socket: each call gets the time since the
//! start of the server, and returns the answer.
//!
//! | question | files |
//! |---|---|
//! | what is a job? | `job`, `envelope`, `new_job`, `snapshot` |
//! | how is a job added, handed out and ended? | `enqueue`, `fetch`, `outcome`, `retry`, `dead_letter`, `progress` |
//! | which worker has it? | `worker`, `workers` |
//! | which timers fire? | `timers` |
//! | how is a job found, and which changes do streams read? | `index`, `queues`, `changes` |
//!
//! Start with `job`, then [`Store`].

pub mod changes;
mod dead_letter;
mod enqueue;
pub mod envelope;
pub mod fetch;
mod index;
pub mod job;
pub mod new_job;
mod outcome;
mod progress;
mod queues;
mod retry;
pub mod snapshot;
mod timers;
pub mod worker;
mod workers;

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod workers_tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use changes::Changes;
use index::Index;
use job::{Job, JobId, WorkerId};
use worker::Worker;

use crate::moment::Moment;

/// Longest delay of any timer: about 30 years.
const LONGEST: Duration = Duration::from_secs(1_000_000_000);

/// Options of a store.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// How long a job is reserved if neither the job nor the worker names a time.
    pub visibility_timeout: Duration,
    /// How long a worker may be silent.
    pub heartbeat_timeout: Duration,
    /// Whether executions end at the job's timeout, unless their worker has registered.
    pub enforces_timeouts: bool,
    /// Most jobs, finished ones included.
    pub max_jobs: usize,
}

/// The whole state of the backend.
#[derive(Debug)]
pub struct Store {
    settings: StoreSettings,
    /// The wall clock at the start.
    epoch: Timestamp,
    random: fastrand::Rng,
    jobs: BTreeMap<JobId, Job>,
    by_number: BTreeMap<u64, JobId>,
    index: Index,
    workers: BTreeMap<WorkerId, Worker>,
    /// When each worker last beat, the longest ago first.
    heartbeats: BTreeSet<(Moment, WorkerId)>,
    next_number: u64,
    changes: Changes,
}

impl Store {
    /// An empty store. `epoch` is the wall clock at the start; `seed` decides the jitter of
    /// retries.
    pub fn new(settings: StoreSettings, epoch: Timestamp, seed: u64) -> Self {
        Self {
            settings,
            epoch,
            random: fastrand::Rng::with_seed(seed),
            jobs: BTreeMap::new(),
            by_number: BTreeMap::new(),
            index: Index::default(),
            workers: BTreeMap::new(),
            heartbeats: BTreeSet::new(),
            next_number: 0,
            changes: Changes::default(),
        }
    }

    /// The changes of jobs.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// The wall clock at the start.
    pub fn epoch(&self) -> Timestamp {
        self.epoch
    }

    /// The job of that id.
    pub fn job(&self, id: &str) -> Option<&Job> {
        self.jobs.get(id)
    }

    fn forget_the_oldest(&mut self) {
        while self.jobs.len() > self.settings.max_jobs {
            let Some((_, number)) = self.index.ended.first().cloned() else {
                return;
            };
            self.forget(number);
        }
    }

    /// Removes a job from the store.
    fn forget(&mut self, number: u64) {
        let id = self.by_number.remove(&number);
        if let Some(job) = id.and_then(|id| self.jobs.remove(&id)) {
            self.index.remove(&job);
        }
    }

    /// The only way to change a job: every look-up follows.
    fn change<T>(&mut self, id: &str, edit: impl FnOnce(&mut Job) -> T) -> Option<T> {
        let job = self.jobs.get_mut(id)?;
        self.index.remove(job);
        let from = job.state;
        let result = edit(job);
        self.index.insert(job);
        self.changes.note(job, from);
        Some(result)
    }
}
