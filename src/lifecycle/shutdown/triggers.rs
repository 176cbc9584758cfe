//! Which trigger a signal, a directive of the backend or a request on the control socket is.

use std::time::Duration;

use crate::lifecycle::api::{Directive, Effect, Force, Moment, Notice, Phase, Reason, StopSignal, Timer};
use crate::lifecycle::machine::Lifecycle;
use crate::lifecycle::shutdown::phase::Trigger;
use crate::lifecycle::shutdown::steps::StopStep;
use crate::signal::Signal;

impl Lifecycle {
    pub(in crate::lifecycle) fn signal_arrived(&mut self, arrived: Signal, now: Moment) {
        let Some(signal) = self.options.rewrite.get(&arrived).copied().unwrap_or(Some(arrived)) else {
            return;
        };
        match signal {
            Signal::TERM => self.stop_signal(signal, StopSignal::Graceful, Reason::Sigterm, now),
            Signal::INT => self.stop_signal(signal, self.options.sigint, Reason::Sigint, now),
            Signal::QUIT => self.stop_signal(signal, self.options.sigquit, Reason::Sigquit, now),
            Signal::TSTP => {
                if self.options.tstp_starts_clock {
                    self.shutdown.tstp_arrived(self.options.times.limit, now);
                }
                self.quiet(Reason::Sigtstp, now);
            }
            Signal::CONT => self.continued(now),
            // A terminal's way to stop whole groups: neither we nor the worker ever stop.
            Signal::TTIN | Signal::TTOU => {}
            // Everything else is between the sender and the worker.
            other => self.signal_worker(other),
        }
    }

    /// systemd and `timeout` send it after each stop signal, in case that whom they mean to end is stopped.
    fn continued(&mut self, now: Moment) {
        match self.shutdown.stop_signal_just_came(now) {
            Some(ago) => self.notify(Notice::SameRequest(Reason::Sigcont, ago)),
            None => self.resume(Reason::Sigcont, now),
        }
    }

    /// What a heartbeat's reply asks for (worker protocol 4.4).
    pub(in crate::lifecycle) fn directed(&mut self, directive: Option<Directive>, now: Moment) {
        let is_new = self.agent.directed(directive);
        match directive {
            Some(Directive::Terminate) if !self.phase.is_terminating() => {
                self.go(Trigger::Terminate, Reason::Server, now);
            }
            Some(Directive::Quiet) if self.phase == Phase::Running || !self.shutdown.quiet_by().server => {
                self.shutdown.server_wants_quiet();
                self.go(Trigger::Quiet, Reason::Server, now);
            }
            // A reply that says running lifts nothing, unless it is news and only the server had asked (C-20).
            Some(Directive::Run) if is_new && self.options.server_resume && self.shutdown.quiet_by().only_server() => {
                self.resume(Reason::Server, now);
            }
            Some(Directive::Terminate | Directive::Quiet | Directive::Run) | None => {}
        }
    }

    pub(in crate::lifecycle) fn quiet(&mut self, reason: Reason, now: Moment) {
        self.shutdown.operator_wants_quiet();
        self.go(Trigger::Quiet, reason, now);
    }

    pub(in crate::lifecycle) fn resume(&mut self, reason: Reason, now: Moment) {
        self.shutdown.resumed();
        self.go(Trigger::Resume, reason, now);
    }

    pub(in crate::lifecycle) fn prestop(&mut self, now: Moment) {
        if self.phase.is_terminating() {
            return;
        }
        self.shutdown.prestop_ran(&self.options, now);
        self.timers
            .arm_at_latest(Timer::PrestopLapse, now.after(self.prestop_lapse()));
        self.notify(Notice::PrestopRan {
            left: self.time_to_limit(now),
        });
        if self.phase == Phase::Running {
            self.go(Trigger::Quiet, Reason::Prestop, now);
        }
    }

    /// No SIGTERM came within the limit: the pod was not ended after all, at least not with that hook.
    pub(in crate::lifecycle) fn prestop_lapsed(&mut self, now: Moment) {
        if self.phase.is_terminating() {
            return;
        }
        let lapse = self.prestop_lapse();
        if let Some(later) = self.shutdown.prestop_lapsed(lapse, now) {
            self.timers.arm(Timer::PrestopLapse, later.after(lapse));
            let later = self.time_to_limit(now);
            return self.notify(Notice::PrestopLapsed { later });
        }
        self.notify(Notice::PrestopLapsed { later: None });
        if self.shutdown.quiet_by().nobody() && self.phase == Phase::Quiet {
            self.go(Trigger::Resume, Reason::Prestop, now);
        }
    }

    /// How long after a preStop hook its SIGTERM may come.
    fn prestop_lapse(&self) -> Duration {
        self.options.times.limit.unwrap_or(self.options.times.grace_period)
    }

    /// The first asks, the second forces, the third goes at once. One that comes together with another of its kind is no
    /// further one.
    fn stop_signal(&mut self, signal: Signal, meaning: StopSignal, reason: Reason, now: Moment) {
        if let Some(ago) = self.shutdown.repeats_stop_signal(reason, now) {
            return self.notify(Notice::SameRequest(reason, ago));
        }
        let force = self.shutdown.stop_signal_arrived(reason, &self.options, now);
        if self.phase.is_terminating() {
            self.clock_started_late(now);
        }
        match meaning {
            StopSignal::Exit => self.abandon(signal, force, now),
            StopSignal::Graceful | StopSignal::Stop if force.nth >= 3 => self.abandon(signal, force, now),
            StopSignal::Graceful if force.nth == 1 => self.go(Trigger::Terminate, reason, now),
            StopSignal::Graceful | StopSignal::Stop => self.force(force, now),
        }
    }

    pub(in crate::lifecycle) fn force(&mut self, force: Force, now: Moment) {
        let ends_grace = self.phase == Phase::Stop
            && matches!(self.shutdown.step(), StopStep::Cancel | StopStep::Ask)
            && !self.shutdown.skips_cancel_grace();
        self.shutdown.forced(force, self.phase.is_terminating());
        if ends_grace {
            self.notify(Notice::GraceEnded(force));
        } else {
            self.go(Trigger::Force, force.by, now);
        }
        self.skip_cancel_grace(now);
    }

    fn abandon(&mut self, signal: Signal, force: Force, now: Moment) {
        self.shutdown.abandoned(signal.exit_status());
        self.notify(Notice::EndingAtOnce(force));
        self.go(Trigger::Abandon, force.by, now);
    }

    pub(in crate::lifecycle) fn signal_worker(&mut self, signal: Signal) {
        if self.worker.is_alive() {
            self.order(Effect::SignalWorker(signal));
        }
    }
}
