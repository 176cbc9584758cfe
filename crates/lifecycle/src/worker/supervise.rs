//! The worker's process: its start, its end with all its descendants, and its restart.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::api::{
    Effect, EndCause, HolderId, KILL_RESCAN_AFTER, Manner, NotStarted, Phase, ProcessId, RESCAN_AFTER, Restart,
    SHORTAGE_WINDOW, WorkerEnd, WorkerId, WorkerNotice, WorkerTimer, restart_pause, shortage_pause,
};
use crate::worker::blame::Blame;
use crate::worker::holder::Holder;
use crate::worker::recycling_state::{Beside, RecyclingStage};
use crate::worker::supervision::WorkerProcessState;
use crate::worker::workers::{Context, Workers};
use crate::worker::workers_said::Said;
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;
use ojs_values::small;

/// How long after the end of one of its processes, and its grace, the end of the worker counts as a
/// consequence. A parent whose child ends often ends its other children, and waits for them.
const CONSEQUENCE: Duration = Duration::from_secs(10);

/// Exit status if the system has no process left for the worker.
const NO_PROCESS: u8 = 70;

/// Time for descendants to end after SIGKILL. After that ojs-init goes on without them, because the
/// kernel holds them.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// A worker that was ready for this long has had a successful life.
const SUCCESSFUL_LIFE: Duration = Duration::from_secs(60);

impl Workers {
    pub(crate) fn worker_started(&mut self, process: ProcessId, worker: WorkerId, chance: u64, cx: &Context) {
        self.supervision.state = WorkerProcessState::Alive(process);
        self.supervision.started_at = cx.now;
        self.supervision.ready_since = None;
        self.supervision.shortages = 0;
        self.supervision.is_asked_to_end = false;
        self.supervision.blame = None;
        self.supervision.ended_for = None;
        self.recycling.begins(&cx.options.recycle, chance);
        self.capacity_begins_anew();
        if !cx.is_terminating() {
            self.timers
                .arm(WorkerTimer::Ready, cx.now.after(cx.options.ready_timeout));
        }
        self.say(Said::Began(worker));
        if cx.has_killed {
            self.order(Effect::KillEverything);
        } else if cx.is_ending_the_worker() {
            self.ask_worker_to_end();
        }
    }

    /// Sends a signal to the worker, if it is alive.
    pub(crate) fn signal_worker(&mut self, signal: Signal) {
        if self.supervision.is_alive() {
            self.order(Effect::SignalWorker(signal));
        }
    }

    /// Sends a signal to every process of the worker: two, while one takes over from the other.
    pub(crate) fn signal_workers(&mut self, signal: Signal) {
        self.signal_worker(signal);
        if let Some(Beside::Next { process, .. } | Beside::Old(process)) = self.recycling.beside {
            self.order(Effect::SignalProcess(process, signal));
        }
    }

    /// Once: a second SIGTERM ends some programs on the spot.
    pub(crate) fn ask_worker_to_end(&mut self) {
        if std::mem::replace(&mut self.supervision.is_asked_to_end, true) {
            return;
        }
        // A stopped worker would not receive the SIGTERM.
        self.signal_worker(Signal::TERM);
        self.signal_worker(Signal::CONT);
        self.ask_old_to_end();
    }

    pub(crate) fn worker_not_started(&mut self, why: NotStarted, cx: &Context) {
        let has_time = self.supervision.started_at.elapsed(cx.now) < SHORTAGE_WINDOW;
        match why {
            NotStarted::Shortage if has_time => {
                if self.supervision.shortages == 0 {
                    self.notify(WorkerNotice::StartPostponed);
                }
                let pause = shortage_pause(self.supervision.shortages);
                self.supervision.shortages += 1;
                self.supervision.state = WorkerProcessState::Postponed;
                self.timers.arm(WorkerTimer::Start, cx.now.after(pause));
            }
            // A worker that has run before may run again when the shortage ends.
            NotStarted::Shortage if self.supervision.ended.is_some() => self.nothing_is_left(cx),
            NotStarted::Shortage => self.will_not_start(NO_PROCESS, cx),
            NotStarted::Refused(status) => self.will_not_start(status, cx),
        }
    }

    fn will_not_start(&mut self, status: u8, cx: &Context) {
        self.recycling_is_off(cx);
        self.supervision.start_failure_status = Some(status);
        self.supervision.ended_for = None;
        self.supervision.state = WorkerProcessState::Over;
        self.say(Said::Lost);
    }

    /// Handles the reaped worker process. `manner` tells an end on request from an end by itself.
    pub(crate) fn worker_ended(&mut self, ended: Ended, manner: Manner, cx: &Context) {
        let WorkerProcessState::Alive(process) = self.supervision.state else {
            return;
        };
        let oom_kills = std::mem::take(&mut self.supervision.oom_kills);
        let end = WorkerEnd { ended, oom_kills };
        self.supervision.ended_process = Some(process);
        self.supervision.ended = Some(end);
        self.supervision.ran = self.supervision.up(cx.now);
        self.supervision.state = WorkerProcessState::Clearing {
            process,
            children_left: true,
            is_asked: false,
            is_killed: false,
        };
        self.timers.cancel(WorkerTimer::Ready);
        self.say_how_it_ended(process, end, manner, cx);
        self.recycled_worker_ended(cx);
        let waits_for_old = self.waits_for_old(cx);
        if !waits_for_old {
            self.limit_clearing(cx);
        }
        self.process_gone(process, cx);
        let holders: BTreeSet<ProcessId> = small::gather(self.holders.with_jobs().map(|(_, holder)| holder.process));
        for other in holders.into_iter().filter(|other| *other != process) {
            if !waits_for_old || !self.holders.is_old(other) {
                self.end_process(other, EndCause::Orphaned, cx);
            }
        }
    }

    /// The descendants of the worker that has ended have so long to end. A shutdown that ends the
    /// worker has a limit of its own.
    pub(super) fn limit_clearing(&mut self, cx: &Context) {
        if !cx.is_ending_the_worker() {
            let patience = cx.options.cancel_grace.saturating_add(KILL_PATIENCE);
            self.timers
                .arm(WorkerTimer::GiveUpOnDescendants, cx.now.after(patience));
        }
    }

    /// ojs-init caused the end if it ended the worker, or a process whose end led to the worker's.
    /// A request to end because no work is left is no such cause.
    fn say_how_it_ended(&mut self, process: ProcessId, end: WorkerEnd, manner: Manner, cx: &Context) {
        let blame = self
            .supervision
            .blame
            .take()
            .filter(|blame| blame.explains(process, end, cx.now));
        let is_asked_to_end = cx.is_ending_the_worker();
        self.supervision.ended_for = blame.filter(|_| !is_asked_to_end).map(|blame| blame.cause);
        self.notify(match self.supervision.ended_for.clone() {
            Some(EndCause::Recycled) if end.is_as_asked(&cx.options.remap_exit) => {
                WorkerNotice::WorkerEnded(end, Manner::Orderly)
            }
            Some(EndCause::Recycled) => WorkerNotice::WorkerEnded(end, Manner::Disorderly),
            Some(cause) => WorkerNotice::WorkerWasEnded { end, cause },
            None => WorkerNotice::WorkerEnded(end, manner),
        });
    }

    /// Remembers that ojs-init ends this process, as the reason if the worker ends because of that.
    pub(super) fn blame(&mut self, process: ProcessId, cause: &EndCause, cx: &Context) {
        let main = self.supervision.process();
        // Neither of two workers ends the other: the old one at the end of its time, or a next one
        // that failed.
        let is_of_old = self.recycling.has_old() && self.holders.is_old(process);
        if is_of_old || *cause == EndCause::Recycled && Some(process) != main {
            return;
        }
        let is_of_main = |blame: &Blame| Some(blame.process) == main;
        if *cause == EndCause::Orphaned || self.supervision.blame.as_ref().is_some_and(is_of_main) {
            return;
        }
        let patience = cx.options.cancel_grace.saturating_add(CONSEQUENCE);
        self.supervision.blame = Some(Blame {
            process,
            cause: cause.clone(),
            until: cx.now.after(patience),
        });
    }

    /// Ends were reaped, and children are left or not. Of the drain this much time is left.
    pub(crate) fn reaped(&mut self, are_left: bool, drain_left: Duration, cx: &Context) {
        let waits_for_old = self.waits_for_old(cx);
        let WorkerProcessState::Clearing {
            process,
            children_left,
            is_asked,
            is_killed,
        } = &mut self.supervision.state
        else {
            return;
        };
        let were_left = std::mem::replace(children_left, are_left);
        if !are_left {
            let main = *process;
            if were_left {
                self.no_descendant_is_left(main);
            }
            return;
        }
        if waits_for_old {
            return;
        }
        if *is_killed || cx.is_killing {
            self.timers
                .arm_at_latest(WorkerTimer::Rescan, cx.now.after(KILL_RESCAN_AFTER));
        } else if *is_asked {
            self.timers
                .arm_at_latest(WorkerTimer::Rescan, cx.now.after(RESCAN_AFTER));
        } else {
            *is_asked = true;
            self.ask_descendants(drain_left, cx);
        }
    }

    /// Sends the descendants SIGTERM. They have the rest of the drain if the worker ended in good
    /// order, otherwise the grace of a cancel.
    fn ask_descendants(&mut self, drain_left: Duration, cx: &Context) {
        self.order(Effect::TerminateDescendants);
        let patience = if cx.phase == Phase::EndGame {
            drain_left
        } else {
            self.timers
                .arm(WorkerTimer::KillDescendants, cx.now.after(cx.options.cancel_grace));
            cx.options.cancel_grace
        };
        self.notify(WorkerNotice::DescendantsLeft(patience));
    }

    pub(super) fn kill_descendants(&mut self) {
        if let WorkerProcessState::Clearing { is_killed, .. } = &mut self.supervision.state {
            *is_killed = true;
            self.notify_of_kill();
            self.say(Said::Killed);
            self.order(Effect::KillDescendants);
        }
    }

    pub(super) fn notify_of_kill(&mut self) {
        let held = self.holders.with_jobs().map(|(_, holder)| holder.held).sum();
        self.notify(WorkerNotice::Killing { held });
    }

    pub(super) fn rescan(&mut self, cx: &Context) {
        let WorkerProcessState::Clearing { is_killed, .. } = self.supervision.state else {
            return;
        };
        self.order(if cx.is_killing {
            Effect::KillEverything
        } else if is_killed {
            Effect::KillDescendants
        } else {
            Effect::TerminateDescendants
        });
    }

    /// Ends every process by SIGKILL.
    pub(crate) fn kill_everything(&mut self, cx: &Context) {
        self.timers.cancel(WorkerTimer::KillDescendants);
        self.timers.cancel(WorkerTimer::GiveUpOnDescendants);
        self.notify_of_kill();
        self.order(Effect::KillEverything);
        let processes: Vec<ProcessId> = self.holders.with_jobs().map(|(_, holder)| holder.process).collect();
        for process in processes {
            self.kill_process(process);
        }
        // The processes that are reaped next may have left children.
        self.timers.arm_at_latest(WorkerTimer::Rescan, cx.now);
    }

    /// The holders whose process may still work on their jobs after SIGKILL.
    pub(crate) fn holders_left(&self) -> Vec<HolderId> {
        let holders = self.holders.with_jobs();
        let is_left = |(_, holder): &(HolderId, &Holder)| {
            let is_gone = self.holders.is_gone(holder.process);
            // A descendant that is left may be working on jobs of the worker's own process, or of
            // the old one of two.
            let is_with_descendants =
                self.supervision.process() == Some(holder.process) || self.holders.is_old(holder.process);
            !(is_gone && holder.is_closed) || is_with_descendants
        };
        holders.filter(is_left).map(|(id, _)| id).collect()
    }

    /// Begins the end: ojs-init starts no further worker process and reports no change of its
    /// capacity.
    pub(crate) fn end_begins(&mut self, cx: &Context) {
        self.ask_next_to_end();
        self.recycling_is_off(cx);
        for timer in [
            WorkerTimer::Start,
            WorkerTimer::StartAnyway,
            WorkerTimer::Ready,
            WorkerTimer::Capacity,
            WorkerTimer::Settled,
        ] {
            self.timers.cancel(timer);
        }
    }

    /// Whether the worker's descendants have ended, and every process that may still work on a job.
    pub(crate) fn is_cleared(&self) -> bool {
        let WorkerProcessState::Clearing {
            children_left: false, ..
        } = self.supervision.state
        else {
            return false;
        };
        !self.holders.are_at_work()
    }

    /// Handles the end of the worker process and all its descendants, or the end of the wait for
    /// them.
    pub(crate) fn nothing_is_left(&mut self, cx: &Context) {
        for timer in [
            WorkerTimer::KillDescendants,
            WorkerTimer::GiveUpOnDescendants,
            WorkerTimer::Rescan,
        ] {
            self.timers.cancel(timer);
        }
        if cx.is_terminating() {
            self.supervision.state = WorkerProcessState::Over;
            return;
        }
        let was_successful = self
            .supervision
            .ready_since
            .is_some_and(|since| since.elapsed(cx.now) >= SUCCESSFUL_LIFE);
        if was_successful {
            self.supervision.failures = 0;
        }
        if self.next_follows_recycled() {
            return self.say(Said::NobodyWorks);
        }
        if self.may_restart(cx) {
            let pause = restart_pause(self.supervision.failures);
            self.supervision.failures = self.supervision.failures.saturating_add(1);
            self.supervision.state = WorkerProcessState::Between;
            self.say(Said::NobodyWorks);
            self.timers.arm(WorkerTimer::Start, cx.now.after(pause));
            let patience = pause.max(cx.options.times.drain(Duration::ZERO));
            self.timers.arm(WorkerTimer::StartAnyway, cx.now.after(patience));
            self.notify(WorkerNotice::RestartIn(pause));
        } else {
            self.supervision.state = WorkerProcessState::Over;
            self.say(Said::Lost);
        }
    }

    fn may_restart(&mut self, cx: &Context) -> bool {
        let is_wanted = match cx.options.restart {
            Restart::Never => false,
            Restart::Hung => self.supervision.ended_for.is_some(),
            Restart::OnFailure => {
                let has_failed = |end: WorkerEnd| end.ended != Ended::Exited(0);
                self.supervision.ended_for.is_some() || self.supervision.ended.is_none_or(has_failed)
            }
            Restart::Always => true,
        };
        if !is_wanted {
            return false;
        }
        let is_allowed = self.supervision.restarts.add(cx.now);
        if !is_allowed {
            self.notify(WorkerNotice::TooManyRestarts);
        }
        is_allowed
    }

    /// Orders again a start for which the system had no process left.
    pub(super) fn start_is_due(&mut self, cx: &Context) {
        if self.supervision.state == WorkerProcessState::Postponed && !cx.is_terminating() {
            self.supervision.state = WorkerProcessState::Starting;
            self.order_start();
        }
    }

    /// Starts the next worker process. The pause must have ended, and the outcomes of the last
    /// worker must be delivered or have had their time.
    pub(crate) fn start_next(&mut self, cx: &Context) {
        if !self.supervision.is_between_two() || cx.is_terminating() {
            return;
        }
        let is_pausing = self.timers.is_armed(WorkerTimer::Start);
        let is_patient = self.timers.is_armed(WorkerTimer::StartAnyway);
        if is_pausing || (is_patient && cx.has_jobs) {
            return;
        }
        self.timers.cancel(WorkerTimer::StartAnyway);
        // Connections that are still open belong to the former incarnation.
        self.close_all_holders(cx);
        self.supervision.state = WorkerProcessState::Starting;
        self.supervision.started_at = cx.now;
        // If the system has no process left, the life of the last worker must not count once more.
        self.supervision.ready_since = None;
        self.supervision.shortages = 0;
        self.order_start();
    }

    fn order_start(&mut self) {
        // After a drain it is one more process of the same worker.
        let keeps_name = self.recycling.is(RecyclingStage::Starting);
        self.order(Effect::StartWorker { keeps_name });
    }
}
