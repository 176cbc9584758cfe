//! Which trigger a signal or a directive is, and what a phase change brings with it.

use std::time::Duration;

use crate::lifecycle::api::call::Directive;
use crate::lifecycle::api::effect::Effect;
use crate::lifecycle::api::force::Force;
use crate::lifecycle::api::frames::ToWorker;
use crate::lifecycle::api::notice::Notice;
use crate::lifecycle::api::options::StopSignal;
use crate::lifecycle::api::phase::Phase;
use crate::lifecycle::api::time::Moment;
use crate::lifecycle::api::timer::Timer;
use crate::lifecycle::api::words::{Reason, WorkerState};
use crate::lifecycle::machine::Lifecycle;
use crate::lifecycle::shutdown::clock::{QuietBy, StopStep};
use crate::lifecycle::shutdown::phase::{Trigger, Verdict, verdict};
use crate::signal::Signal;

/// How often the jobs that are left are logged during the drain (GS-R003).
const DRAIN_LOG_EVERY: Duration = Duration::from_secs(5);

/// Least time between two such lines when the number changes.
const DRAIN_LOG_AT_MOST_EVERY: Duration = Duration::from_secs(1);

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
        match self.shutdown.stop_signals.just_came(now) {
            Some(ago) => self.notify(Notice::SameRequest(Reason::Sigcont, ago)),
            None => self.resume(Reason::Sigcont, now),
        }
    }

    /// What a heartbeat's reply asks for (worker protocol 4.4).
    pub(in crate::lifecycle) fn directed(&mut self, directive: Option<Directive>, now: Moment) {
        let is_new = self.agent.last_directive != directive;
        self.agent.last_directive = directive;
        match directive {
            Some(Directive::Terminate) if !self.phase.is_terminating() => {
                self.go(Trigger::Terminate, Reason::Server, now);
            }
            Some(Directive::Quiet) if self.phase == Phase::Running || !self.shutdown.quiet.server => {
                self.shutdown.quiet.server = true;
                self.go(Trigger::Quiet, Reason::Server, now);
            }
            // A reply that says running lifts nothing, unless it is news and only the server had asked (C-20).
            Some(Directive::Run) if is_new && self.options.server_resume && self.shutdown.quiet.only_server() => {
                self.resume(Reason::Server, now);
            }
            Some(Directive::Terminate | Directive::Quiet | Directive::Run) | None => {}
        }
    }

    pub(in crate::lifecycle) fn quiet(&mut self, reason: Reason, now: Moment) {
        self.shutdown.quiet.operator = true;
        self.go(Trigger::Quiet, reason, now);
    }

    pub(in crate::lifecycle) fn resume(&mut self, reason: Reason, now: Moment) {
        self.shutdown.quiet = QuietBy::default();
        // A preStop hook does not take it back.
        self.shutdown.forget_tstp();
        self.go(Trigger::Resume, reason, now);
    }

    pub(in crate::lifecycle) fn prestop(&mut self, now: Moment) {
        if self.phase.is_terminating() {
            return;
        }
        self.shutdown.prestop_ran(&self.options, now);
        self.shutdown.quiet.prestop = true;
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
        if let Some(later) = self.shutdown.next_prestop(lapse, now) {
            self.timers.arm(Timer::PrestopLapse, later.after(lapse));
            let later = self.time_to_limit(now);
            return self.notify(Notice::PrestopLapsed { later });
        }
        self.notify(Notice::PrestopLapsed { later: None });
        self.shutdown.quiet.prestop = false;
        if self.shutdown.quiet.nobody() && self.phase == Phase::Quiet {
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
        if let Some(ago) = self.shutdown.stop_signals.repeats(reason, now) {
            return self.notify(Notice::SameRequest(reason, ago));
        }
        self.shutdown.start_clock(&self.options, now);
        let force = self.shutdown.stop_signals.counts(reason, now);
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
            && matches!(self.shutdown.step, StopStep::Cancel | StopStep::Ask)
            && !self.shutdown.skips_cancel_grace;
        // A first `stop` leaves the jobs their cancel grace; forcing what was asked for before does not.
        self.shutdown.skips_cancel_grace = self.phase.is_terminating();
        self.shutdown.forced = Some(force);
        if ends_grace {
            self.notify(Notice::GraceEnded(force));
        } else {
            self.go(Trigger::Force, force.by, now);
        }
        self.skip_cancel_grace(now);
    }

    fn abandon(&mut self, signal: Signal, force: Force, now: Moment) {
        self.shutdown.abandoned_with = Some(signal.exit_status());
        self.notify(Notice::EndingAtOnce(force));
        self.go(Trigger::Abandon, force.by, now);
    }

    /// Asks the table, and does what a move brings with it.
    pub(in crate::lifecycle) fn go(&mut self, trigger: Trigger, reason: Reason, now: Moment) {
        match verdict(self.phase, trigger) {
            Verdict::Stay(why) => self.notify(Notice::Stayed { what: reason, why }),
            Verdict::Move(phase) => {
                let from = std::mem::replace(&mut self.phase, phase);
                self.entered(from, reason, now);
            }
        }
    }

    fn entered(&mut self, from: Phase, reason: Reason, now: Moment) {
        match self.phase {
            Phase::Running => {
                self.signal_worker_if_set(self.options.signals.on_resume);
                self.resumed(reason);
                self.announce(reason, None, now);
            }
            Phase::Quiet => {
                self.signal_worker_if_set(self.options.signals.on_quiet);
                self.agent.heartbeats.resumed = None;
                self.announce(reason, None, now);
            }
            Phase::Delay => {
                self.begin_terminate(from, reason, now);
                let delay = now.after(self.options.term_delay);
                let deadline = self.timers.deadline_of(Timer::Deadline).unwrap_or(delay);
                if self.options.term_delay.is_zero() || deadline <= now {
                    self.go(Trigger::DelayOver, reason, now);
                } else {
                    self.timers.arm(Timer::DelayOver, delay.min(deadline));
                }
            }
            Phase::Drain => {
                if !from.is_terminating() {
                    self.begin_terminate(from, reason, now);
                }
                self.begin_drain(now);
            }
            Phase::EndGame => self.begin_end_game(now),
            Phase::Stop => {
                if !from.is_terminating() {
                    self.begin_terminate(from, reason, now);
                }
                self.begin_stop(from, now);
            }
            Phase::Exited => self.exit(now),
        }
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

    pub(in crate::lifecycle) fn delay_is_over(&mut self, now: Moment) {
        self.go(Trigger::DelayOver, self.shutdown.reason, now);
    }

    fn begin_drain(&mut self, now: Moment) {
        self.timers.cancel(Timer::DelayOver);
        let left = self.time_to_deadline(now);
        self.signal_worker_if_set(self.options.signals.on_terminate);
        self.announce(self.shutdown.reason, Some(left), now);
        self.shorten_pauses(now);
        self.shorten_look_pauses(now);
        let active = self.jobs.unfinished();
        if self.is_draining_anything() {
            self.notify(Notice::DrainBegan { active, left });
        }
        self.shutdown.logged = Some((active, now));
        self.timers.arm(Timer::DrainLog, now.after(DRAIN_LOG_EVERY));
    }

    /// Without a worker and without a job there is nothing that a person would wait for.
    fn is_draining_anything(&self) -> bool {
        self.jobs.unfinished() > 0 || self.worker.is_alive()
    }

    /// A change is logged too, but not each of many.
    pub(in crate::lifecycle) fn watch_drain(&mut self, now: Moment) {
        if let Some((active, at)) = self.shutdown.logged
            && self.phase == Phase::Drain
            && active != self.jobs.unfinished()
        {
            self.timers
                .arm_at_latest(Timer::DrainLog, at.after(DRAIN_LOG_AT_MOST_EVERY).max(now));
        }
    }

    pub(in crate::lifecycle) fn log_drain(&mut self, now: Moment) {
        if self.phase == Phase::Drain {
            let active = self.jobs.unfinished();
            let left = self.time_to_deadline(now);
            if self.is_draining_anything() {
                self.notify(Notice::Draining { active, left });
            }
            self.shutdown.logged = Some((active, now));
            self.timers.arm(Timer::DrainLog, now.after(DRAIN_LOG_EVERY));
        }
    }

    pub(in crate::lifecycle) fn time_to_deadline(&self, now: Moment) -> Duration {
        self.timers
            .deadline_of(Timer::Deadline)
            .map_or(Duration::ZERO, |deadline| deadline.remaining(now))
    }

    pub(super) fn signal_worker_if_set(&mut self, signal: Option<Signal>) {
        if let Some(signal) = signal {
            self.signal_worker(signal);
        }
    }

    pub(in crate::lifecycle) fn signal_worker(&mut self, signal: Signal) {
        if self.worker.is_alive() {
            self.order(Effect::SignalWorker(signal));
        }
    }
}
