//! Which trigger a signal, a directive of the backend or a request on the control socket is.

use std::time::Duration;

use crate::api::{Directive, EndingNotice, EndingTimer, Force, Options, Phase, Reason, StopSignal};
use crate::shutdown::ending::{Context, Ending};
use crate::shutdown::phase::Trigger;
use crate::shutdown::said::Said;
use crate::shutdown::steps::StopStep;
use ojs_values::signal::Signal;

impl Ending {
    pub(crate) fn signal_arrived(&mut self, arrived: Signal, cx: &Context) {
        let Some(signal) = cx.options.rewrite.get(&arrived).copied().unwrap_or(Some(arrived)) else {
            return;
        };
        match signal {
            Signal::TERM => self.stop_signal(signal, StopSignal::Graceful, Reason::Sigterm, cx),
            Signal::INT => self.stop_signal(signal, cx.options.sigint, Reason::Sigint, cx),
            Signal::QUIT => self.stop_signal(signal, cx.options.sigquit, Reason::Sigquit, cx),
            Signal::TSTP => {
                if cx.options.tstp_starts_clock {
                    self.shutdown.tstp_arrived(cx.options.times.limit, cx.now);
                }
                self.quiet(Reason::Sigtstp, cx);
            }
            Signal::CONT => self.continued(cx),
            // A terminal sends these to stop whole groups. Neither ojs-init nor the worker ever
            // stops.
            Signal::TTIN | Signal::TTOU => {}
            // All other signals are between the sender and the worker.
            other => self.say(Said::SignalWorker(other)),
        }
    }

    /// Handles a SIGCONT. systemd and `timeout` send one after each stop signal in case the process
    /// is stopped. ojs-init ignores that one.
    fn continued(&mut self, cx: &Context) {
        match self.shutdown.stop_signals.just_came(cx.now) {
            Some(ago) => self.notify(EndingNotice::SameRequest(Reason::Sigcont, ago)),
            None => self.resume(Reason::Sigcont, cx),
        }
    }

    /// Follows the directive of a heartbeat's reply (worker protocol 4.4). `is_new` is set if the
    /// reply before had another one.
    pub(crate) fn directed(&mut self, directive: Option<Directive>, is_new: bool, cx: &Context) {
        match directive {
            Some(Directive::Terminate) if !self.phase.is_terminating() => {
                self.go(Trigger::Terminate, Reason::Server, cx);
            }
            Some(Directive::Quiet) if self.phase == Phase::Running || !self.shutdown.quiet.server => {
                self.shutdown.quiet.server = true;
                self.go(Trigger::Quiet, Reason::Server, cx);
            }
            // A reply with the state running ends no quiet, unless the directive is new and only
            // the server had asked for quiet (C-20).
            Some(Directive::Run) if is_new && cx.options.server_resume && self.shutdown.quiet.only_server() => {
                self.resume(Reason::Server, cx);
            }
            Some(Directive::Terminate | Directive::Quiet | Directive::Run) | None => {}
        }
    }

    pub(crate) fn quiet(&mut self, reason: Reason, cx: &Context) {
        self.shutdown.quiet.operator = true;
        self.go(Trigger::Quiet, reason, cx);
    }

    pub(crate) fn resume(&mut self, reason: Reason, cx: &Context) {
        self.shutdown.resumed();
        self.go(Trigger::Resume, reason, cx);
    }

    pub(crate) fn prestop(&mut self, cx: &Context) {
        if self.phase.is_terminating() {
            return;
        }
        self.shutdown.prestop_ran(cx.options, cx.now);
        self.timers
            .arm_at_latest(EndingTimer::PrestopLapse, cx.now.after(prestop_lapse(cx.options)));
        self.notify(EndingNotice::PrestopRan {
            left: self.time_to_limit(cx),
        });
        if self.phase == Phase::Running {
            self.go(Trigger::Quiet, Reason::Prestop, cx);
        }
    }

    /// Handles a preStop hook without a SIGTERM within the limit. The pod was not ended, at least
    /// not with that hook.
    pub(super) fn prestop_lapsed(&mut self, cx: &Context) {
        if self.phase.is_terminating() {
            return;
        }
        let lapse = prestop_lapse(cx.options);
        if let Some(later) = self.shutdown.prestop_lapsed(lapse, cx.now) {
            self.timers.arm(EndingTimer::PrestopLapse, later.after(lapse));
            let later = self.time_to_limit(cx);
            return self.notify(EndingNotice::PrestopLapsed { later });
        }
        self.notify(EndingNotice::PrestopLapsed { later: None });
        if self.shutdown.quiet.nobody() && self.phase == Phase::Quiet {
            self.go(Trigger::Resume, Reason::Prestop, cx);
        }
    }

    /// Counts a stop signal: the first requests the end, the second forces it, the third exits at
    /// once. A signal that arrives together with another of its kind does not count.
    fn stop_signal(&mut self, signal: Signal, meaning: StopSignal, reason: Reason, cx: &Context) {
        if let Some(ago) = self.shutdown.stop_signals.repeats(reason, cx.now) {
            return self.notify(EndingNotice::SameRequest(reason, ago));
        }
        let force = self.shutdown.stop_signal_arrived(reason, cx.options, cx.now);
        if self.phase.is_terminating() {
            self.clock_started_late(cx);
        }
        match meaning {
            StopSignal::Exit => self.abandon(signal, force, cx),
            StopSignal::Graceful | StopSignal::Stop if force.nth >= 3 => self.abandon(signal, force, cx),
            StopSignal::Graceful if force.nth == 1 => self.go(Trigger::Terminate, reason, cx),
            StopSignal::Graceful | StopSignal::Stop => self.force(force, cx),
        }
    }

    pub(crate) fn force(&mut self, force: Force, cx: &Context) {
        let ends_grace = self.phase == Phase::Stop
            && matches!(self.shutdown.step, StopStep::Cancel | StopStep::Ask)
            && !self.shutdown.skips_cancel_grace;
        self.shutdown.forced(force, self.phase.is_terminating());
        if ends_grace {
            self.notify(EndingNotice::GraceEnded {
                by: force,
                active: cx.facts.unfinished,
            });
        } else {
            self.go(Trigger::Force, force.by, cx);
        }
        self.skip_cancel_grace(cx);
    }

    fn abandon(&mut self, signal: Signal, force: Force, cx: &Context) {
        self.shutdown.abandoned_with = Some(signal.exit_status());
        self.notify(EndingNotice::EndingAtOnce {
            by: force,
            active: cx.facts.unfinished,
        });
        self.go(Trigger::Abandon, force.by, cx);
    }
}

/// How long after a preStop hook its SIGTERM may arrive.
fn prestop_lapse(options: &Options) -> Duration {
    options.times.limit.unwrap_or(options.times.grace_period)
}
