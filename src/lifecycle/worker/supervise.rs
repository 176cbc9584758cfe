//! The worker's process: started, ended with everything it left behind, started again.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::exit::Ended;
use crate::lifecycle::api::{
    Effect, EndCause, KILL_RESCAN_AFTER, Manner, Moment, NotStarted, Notice, Phase, ProcessId, RESCAN_AFTER, Reason,
    Restart, SHORTAGE_WINDOW, Timer, WorkerEnd, WorkerId, shortage_pause,
};
use crate::lifecycle::backend::backoff::restart_pause;
use crate::lifecycle::machine::Lifecycle;
use crate::lifecycle::shutdown::phase::Trigger;
use crate::lifecycle::worker::blame::Blame;
use crate::lifecycle::worker::supervision::{MAX_RESTARTS, RESTART_WINDOW, WorkerProcessState};
use crate::signal::Signal;

/// How long after a process of the worker was ended, and had its grace, the end of the worker counts as a consequence: a
/// parent that sees its child end tells the others to end, and waits for them.
const CONSEQUENCE: Duration = Duration::from_secs(10);

/// Exit status when the system has no process for us.
const NO_PROCESS: u8 = 70;

/// How long descendants may take to end after SIGKILL before we go on without them: the kernel holds them.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// A worker that was ready for this long has had a successful life.
const SUCCESSFUL_LIFE: Duration = Duration::from_secs(60);

impl Lifecycle {
    pub(in crate::lifecycle) fn worker_started(&mut self, process: ProcessId, worker: WorkerId, now: Moment) {
        self.worker.state = WorkerProcessState::Alive(process);
        self.worker.started_at = now;
        self.worker.ready_since = None;
        self.worker.shortages = 0;
        self.worker.is_asked_to_end = false;
        self.worker.blame = None;
        self.worker.ended_for = None;
        self.capacity_begins_anew();
        if !self.phase().is_terminating() {
            self.timers.arm(Timer::Ready, now.after(self.options.ready_timeout));
        }
        self.link(now, |link, cx| link.begin_incarnation(worker, cx));
        if self.ending.shutdown().has_killed() {
            self.order(Effect::KillEverything);
        } else if matches!(self.phase(), Phase::EndGame | Phase::Stop) {
            self.ask_worker_to_end();
        }
    }

    /// Sends a signal to the worker, if it is alive.
    pub(in crate::lifecycle) fn signal_worker(&mut self, signal: Signal) {
        if self.worker.is_alive() {
            self.order(Effect::SignalWorker(signal));
        }
    }

    /// Once: a second SIGTERM ends some programs on the spot.
    pub(in crate::lifecycle) fn ask_worker_to_end(&mut self) {
        if std::mem::replace(&mut self.worker.is_asked_to_end, true) {
            return;
        }
        // A stopped one would not see it.
        self.signal_worker(Signal::TERM);
        self.signal_worker(Signal::CONT);
    }

    pub(in crate::lifecycle) fn worker_not_started(&mut self, why: NotStarted, now: Moment) {
        let has_time = self.worker.started_at.elapsed(now) < SHORTAGE_WINDOW;
        match why {
            NotStarted::Shortage if has_time => {
                if self.worker.shortages == 0 {
                    self.notify(Notice::StartPostponed);
                }
                let pause = shortage_pause(self.worker.shortages);
                self.worker.shortages += 1;
                self.worker.state = WorkerProcessState::Postponed;
                self.timers.arm(Timer::Start, now.after(pause));
            }
            // One that has run before may run again when the shortage is over.
            NotStarted::Shortage if self.worker.ended.is_some() => self.nothing_is_left(now),
            NotStarted::Shortage => self.will_not_start(NO_PROCESS, now),
            NotStarted::Refused(status) => self.will_not_start(status, now),
        }
    }

    fn will_not_start(&mut self, status: u8, now: Moment) {
        self.worker.refused_with = Some(status);
        self.worker.ended_for = None;
        self.worker.state = WorkerProcessState::Over;
        self.go(Trigger::WorkerLost, Reason::Worker, now);
    }

    pub(in crate::lifecycle) fn worker_ended(&mut self, ended: Ended, now: Moment) {
        let WorkerProcessState::Alive(process) = self.worker.state else {
            return;
        };
        let oom_kills = std::mem::take(&mut self.worker.oom_kills);
        let end = WorkerEnd { ended, oom_kills };
        let manner = self.ending.manner(ended, &self.options);
        self.worker.ended_process = Some(process);
        self.worker.ended = Some(end);
        self.worker.ran = self.worker.up(now);
        self.worker.state = WorkerProcessState::Clearing {
            process,
            children_left: true,
            is_asked: false,
            is_killed: false,
        };
        self.timers.cancel(Timer::Ready);
        self.say_how_it_ended(process, end, manner, now);
        if !matches!(self.phase(), Phase::EndGame | Phase::Stop) {
            let patience = self.options.cancel_grace.saturating_add(KILL_PATIENCE);
            self.timers.arm(Timer::GiveUpOnDescendants, now.after(patience));
        }
        self.process_gone(process, now);
        let holders: BTreeSet<ProcessId> = self
            .holders
            .with_jobs(&self.jobs)
            .map(|(_, holder)| holder.process)
            .collect();
        for other in holders.into_iter().filter(|other| *other != process) {
            self.end_process(other, EndCause::Orphaned, now);
        }
    }

    /// Its end is ours when we ended it, or one of its processes with that consequence; not when it was asked to end
    /// because nothing is left to do.
    fn say_how_it_ended(&mut self, process: ProcessId, end: WorkerEnd, manner: Manner, now: Moment) {
        let blame = self
            .worker
            .blame
            .take()
            .filter(|blame| blame.explains(process, end, now));
        let is_asked_to_end = matches!(self.phase(), Phase::EndGame | Phase::Stop);
        self.worker.ended_for = blame.filter(|_| !is_asked_to_end).map(|blame| blame.cause);
        self.notify(match self.worker.ended_for.clone() {
            Some(cause) => Notice::WorkerWasEnded { end, cause },
            None => Notice::WorkerEnded(end, manner),
        });
    }

    /// We end this process: should the worker end because of that, it is known why.
    pub(super) fn blame(&mut self, process: ProcessId, cause: &EndCause, now: Moment) {
        let main = self.worker.process();
        let is_of_main = |blame: &Blame| Some(blame.process) == main;
        if *cause == EndCause::Orphaned || self.worker.blame.as_ref().is_some_and(is_of_main) {
            return;
        }
        let patience = self.options.cancel_grace.saturating_add(CONSEQUENCE);
        self.worker.blame = Some(Blame {
            process,
            cause: cause.clone(),
            until: now.after(patience),
        });
    }

    pub(in crate::lifecycle) fn reaped(&mut self, are_left: bool, now: Moment) {
        let WorkerProcessState::Clearing {
            children_left,
            is_asked,
            is_killed,
            ..
        } = &mut self.worker.state
        else {
            return;
        };
        *children_left = are_left;
        if !are_left {
            return;
        }
        if *is_killed || self.ending.shutdown().is_killing() {
            self.timers.arm_at_latest(Timer::Rescan, now.after(KILL_RESCAN_AFTER));
        } else if *is_asked {
            self.timers.arm_at_latest(Timer::Rescan, now.after(RESCAN_AFTER));
        } else {
            *is_asked = true;
            self.ask_descendants(now);
        }
    }

    /// They get SIGTERM and some time: what is left of the drain when the worker ended in good order, else the grace of
    /// a cancel.
    fn ask_descendants(&mut self, now: Moment) {
        self.order(Effect::TerminateDescendants);
        let patience = if self.phase() == Phase::EndGame {
            self.ending.time_to_deadline(now)
        } else {
            self.timers
                .arm(Timer::KillDescendants, now.after(self.options.cancel_grace));
            self.options.cancel_grace
        };
        self.notify(Notice::DescendantsLeft(patience));
    }

    pub(in crate::lifecycle) fn kill_descendants(&mut self, now: Moment) {
        if let WorkerProcessState::Clearing { is_killed, .. } = &mut self.worker.state {
            *is_killed = true;
            self.notify(Notice::Killing);
            self.ending.killed(now);
            self.order(Effect::KillDescendants);
        }
    }

    pub(in crate::lifecycle) fn rescan(&mut self) {
        let WorkerProcessState::Clearing { is_killed, .. } = self.worker.state else {
            return;
        };
        self.order(if self.ending.shutdown().is_killing() {
            Effect::KillEverything
        } else if is_killed {
            Effect::KillDescendants
        } else {
            Effect::TerminateDescendants
        });
    }

    /// They are not known to have ended. Their jobs are left alone, since they may still be worked on.
    pub(in crate::lifecycle) fn give_up_on_descendants(&mut self, now: Moment) {
        if self.worker.is_clearing() {
            self.give_up_on_the_killed(now);
            self.nothing_is_left(now);
        }
    }

    /// Whether the worker's descendants are gone, and every process that may still work on a job.
    fn is_cleared(&self) -> bool {
        let WorkerProcessState::Clearing {
            children_left: false, ..
        } = self.worker.state
        else {
            return false;
        };
        !self.holders.are_at_work()
    }

    fn nothing_is_left(&mut self, now: Moment) {
        for timer in [Timer::KillDescendants, Timer::GiveUpOnDescendants, Timer::Rescan] {
            self.timers.cancel(timer);
        }
        if self.phase().is_terminating() {
            self.worker.state = WorkerProcessState::Over;
            return;
        }
        let was_successful = self
            .worker
            .ready_since
            .is_some_and(|since| since.elapsed(now) >= SUCCESSFUL_LIFE);
        if was_successful {
            self.worker.failures = 0;
        }
        if self.may_restart(now) {
            let pause = restart_pause(self.worker.failures);
            self.worker.failures = self.worker.failures.saturating_add(1);
            self.worker.state = WorkerProcessState::Between;
            self.end_holds(now);
            self.timers.arm(Timer::Start, now.after(pause));
            let patience = pause.max(self.options.times.drain(Duration::ZERO));
            self.timers.arm(Timer::StartAnyway, now.after(patience));
            self.notify(Notice::RestartIn(pause));
        } else {
            self.worker.state = WorkerProcessState::Over;
            self.go(Trigger::WorkerLost, Reason::Worker, now);
        }
    }

    fn may_restart(&mut self, now: Moment) -> bool {
        let is_wanted = match self.options.restart {
            Restart::Never => false,
            Restart::Hung => self.worker.ended_for.is_some(),
            Restart::OnFailure => {
                let has_failed = |end: WorkerEnd| end.ended != Ended::Exited(0);
                self.worker.ended_for.is_some() || self.worker.ended.is_none_or(has_failed)
            }
            Restart::Always => true,
        };
        if !is_wanted {
            return false;
        }
        self.worker.restarts.retain(|at| at.elapsed(now) < RESTART_WINDOW);
        if self.worker.restarts.len() >= MAX_RESTARTS {
            self.notify(Notice::TooManyRestarts);
            return false;
        }
        self.worker.restarts.push_back(now);
        true
    }

    /// Orders a start again for which the system had no process. The next worker's is the business of `settle`.
    pub(in crate::lifecycle) fn start_is_due(&mut self) {
        if self.worker.state == WorkerProcessState::Postponed && !self.phase().is_terminating() {
            self.worker.state = WorkerProcessState::Starting;
            self.order(Effect::StartWorker);
        }
    }

    /// Follows a worker of which nothing is left: to the next one when its pause is over and its outcomes are
    /// delivered, or have had their time.
    pub(in crate::lifecycle) fn start_next_worker(&mut self, now: Moment) {
        if self.is_cleared() {
            // What its processes left to be read is decided before anything else follows.
            self.nothing_is_left(now);
            self.resolve_gone_processes(now);
        }
        if self.worker.state != WorkerProcessState::Between || self.phase().is_terminating() {
            return;
        }
        let is_pausing = self.timers.deadline_of(Timer::Start).is_some();
        let is_patient = self.timers.deadline_of(Timer::StartAnyway).is_some();
        if is_pausing || (is_patient && !self.jobs.is_empty()) {
            return;
        }
        self.timers.cancel(Timer::StartAnyway);
        // Whoever is still there spoke for the former incarnation.
        self.close_all_holders(now);
        self.worker.state = WorkerProcessState::Starting;
        self.worker.started_at = now;
        self.order(Effect::StartWorker);
    }
}
