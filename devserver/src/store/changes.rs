//! The last changes of jobs' states, in order, for the streams.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::job::{Job, JobId, JobState};
use crate::moment::Moment;

/// Most changes that are kept; a later reader has missed the older ones.
const MAX_CHANGES: usize = 1_000;

/// A job got into another state.
#[derive(Debug, Clone)]
pub struct Change {
    /// Counts from 1 and has no gaps.
    pub number: u64,
    pub at: Moment,
    pub job: JobId,
    pub queue: Arc<str>,
    pub kind: String,
    /// The former state; of a new job `pending`.
    pub from: JobState,
    pub to: JobState,
    pub attempt: u32,
    /// The duration of the execution that this change ended.
    pub took: Option<Duration>,
}

impl Change {
    /// The specification's name of the event; `None`: there is none for this change.
    pub fn event(&self) -> Option<&'static str> {
        match (self.from, self.to) {
            (JobState::Pending, JobState::Available) => Some("job.enqueued"),
            (_, JobState::Scheduled) => Some("job.scheduled"),
            (_, JobState::Active) => Some("job.started"),
            (_, JobState::Completed) => Some("job.completed"),
            (_, JobState::Retryable) => Some("job.retrying"),
            (_, JobState::Discarded) => Some("job.discarded"),
            (_, JobState::Cancelled) => Some("job.cancelled"),
            (_, JobState::Available | JobState::Pending) => None,
        }
    }
}

/// The last changes.
#[derive(Debug, Default)]
pub struct Changes {
    ring: VecDeque<Change>,
    newest: u64,
    /// The time of the last tick of the store.
    now: Moment,
}

impl Changes {
    /// Lets later changes happen at this time.
    pub fn set_now(&mut self, now: Moment) {
        self.now = now;
    }

    /// Records the state of a job, unless it is the former state.
    pub fn note(&mut self, job: &Job, from: JobState) {
        if from == job.state {
            return;
        }
        if self.ring.len() >= MAX_CHANGES {
            self.ring.pop_front();
        }
        self.newest += 1;
        self.ring.push_back(Change {
            number: self.newest,
            at: self.now,
            job: Arc::clone(&job.id),
            queue: Arc::clone(&job.queue),
            kind: job.kind.clone(),
            from,
            to: job.state,
            attempt: job.attempt,
            took: job
                .started_at
                .filter(|_| from == JobState::Active)
                .map(|started_at| self.now.saturating_sub(started_at)),
        });
    }

    /// The number of the newest change; 0: there was none.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// The changes that are remembered, newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Change> {
        self.ring.iter().rev()
    }

    /// The changes after that number, oldest first, and how many more there were that are
    /// forgotten.
    pub fn after(&self, number: u64) -> (u64, impl Iterator<Item = &Change>) {
        let oldest = self.ring.front().map_or(self.newest + 1, |change| change.number);
        let missed = oldest.saturating_sub(number.saturating_add(1));
        let seen = number.saturating_add(1).saturating_sub(oldest);
        let later = self.ring.iter().skip(usize::try_from(seen).unwrap_or(usize::MAX));
        (missed, later)
    }
}
