//! The processes that a suspect can have for itself, and the pulls that get jobs.

use crate::api::ids::{HolderId, ProcessId, Text};
use crate::api::{OfPull, Subject};
use crate::worker::holder::Holder;
use crate::worker::workers::Workers;

impl Workers {
    /// Deals a job of this queue out to the oldest pull that accepts it, and spends the credit of
    /// that pull.
    pub(crate) fn deal(&mut self, queue: &Text) -> Option<OfPull> {
        let pull = self.pulls.oldest_for(queue)?;
        let holder = self.pulls.get(pull)?.holder;
        self.pulls.spend(pull);
        Some(OfPull { pull, holder })
    }

    /// The process with the fewest jobs that accepts this job. None if no process accepts the job,
    /// or only processes with one job at a time.
    pub(crate) fn emptiest_taker(&self, job: &Subject, bytes: usize) -> Option<ProcessId> {
        let processes = self.holders.iter().map(|(_, holder)| holder.process);
        let takers = processes.filter(|process| self.takers_in(*process, job, bytes).next().is_some());
        let takers: Vec<ProcessId> = takers.collect();
        let are_needed = takers.iter().any(|process| self.takes_several(*process));
        let takers = takers.into_iter().filter(|_| are_needed);
        takers.min_by_key(|process| self.holders.jobs_of(*process))
    }

    /// Whether a process may hold several jobs at a time.
    fn takes_several(&self, process: ProcessId) -> bool {
        let holders = || self.holders.of(process).map(|(_, holder)| holder);
        let most = holders().filter_map(|holder| holder.ready.as_ref());
        let most: u64 = most.map(|ready| u64::from(ready.concurrency)).sum();
        most > 1 || holders().any(|holder| holder.asked_queues.has_asked())
    }

    /// The holders of a process that accept this job, now or later.
    pub(crate) fn takers_in(
        &self,
        process: ProcessId,
        job: &Subject,
        bytes: usize,
    ) -> impl Iterator<Item = (HolderId, &Holder)> {
        let is_ending = self.holders.ending(process).is_some() || self.holders.is_gone(process);
        let theirs = self.holders.of(process).filter(move |_| !is_ending);
        theirs.filter(move |(_, holder)| takes(holder, job, bytes))
    }

    /// A holder of this process that can be given this job now.
    pub(crate) fn idle_in(&self, process: ProcessId, job: &Subject, bytes: usize) -> Option<HolderId> {
        let is_idle = |(_, holder): &(HolderId, &Holder)| holder.free() > 0 && !holder.has_unread_output;
        self.takers_in(process, job, bytes).find(is_idle).map(|(id, _)| id)
    }

    /// The oldest pull of a holder of this process that accepts a job of this queue.
    pub(crate) fn pull_in(&self, process: ProcessId, queue: &Text) -> Option<OfPull> {
        let mut holders = self.holders.of(process).map(|(id, _)| id);
        holders.find_map(|holder| {
            let pull = self.pulls.of_holder_for(holder, queue)?;
            Some(OfPull { pull, holder })
        })
    }
}

fn takes(holder: &Holder, job: &Subject, bytes: usize) -> bool {
    let is_offered = holder.ready.as_ref().is_some_and(|ready| {
        let types = ready.types.as_ref();
        let fits = holder.manners.frame_limit.is_none_or(|most| bytes <= most);
        ready.concurrency > 0 && fits && types.is_none_or(|types| types.contains(&job.kind))
    });
    holder.is_there() && (is_offered || holder.asked_queues.take(&job.queue))
}
