//! What a change of the phase brings with it, phase by phase. Which trigger changes which phase is the table in `phase`.

use std::time::Duration;

use crate::lifecycle::api::{Effect, Moment, Notice, Phase, Reason, Timer, ToWorker, WorkerState};
use crate::lifecycle::machine::Lifecycle;
use crate::lifecycle::shutdown::phase::{Trigger, Verdict, verdict};
use crate::lifecycle::shutdown::steps::StepTrigger;
use crate::signal::Signal;

impl Lifecycle {
    /// Asks the table, and does what a move brings with it.
    pub(in crate::lifecycle) fn go(&mut self, trigger: Trigger, reason: Reason, now: Moment) {
        match verdict(self.phase, trigger) {
            Verdict::Stay(why) => self.notify(Notice::Stayed { what: reason, why }),
            Verdict::Move(phase) => {
                let from = std::mem::replace(&mut self.phase, phase);
                if phase.is_terminating() && !from.is_terminating() && phase != Phase::Exited {
                    self.begin_terminate(from, reason, now);
                }
                self.entered(from, reason, now);
            }
        }
    }

    fn entered(&mut self, from: Phase, reason: Reason, now: Moment) {
        match self.phase {
            Phase::Running => self.begin_running(reason, now),
            Phase::Quiet => self.begin_quiet(reason, now),
            Phase::Delay => self.begin_delay(reason, now),
            Phase::Drain => self.begin_drain(now),
            Phase::EndGame => self.begin_end_game(now),
            Phase::Stop => self.begin_stop(from, now),
            Phase::Exited => self.exit(now),
        }
    }

    fn begin_running(&mut self, reason: Reason, now: Moment) {
        self.signal_worker_if_set(self.options.signals.on_resume);
        self.resumed(reason);
        self.announce(reason, None, now);
    }

    fn begin_quiet(&mut self, reason: Reason, now: Moment) {
        self.signal_worker_if_set(self.options.signals.on_quiet);
        self.agent.heartbeats.take_resumed();
        self.end_holds(now);
        self.announce(reason, None, now);
    }

    /// t0, whatever phase follows: from here on there is a deadline, no FETCH, and no way back.
    fn begin_terminate(&mut self, from: Phase, reason: Reason, now: Moment) {
        for timer in [
            Timer::PrestopLapse,
            Timer::Idle,
            Timer::Fetch,
            Timer::FetchReturned,
            Timer::FetchAgain,
            Timer::Register,
            Timer::Start,
            Timer::StartAnyway,
            Timer::Ready,
            Timer::Capacity,
            Timer::Settled,
        ] {
            self.timers.cancel(timer);
        }
        self.shutdown.begins(reason, now);
        self.outcomes_are_ours();
        self.end_holds(now);
        self.begin_account(now);
        self.set_deadline(self.latest_deadline(now));
        let state = self.state();
        self.notify(Notice::StateChanged { state, reason });
        self.beat_for_terminate(from, now);
    }

    fn begin_delay(&mut self, reason: Reason, now: Moment) {
        let delay = now.after(self.options.term_delay);
        let deadline = self.timers.deadline_of(Timer::Deadline).unwrap_or(delay);
        if self.options.term_delay.is_zero() || deadline <= now {
            self.go(Trigger::DelayOver, reason, now);
        } else {
            self.timers.arm(Timer::DelayOver, delay.min(deadline));
        }
    }

    pub(in crate::lifecycle) fn delay_is_over(&mut self, now: Moment) {
        self.go(Trigger::DelayOver, self.shutdown.reason(), now);
    }

    fn begin_drain(&mut self, now: Moment) {
        self.timers.cancel(Timer::DelayOver);
        let left = self.time_to_deadline(now);
        self.signal_worker_if_set(self.options.signals.on_terminate);
        self.announce(self.shutdown.reason(), Some(left), now);
        self.shorten_pauses(now);
        self.shorten_look_pauses(now);
        self.begin_drain_log(left, now);
    }

    fn begin_end_game(&mut self, now: Moment) {
        self.timers.cancel(Timer::DrainLog);
        if self.worker.is_alive() {
            self.notify(Notice::Drained);
        }
        self.step(StepTrigger::EndGameBegins, now);
    }

    fn begin_stop(&mut self, from: Phase, now: Moment) {
        for timer in [Timer::Deadline, Timer::DelayOver, Timer::DrainLog] {
            self.timers.cancel(timer);
        }
        self.plan_stop(now);
        // Where an end game was saying its last words, the stop phase only makes their time shorter: nothing is left to stop.
        if !self.shutdown.has_said_goodbye() {
            let held = self.jobs.holders().map(|id| self.jobs.held_by(id).len());
            self.notify(Notice::StopBegan {
                held: held.sum(),
                forced: self.shutdown.forced_by(),
            });
            self.account_for_stop(now);
            if matches!(from, Phase::Running | Phase::Quiet | Phase::Delay) {
                self.signal_worker_if_set(self.options.signals.on_terminate);
                self.announce(self.shutdown.reason(), Some(Duration::ZERO), now);
            }
        }
        if !self.step(StepTrigger::StopBegins, now) {
            self.follow_plan(now);
        }
        self.skip_cancel_grace(now);
    }

    /// The last order of all.
    fn exit(&mut self, now: Moment) {
        // Who waits is told; without a way to leave before the SIGKILL where a third signal ends us at once.
        self.answer_waits(now);
        self.timers.clear();
        if self.shutdown.abandoned_with().is_some() {
            self.order(Effect::KillEverything);
            self.count_what_is_left();
        }
        let status = self.exit_status();
        self.account_for_exit(status, now);
        self.order(Effect::Exit(status));
    }

    /// Tells the log, each holder and the backend about a new state.
    pub(super) fn announce(&mut self, reason: Reason, remaining: Option<Duration>, now: Moment) {
        let state = self.state();
        if state != WorkerState::Terminate {
            self.notify(Notice::StateChanged { state, reason });
            self.heartbeat_now(now);
        }
        self.tell_all(&ToWorker::Lifecycle {
            state,
            reason,
            remaining,
        });
    }

    fn signal_worker_if_set(&mut self, signal: Option<Signal>) {
        if let Some(signal) = signal {
            self.signal_worker(signal);
        }
    }
}
