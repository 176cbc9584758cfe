//! Recycling without a gap: the next worker process is ready before the old one gets no more jobs.
//!
//! ```text
//!  old process   takes jobs  ........  finishes its jobs, is asked to end
//!  next process      starts, is ready |  takes jobs
//!                Preparing            | Draining, Cancelling, Ending
//! ```

use std::time::Duration;

use crate::api::{Effect, EndCause, HolderId, NotStarted, Phase, ProcessId, WorkerNotice, WorkerTimer, restart_pause};
use crate::worker::recycling_state::{Beside, RecyclingStage};
use crate::worker::supervision::WorkerProcessState;
use crate::worker::workers::{Context, Workers};
use ojs_values::signal::Signal;

impl Workers {
    /// Whether the next worker process may start while the old one works.
    pub(super) fn may_overlap(cx: &Context) -> bool {
        cx.options.recycle.overlap && cx.phase == Phase::Running
    }

    /// Orders the next worker process. The old one goes on until that is ready.
    pub(super) fn prepare_next(&mut self) {
        self.recycling.go_to(RecyclingStage::Preparing);
        self.timers.cancel(WorkerTimer::Recycle);
        self.order(Effect::StartNext);
    }

    /// The next worker process runs beside the old one. If none is wanted any more, it is ended.
    pub(crate) fn next_started(&mut self, process: ProcessId, chance: u64, cx: &Context) {
        if !self.recycling.is(RecyclingStage::Preparing) || self.recycling.beside.is_some() {
            return self.order(Effect::SignalProcess(process, Signal::KILL));
        }
        let started_at = cx.now;
        self.recycling.beside = Some(Beside::Next {
            process,
            started_at,
            chance,
        });
        self.holders.all_are_old();
        self.timers
            .arm(WorkerTimer::Recycle, cx.now.after(cx.options.ready_timeout));
    }

    /// The next worker process does not run. If there is no process or no memory for a second one,
    /// the old one ends first. A program that cannot run may be about to be replaced, so the old
    /// one goes on, and another attempt follows.
    pub(crate) fn next_not_started(&mut self, why: NotStarted, cx: &Context) {
        if !self.recycling.is(RecyclingStage::Preparing) {
            return;
        }
        match why {
            NotStarted::Shortage => self.drain_recycled(cx),
            NotStarted::Refused(_) => {
                self.put_off_next(cx);
            }
        }
    }

    /// The next worker process takes over with the first holder that is ready and not of the old
    /// one.
    pub(super) fn next_may_be_ready(&mut self, holder: HolderId, cx: &Context) {
        let Some(Beside::Next {
            process,
            started_at,
            chance,
        }) = self.recycling.beside
        else {
            return;
        };
        let of = self.holders.get(holder).map(|holder| holder.process);
        let is_of_next = of.is_some_and(|of| !self.holders.is_old(of) && Some(of) != self.supervision.process());
        let Some(old) = self.supervision.process().filter(|_| is_of_next) else {
            return;
        };
        self.recycling.beside = Some(Beside::Old(old));
        self.recycling.is_old_asked = false;
        self.recycling.failures = 0;
        self.supervision.state = WorkerProcessState::Alive(process);
        self.supervision.started_at = started_at;
        self.supervision.ready_since = Some(cx.now);
        self.supervision.blame = None;
        self.order(Effect::TakeOver(process));
        self.recycling.begins(&cx.options.recycle, chance);
        self.age_begins(cx);
        self.capacity_begins_anew();
        for old in self.holders.old_processes() {
            self.holders.give_up_on(old);
            let theirs: Vec<HolderId> = self.holders.of(old).map(|(id, _)| id).collect();
            for holder in theirs {
                self.end_pulls_of(holder);
            }
        }
        self.drain_recycled(cx);
    }

    /// A process that has just connected belongs to the old one. It gets no jobs once the next one
    /// has taken over, and ends with the old one.
    pub(crate) fn process_is_old(&mut self, process: ProcessId, cx: &Context) {
        match self.recycling.beside {
            Some(Beside::Next { .. }) => self.holders.is_old_as_well(process),
            Some(Beside::Old(_)) => {
                self.holders.is_old_as_well(process);
                self.holders.give_up_on(process);
            }
            None if cx.is_terminating() => {}
            // The old one has ended in this moment.
            None => self.end_process(process, EndCause::Recycled, cx),
        }
    }

    /// A process has ended that may be one of the two.
    pub(crate) fn one_of_two_is_gone(&mut self, process: ProcessId, cx: &Context) {
        match self.recycling.beside {
            Some(Beside::Next { process: next, .. }) if next == process => self.next_failed(cx),
            Some(Beside::Old(old)) if old == process => self.old_is_gone(cx),
            Some(_) | None => {}
        }
    }

    /// The next worker process has ended before it was ready. The old one goes on, and another
    /// attempt follows.
    fn next_failed(&mut self, cx: &Context) {
        let main = self.supervision.process();
        let theirs: Vec<ProcessId> = self.holders.processes().collect();
        for process in theirs {
            if !self.holders.is_old(process) && Some(process) != main {
                self.end_process(process, EndCause::Recycled, cx);
            }
        }
        self.nobody_is_beside(cx);
        let pause = self.put_off_next(cx);
        self.notify(WorkerNotice::NextNotReady(pause));
    }

    /// The next attempt to start the next worker process follows after this pause.
    fn put_off_next(&mut self, cx: &Context) -> Duration {
        self.recycling.go_to(RecyclingStage::Paused);
        let pause = restart_pause(self.recycling.failures);
        self.recycling.failures = self.recycling.failures.saturating_add(1);
        self.timers.arm(WorkerTimer::Recycle, cx.now.after(pause));
        pause
    }

    /// The old worker process has ended. What is left of its processes is ended as well.
    fn old_is_gone(&mut self, cx: &Context) {
        for process in self.holders.old_processes() {
            self.end_process(process, EndCause::Recycled, cx);
        }
        self.nobody_is_beside(cx);
        self.timers.cancel(WorkerTimer::Recycle);
        self.recycling_is_done(cx);
        if self.supervision.is_clearing() {
            self.limit_clearing(cx);
        }
    }

    /// Whether the descendants of a worker that has ended go on, because the old one of two worker
    /// processes is among them and has the rest of the drain for its jobs.
    pub(super) fn waits_for_old(&self, cx: &Context) -> bool {
        cx.is_terminating() && !cx.is_ending_the_worker() && self.recycling.has_old()
    }

    /// Asks the old one of two worker processes to end, if there is one. Once: a second SIGTERM
    /// ends some programs on the spot.
    pub(super) fn ask_old_to_end(&mut self) {
        if self.recycling.has_old() && !std::mem::replace(&mut self.recycling.is_old_asked, true) {
            self.signal_recycled(Signal::TERM);
            self.signal_recycled(Signal::CONT);
        }
    }

    /// Asks a next worker process that is not ready to end, because it will get no job.
    pub(super) fn ask_next_to_end(&mut self) {
        if let Some(Beside::Next { process, .. }) = self.recycling.beside {
            self.order(Effect::SignalProcess(process, Signal::TERM));
            self.order(Effect::SignalProcess(process, Signal::CONT));
        }
    }

    /// Sends a signal to the process that is being recycled.
    pub(super) fn signal_recycled(&mut self, signal: Signal) {
        match self.recycling.beside {
            // A process that is ended with its jobs has its signals already.
            Some(Beside::Old(process)) if self.holders.ending(process).is_some() => {}
            Some(Beside::Old(process)) => self.order(Effect::SignalProcess(process, signal)),
            Some(Beside::Next { .. }) | None => self.signal_worker(signal),
        }
    }

    /// Time for which the next worker process was not ready has passed: it is ended.
    pub(super) fn end_next(&mut self) {
        if let Some(Beside::Next { process, .. }) = self.recycling.beside {
            self.order(Effect::SignalProcess(process, Signal::KILL));
        }
    }

    /// One worker process is left or none, or ojs-init ends: any other is a descendant like all.
    /// In a shutdown the jobs of the old one stay with its descendants, as those of the worker do.
    pub(super) fn nobody_is_beside(&mut self, cx: &Context) {
        self.recycling.beside = None;
        if !cx.is_terminating() {
            self.holders.none_is_old();
        }
    }
}
