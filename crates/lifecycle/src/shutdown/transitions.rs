//! The consequences of a phase change, phase by phase. `phase` has the table of triggers.

use std::time::Duration;

use crate::api::{EndingNotice, EndingTimer, Phase, Reason, ToWorker, WorkerState};
use crate::shutdown::ending::{Context, Ending};
use crate::shutdown::phase::{Trigger, Verdict, verdict};
use crate::shutdown::said::Said;
use crate::shutdown::steps::StepTrigger;

impl Ending {
    /// Looks the trigger up in the table, and carries out the move.
    pub(crate) fn go(&mut self, trigger: Trigger, reason: Reason, cx: &Context) {
        match verdict(self.phase, trigger) {
            Verdict::Stay(why) => self.notify(EndingNotice::Stayed { what: reason, why }),
            Verdict::Move(phase) => {
                let from = std::mem::replace(&mut self.phase, phase);
                if phase.is_terminating() && !from.is_terminating() && phase != Phase::Exited {
                    self.begin_terminate(from, reason, cx);
                }
                self.entered(from, reason, cx);
            }
        }
    }

    fn entered(&mut self, from: Phase, reason: Reason, cx: &Context) {
        match self.phase {
            Phase::Running => self.begin_running(reason, cx),
            Phase::Quiet => self.begin_quiet(reason, cx),
            Phase::Delay => self.begin_delay(reason, cx),
            Phase::Drain => self.begin_drain(cx),
            Phase::EndGame => self.begin_end_game(cx),
            Phase::Stop => self.begin_stop(from, cx),
            Phase::Exited => self.exit(),
        }
    }

    fn begin_running(&mut self, reason: Reason, cx: &Context) {
        self.signal_worker_if_set(cx.options.signals.on_resume);
        self.say(Said::Resumed(reason));
        self.announce(reason, None);
    }

    fn begin_quiet(&mut self, reason: Reason, cx: &Context) {
        self.signal_worker_if_set(cx.options.signals.on_quiet);
        self.say(Said::QuietBegins);
        self.announce(reason, None);
    }

    /// Begins terminate at t0, whatever phase follows. From here on there is a deadline, no FETCH,
    /// and no way back.
    fn begin_terminate(&mut self, from: Phase, reason: Reason, cx: &Context) {
        self.timers.cancel(EndingTimer::PrestopLapse);
        self.timers.cancel(EndingTimer::Idle);
        self.shutdown.begins(reason, cx.now);
        self.say(Said::TerminateBegins);
        self.begin_account(cx);
        self.set_deadline(self.latest_deadline(cx.options, cx.now), cx);
        let state = self.state();
        self.notify(EndingNotice::StateChanged { state, reason });
        self.say(Said::TellBackend { from });
    }

    fn begin_delay(&mut self, reason: Reason, cx: &Context) {
        let delay = cx.now.after(cx.options.term_delay);
        let deadline = self.timers.deadline_of(EndingTimer::Deadline).unwrap_or(delay);
        if cx.options.term_delay.is_zero() || deadline <= cx.now {
            self.go(Trigger::DelayOver, reason, cx);
        } else {
            self.timers.arm(EndingTimer::DelayOver, delay.min(deadline));
        }
    }

    fn begin_drain(&mut self, cx: &Context) {
        self.timers.cancel(EndingTimer::DelayOver);
        let left = self.time_to_deadline(cx.now);
        self.signal_worker_if_set(cx.options.signals.on_terminate);
        self.announce(self.shutdown.reason, Some(left));
        self.say(Said::DrainBegins);
        self.begin_drain_log(left, cx);
    }

    fn begin_end_game(&mut self, cx: &Context) {
        self.timers.cancel(EndingTimer::DrainLog);
        if cx.facts.worker_is_alive {
            self.notify(EndingNotice::Drained);
        }
        self.step(StepTrigger::EndGameBegins, cx);
    }

    fn begin_stop(&mut self, from: Phase, cx: &Context) {
        for timer in [EndingTimer::Deadline, EndingTimer::DelayOver, EndingTimer::DrainLog] {
            self.timers.cancel(timer);
        }
        self.plan_stop(cx);
        // If an end game was saying its last words, the stop phase only makes their time shorter:
        // nothing is left to stop.
        if !self.shutdown.has_said_goodbye() {
            self.say(Said::StopBegins(self.shutdown.forced));
            self.account_for_stop(cx);
            if matches!(from, Phase::Running | Phase::Quiet | Phase::Delay) {
                self.signal_worker_if_set(cx.options.signals.on_terminate);
                self.announce(self.shutdown.reason, Some(Duration::ZERO));
            }
        }
        if !self.step(StepTrigger::StopBegins, cx) {
            self.follow_plan(cx);
        }
        self.skip_cancel_grace(cx);
    }

    fn exit(&mut self) {
        self.timers.clear();
        self.say(Said::Exit);
    }

    /// Announces a new state to the log, to each holder and to the backend.
    pub(super) fn announce(&mut self, reason: Reason, remaining: Option<Duration>) {
        let state = self.state();
        self.told = state;
        if state != WorkerState::Terminate {
            self.notify(EndingNotice::StateChanged { state, reason });
            self.say(Said::Heartbeat);
        }
        self.say(Said::TellAll(ToWorker::Lifecycle {
            state,
            reason,
            remaining,
        }));
    }
}
