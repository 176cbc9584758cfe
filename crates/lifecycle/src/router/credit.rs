//! Room for jobs: the credit of the holders, and the concurrency.

use crate::machine::Lifecycle;

impl Lifecycle {
    /// Jobs that can be fetched now: none outside the phase running, and no more than holders and
    /// concurrency have room for. This is the sum for the metrics and the invariants. A FETCH asks
    /// for its own part of these jobs: see [`Demand`](crate::backend::fetch::Demand).
    pub(crate) fn credit(&self) -> usize {
        self.room().min(self.pushed_credit() + self.workers.pulls.wanted())
    }

    /// Jobs that the concurrency has room for, with or without a taker.
    pub(crate) fn room(&self) -> usize {
        let is_recycling = self.workers.recycling.is_closed_for_jobs();
        if self.is_open_for_jobs() && !is_recycling && !self.ending.has_its_one_job(&self.options) {
            self.most_active().saturating_sub(self.jobs.ledger.reserved())
        } else {
            0
        }
    }

    /// Jobs that holders are ready for which did not ask for each.
    pub(crate) fn pushed_credit(&self) -> usize {
        // A process that is kept for a suspect accepts no other job. Each suspect that waits needs
        // a slot as well, although only one is isolated: a further suspect could only wait behind
        // the others, and there may be more suspects than slots.
        let kept = self.workers.kept_room();
        let suspects = self.jobs.ledger.suspects().len();
        let waiting = self.jobs.ledger.waiting().len() - suspects;
        self.workers
            .holders
            .free()
            .saturating_sub(kept.max(suspects))
            .saturating_sub(waiting)
    }

    /// How many jobs may be active.
    pub(crate) fn most_active(&self) -> usize {
        usize::try_from(self.options.concurrency).unwrap_or(usize::MAX)
    }

    /// How many jobs the holders accept together, within the concurrency.
    pub(crate) fn capacity(&self) -> usize {
        let holders = usize::try_from(self.workers.holders.concurrency()).unwrap_or(usize::MAX);
        holders.min(self.most_active())
    }
}
