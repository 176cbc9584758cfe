//! The limits of a worker process, and the step of its recycling.

use std::time::Duration;

use crate::api::{Moment, ProcessId, RecycleLimits, RecycleReason};

/// Each life of the worker gets less of a limit by chance, at most one part in this many.
const SPREAD: u64 = 5;

/// The limits of the present worker, and the steps of its recycling.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Recycling {
    /// Worker processes that were started so far.
    pub(crate) lives: u64,
    /// Jobs that the present worker was given.
    pub(super) jobs: u64,
    /// After so many jobs the present worker is recycled.
    pub(super) most_jobs: Option<u64>,
    /// So long after it was ready the present worker is recycled.
    pub(super) most_age: Option<Duration>,
    pub(super) stage: Option<(RecyclingStage, RecycleReason, Moment)>,
    /// The other one, while two worker processes run.
    pub(super) beside: Option<Beside>,
    /// The old one of two worker processes was asked to end.
    pub(super) is_old_asked: bool,
    /// Next processes in a row that did not start, or did not become ready.
    pub(super) failures: u32,
}

/// The step of a recycling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum RecyclingStage {
    /// The next worker process starts, and the old one works.
    Preparing,
    /// The next worker process did not start, or did not become ready. The old one works until
    /// another attempt.
    Paused,
    /// The worker finishes its jobs.
    Draining,
    /// The grace period is over, and the worker has the cancel grace to answer.
    Cancelling,
    /// The worker was asked to end.
    Ending,
    /// The worker has ended, and the next one is not ready yet.
    Starting,
}

impl Recycling {
    /// Whether the worker gets not even the jobs that ojs-init has already.
    pub(crate) fn is_over_for_jobs(&self) -> bool {
        !self.has_old() && (self.is(RecyclingStage::Cancelling) || self.is(RecyclingStage::Ending))
    }

    /// Whether the worker has had its time for its jobs.
    pub(crate) fn is_cancelling(&self) -> bool {
        self.is(RecyclingStage::Cancelling)
    }

    /// Why the worker is being recycled, until the next worker is ready, and since when.
    pub(crate) fn under_way(&self) -> Option<(RecycleReason, Moment)> {
        self.stage.map(|(_, reason, since)| (reason, since))
    }

    /// Whether the worker that was started last gets no further jobs.
    pub(crate) fn is_closed_for_jobs(&self) -> bool {
        !self.has_old() && (self.is_draining() || self.is(RecyclingStage::Ending))
    }

    /// Whether the old worker process finishes its jobs beside the next one.
    pub(crate) fn has_old(&self) -> bool {
        matches!(self.beside, Some(Beside::Old(_)))
    }

    /// Whether jobs wait because of the recycling, until the next worker is ready.
    pub(crate) fn is_felt(&self) -> bool {
        self.is_closed_for_jobs() || self.is(RecyclingStage::Starting)
    }

    /// Whether the worker finishes its jobs before it is asked to end.
    pub(crate) fn is_draining(&self) -> bool {
        self.is(RecyclingStage::Draining) || self.is(RecyclingStage::Cancelling)
    }

    /// Whether the worker was given all its jobs and goes on.
    pub(crate) fn is_at_its_limit(&self) -> bool {
        self.most_jobs.is_some_and(|most| self.jobs >= most) && self.stage.is_none()
    }

    pub(super) fn is(&self, stage: RecyclingStage) -> bool {
        self.stage.is_some_and(|(present, ..)| present == stage)
    }

    pub(super) fn go_to(&mut self, stage: RecyclingStage) {
        if let Some((present, ..)) = &mut self.stage {
            *present = stage;
        }
    }

    /// The worker was given so many more jobs.
    pub(super) fn was_given(&mut self, jobs: usize) {
        self.jobs += u64::try_from(jobs).unwrap_or(u64::MAX);
    }

    /// Begins the life of a worker process. `chance` is a share in 1,024ths, drawn for this life.
    pub(super) fn begins(&mut self, limits: &RecycleLimits, chance: u64) {
        self.lives += 1;
        self.jobs = 0;
        let lessened = |most: u64| most - most.saturating_mul(chance.min(1024)) / 1024 / SPREAD;
        self.most_jobs = limits.max_jobs.map(|most| lessened(most.into()).max(1));
        let age = |age: Duration| lessened(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        self.most_age = limits.max_age.map(|most| Duration::from_millis(age(most)));
    }
}

/// The worker process beside the one that gets jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Beside {
    /// The next process, which is not ready yet.
    Next {
        process: ProcessId,
        started_at: Moment,
        /// The chance of its limits.
        chance: u64,
    },
    /// The old process, which gets no more jobs.
    Old(ProcessId),
}
