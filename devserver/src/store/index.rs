//! Look-ups of jobs by other things than their id. Kept in step with the jobs by
//! [`super::Store::change`] alone.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::job::{Job, JobId, JobState, WorkerId};
use crate::moment::Moment;

/// A queue: which of its jobs can be fetched, best first.
#[derive(Debug)]
pub struct Queue {
    pub created_at: Moment,
    pub paused_at: Option<Moment>,
    pub ready: BTreeMap<(Reverse<i64>, u64), JobId>,
    /// How many of its jobs are in each state.
    pub counts: Counts,
}

/// How many jobs are in each state.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts([usize; JobState::ALL.len()]);

impl Counts {
    /// How many jobs are in a state.
    pub fn of(&self, state: JobState) -> usize {
        self.0.get(state as usize).copied().unwrap_or_default()
    }

    fn add(&mut self, state: JobState) {
        if let Some(count) = self.0.get_mut(state as usize) {
            *count += 1;
        }
    }

    fn take(&mut self, state: JobState) {
        if let Some(count) = self.0.get_mut(state as usize) {
            *count = count.saturating_sub(1);
        }
    }
}

/// All look-ups of jobs.
#[derive(Debug, Default)]
pub struct Index {
    /// Jobs with a timer, soonest first.
    pub timers: BTreeSet<(Moment, JobId)>,
    /// All queues that ever existed.
    pub queues: BTreeMap<Arc<str>, Queue>,
    /// Active jobs of each worker that has any; the empty name stands for workers without a name.
    pub held: BTreeMap<WorkerId, BTreeSet<JobId>>,
    /// Most jobs that each worker ever had at once.
    pub peaks: BTreeMap<WorkerId, usize>,
    /// Ended jobs, the oldest end first.
    pub ended: BTreeSet<(Moment, u64)>,
    counts: Counts,
}

/// Most workers whose peak is recorded.
const MAX_PEAKS: usize = 10_000;

impl Index {
    /// How many jobs are in a state.
    pub fn count(&self, state: JobState) -> usize {
        self.counts.of(state)
    }

    /// Jobs that have not ended.
    pub fn unfinished(&self) -> usize {
        JobState::ALL
            .iter()
            .filter(|state| !state.is_terminal())
            .map(|state| self.count(*state))
            .sum()
    }

    /// The queue of that name; created if there is none.
    pub fn queue(&mut self, name: &Arc<str>, now: Moment) -> &mut Queue {
        self.queues.entry(Arc::clone(name)).or_insert_with(|| Queue {
            created_at: now,
            paused_at: None,
            ready: BTreeMap::new(),
            counts: Counts::default(),
        })
    }

    /// Adds a job in its present state.
    pub fn insert(&mut self, job: &Job) {
        self.counts.add(job.state);
        if let Some(due) = job.due_at {
            self.timers.insert((due, Arc::clone(&job.id)));
        }
        if let Some(ended_at) = job.ended_at {
            self.ended.insert((ended_at, job.number));
        }
        if let Some(queue) = self.queues.get_mut(&job.queue) {
            queue.counts.add(job.state);
            if job.state == JobState::Available {
                let place = (Reverse(job.priority), job.number);
                queue.ready.insert(place, Arc::clone(&job.id));
            }
        }
        if job.reservation.is_some() {
            let worker = holder(job);
            let held = self.held.entry(Arc::clone(&worker)).or_default();
            held.insert(Arc::clone(&job.id));
            let now_held = held.len();
            if self.peaks.len() < MAX_PEAKS || self.peaks.contains_key(&worker) {
                let peak = self.peaks.entry(worker).or_default();
                *peak = now_held.max(*peak);
            }
        }
    }

    /// Removes a job before it is changed.
    pub fn remove(&mut self, job: &Job) {
        self.counts.take(job.state);
        if let Some(due) = job.due_at {
            self.timers.remove(&(due, Arc::clone(&job.id)));
        }
        if let Some(ended_at) = job.ended_at {
            self.ended.remove(&(ended_at, job.number));
        }
        if let Some(queue) = self.queues.get_mut(&job.queue) {
            queue.counts.take(job.state);
            if job.state == JobState::Available {
                queue.ready.remove(&(Reverse(job.priority), job.number));
            }
        }
        if job.reservation.is_some() {
            let worker = holder(job);
            if let Some(held) = self.held.get_mut(&worker) {
                held.remove(&job.id);
                if held.is_empty() {
                    self.held.remove(&worker);
                }
            }
        }
    }
}

fn holder(job: &Job) -> WorkerId {
    job.worker().cloned().unwrap_or_default()
}
