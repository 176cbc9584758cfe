//! Recycling of the worker: when it is due, and its steps. The worker gets no new jobs, finishes
//! the ones that it has, is asked to end, and starts again. To the backend it is the same worker.

use std::time::Duration;

use crate::api::{EndCause, HolderId, ProcessId, RecycleReason, WorkerNotice, WorkerTimer};
use crate::worker::recycling_state::RecyclingStage;
use crate::worker::supervision::WorkerProcessState;
use crate::worker::workers::{Context, Workers};
use crate::worker::workers_said::Said;
use ojs_values::signal::Signal;
use ojs_values::small;

/// `worker.max_memory` counts after so many jobs, or after `LIFE_BEFORE_MEMORY_COUNTS`.
const JOBS_BEFORE_MEMORY_COUNTS: u64 = 10;

/// See `JOBS_BEFORE_MEMORY_COUNTS`.
const LIFE_BEFORE_MEMORY_COUNTS: Duration = Duration::from_secs(60);

/// When the age of a worker counts again if a recycling was under way.
const AGE_AGAIN: Duration = Duration::from_secs(1);

impl Workers {
    /// Begins the age of a worker process that is ready for the first time. A process that needs
    /// longer to start than it may live would otherwise never get a job.
    pub(super) fn age_begins(&mut self, cx: &Context) {
        // A process that a worker has left behind may be ready as well.
        let counts = self.supervision.is_alive() && !cx.is_terminating();
        if let Some(age) = self.recycling.most_age.filter(|_| counts) {
            self.timers.arm(WorkerTimer::MaxAge, cx.now.after(age));
        }
    }

    /// Begins the recycling of the worker. Returns false if the worker does not run, is being
    /// recycled already, or ojs-init ends.
    pub(crate) fn recycle(&mut self, reason: RecycleReason, cx: &Context) -> bool {
        let is_under_way = self.recycling.stage.is_some() && !self.recycling.is(RecyclingStage::Starting);
        if !self.supervision.is_alive() || cx.is_terminating() || is_under_way {
            return false;
        }
        let grace = cx.options.times.grace_period;
        self.recycling.stage = Some((RecyclingStage::Draining, reason, cx.now));
        self.timers.cancel(WorkerTimer::MaxAge);
        let held = self.holders.with_jobs().map(|(_, holder)| holder.held).sum();
        self.notify(WorkerNotice::Recycling { reason, held, grace });
        if Self::may_overlap(cx) {
            self.prepare_next();
        } else {
            self.drain_recycled(cx);
        }
        true
    }

    /// The process that is recycled has this long to finish its jobs.
    pub(super) fn drain_recycled(&mut self, cx: &Context) {
        self.recycling.go_to(RecyclingStage::Draining);
        self.timers
            .arm(WorkerTimer::Recycle, cx.now.after(cx.options.times.grace_period));
    }

    /// Begins the recycling of a worker that was given all its jobs.
    pub(crate) fn recycle_if_due(&mut self, cx: &Context) {
        self.recycle(RecycleReason::Jobs(self.recycling.jobs), cx);
    }

    /// The worker has reached its longest age.
    pub(super) fn is_of_age(&mut self, cx: &Context) {
        let is_alive = self.supervision.is_alive() && !cx.is_terminating();
        if !self.recycle(RecycleReason::Age(self.supervision.up(cx.now)), cx) && is_alive {
            // The old one of two worker processes has not ended yet.
            self.timers.arm(WorkerTimer::MaxAge, cx.now.after(AGE_AGAIN));
        }
    }

    /// The worker and its descendants use so many bytes.
    pub(crate) fn memory_is(&mut self, bytes: u64, cx: &Context) {
        let counts = self.recycling.jobs >= JOBS_BEFORE_MEMORY_COUNTS
            || self.supervision.up(cx.now) >= LIFE_BEFORE_MEMORY_COUNTS;
        if counts && cx.options.recycle.max_memory.is_some_and(|most| bytes > most) {
            self.recycle(RecycleReason::Memory(bytes), cx);
        }
    }

    /// Asks the worker to end, because it has finished its jobs or has had its time for them. It
    /// has the rest of that time for its exit handlers, and no less than the cancel grace.
    pub(crate) fn end_recycled(&mut self, cx: &Context) {
        let left = self.timers.deadline_of(WorkerTimer::Recycle);
        let left = left.map_or(Duration::ZERO, |at| at.remaining(cx.now));
        self.recycling.go_to(RecyclingStage::Ending);
        if self.recycling.has_old() {
            self.ask_old_to_end();
        } else if let Some(process) = self.supervision.process() {
            self.blame(process, &EndCause::Recycled, cx);
            // A second SIGTERM ends some programs on the spot.
            self.supervision.is_asked_to_end |= self.holders.ending(process) == Some(&EndCause::Recycled);
            self.ask_worker_to_end();
        }
        let patience = left.max(cx.options.cancel_grace);
        self.timers.arm(WorkerTimer::Recycle, cx.now.after(patience));
    }

    /// The time of the present stage has passed.
    pub(super) fn recycle_is_due(&mut self, cx: &Context) {
        if !self.supervision.is_alive() {
            return;
        }
        match self.recycling.stage {
            Some((RecyclingStage::Draining, ..)) => self.cancel_recycled(cx),
            Some((RecyclingStage::Cancelling, ..)) => self.end_recycled_with_jobs(cx),
            Some((RecyclingStage::Ending, ..)) => {
                self.notify_of_kill();
                self.signal_recycled(Signal::KILL);
            }
            Some((RecyclingStage::Preparing, ..)) => self.end_next(),
            Some((RecyclingStage::Paused, ..)) => self.prepare_next(),
            Some((RecyclingStage::Starting, ..)) | None => {}
        }
    }

    /// Cancels the jobs that go on at the end of the grace period. A SIGTERM is all that a holder
    /// that receives no cancel can get. A worker that ends now ends because of that: the runner of
    /// mode exec does when its jobs are cut off, and a worker behind the gateway by the SIGTERM.
    fn cancel_recycled(&mut self, cx: &Context) {
        self.recycling.go_to(RecyclingStage::Cancelling);
        let has_old = self.recycling.has_old();
        if let Some(main) = self.supervision.process().filter(|_| !has_old) {
            self.blame(main, &EndCause::Recycled, cx);
        }
        let busy = self.holders.with_jobs();
        let busy = busy.filter(|(_, holder)| !has_old || self.holders.is_old(holder.process));
        let (hearing, deaf): (Vec<_>, Vec<_>) = busy.partition(|(_, holder)| holder.manners.hears);
        let hearing: Vec<HolderId> = hearing.into_iter().map(|(id, _)| id).collect();
        let deaf: Vec<ProcessId> = deaf.into_iter().map(|(_, holder)| holder.process).collect();
        self.say(Said::Ending(hearing));
        for process in deaf {
            self.end_process(process, EndCause::Recycled, cx);
        }
        self.timers
            .arm(WorkerTimer::Recycle, cx.now.after(cx.options.cancel_grace));
    }

    /// Ends the processes whose jobs were not answered in the cancel grace, and the worker.
    fn end_recycled_with_jobs(&mut self, cx: &Context) {
        let has_old = self.recycling.has_old();
        let busy = self.holders.with_jobs().map(|(_, holder)| holder.process);
        let busy: Vec<ProcessId> = small::gather(busy.filter(|process| !has_old || self.holders.is_old(*process)));
        for process in busy {
            self.end_process(process, EndCause::Recycled, cx);
        }
        self.end_recycled(cx);
    }

    /// The worker has ended. If ojs-init has not ended it for that, it is not being recycled.
    pub(super) fn recycled_worker_ended(&mut self, cx: &Context) {
        self.timers.cancel(WorkerTimer::Recycle);
        self.timers.cancel(WorkerTimer::MaxAge);
        let is_recycled =
            self.recycling.is(RecyclingStage::Ending) || self.supervision.ended_for == Some(EndCause::Recycled);
        if is_recycled && self.recycling.beside.is_none() {
            self.recycling.go_to(RecyclingStage::Ending);
        } else {
            if !self.waits_for_old(cx) {
                self.nobody_is_beside(cx);
            }
            self.recycling.stage = None;
        }
    }

    /// Whether the next worker follows at once, because the last one was recycled.
    pub(super) fn next_follows_recycled(&mut self) -> bool {
        // Also after a start for which there was no process.
        let was_recycled = self.recycling.stage.is_some();
        self.recycling.go_to(RecyclingStage::Starting);
        if was_recycled {
            self.supervision.state = WorkerProcessState::Between;
        }
        was_recycled
    }

    /// The next worker is ready.
    pub(super) fn next_is_ready(&mut self, cx: &Context) {
        if self.recycling.is(RecyclingStage::Starting) {
            self.recycling_is_done(cx);
        }
    }

    pub(super) fn recycling_is_done(&mut self, cx: &Context) {
        if let Some((_, reason, since)) = self.recycling.stage.take() {
            let took = since.elapsed(cx.now);
            self.notify(WorkerNotice::Recycled { reason, took });
        }
    }

    /// There will be no next worker. The old one of two goes on, because the drain is granted to
    /// both.
    pub(super) fn recycling_is_off(&mut self, cx: &Context) {
        if !self.recycling.has_old() {
            self.nobody_is_beside(cx);
        }
        self.recycling.stage = None;
        self.timers.cancel(WorkerTimer::Recycle);
        self.timers.cancel(WorkerTimer::MaxAge);
    }
}
