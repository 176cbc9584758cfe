//! The state of the end: the requests for it and their urgency, its start, and its progress. The
//! functions here are the changes and the questions with a rule behind them.

use std::collections::VecDeque;
use std::time::Duration;

use crate::api::{Force, Moment, Options, Reason};
use crate::shutdown::steps::StopStep;
use crate::shutdown::stop_signals::StopSignals;
use crate::shutdown::timeouts::{MOST_TSTPS, StopPlan};

/// The state of the end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Shutdown {
    pub(crate) quiet: QuietBy,
    /// When the orchestrator's clock started, as far as ojs-init knows.
    pub(crate) clock: Option<Moment>,
    /// When SIGTSTPs arrived that may have been preStop hooks, the oldest first.
    tstps: VecDeque<Moment>,
    /// When the last preStop hook ran. Its clock counts if no SIGTERM follows the first hook.
    last_prestop: Option<Moment>,
    pub(super) stop_signals: StopSignals,
    /// The request that did not wait for the deadline.
    pub(super) forced: Option<Force>,
    /// No job gets a cancel grace any more.
    pub(crate) skips_cancel_grace: bool,
    /// The end was requested; otherwise the worker ended by itself.
    pub(super) is_asked: bool,
    pub(super) has_beaten_last: bool,
    /// The state `terminated` was sent after the last heartbeat.
    has_said_terminated: bool,
    /// The cause of the end.
    pub(crate) reason: Reason,
    pub(crate) began: Option<Moment>,
    /// The drain that was planned at the start, or the rest of it that a later clock has left.
    pub(super) granted: Duration,
    pub(crate) killed_at: Option<Moment>,
    /// The number of active jobs that the log has, and since when.
    pub(super) logged: Option<(usize, Moment)>,
    /// The exit status of a third signal.
    pub(crate) abandoned_with: Option<u8>,
    pub(crate) cut_off: usize,
    /// Finished jobs whose ACK the backend never accepted.
    pub(crate) unreported: usize,
    /// When each step of the stop phase ends.
    pub(super) plan: Option<StopPlan>,
    /// The present step of the plan.
    pub(crate) step: StopStep,
    /// No outcome waits for a checkpoint of its job any more.
    pub(crate) goes_without_checkpoints: bool,
    /// When every request that is sent now has to be finished.
    pub(crate) calls_end: Option<Moment>,
}

/// The sources that asked for quiet and have not withdrawn the request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct QuietBy {
    /// A signal, or a person on the control socket.
    pub(crate) operator: bool,
    pub(crate) server: bool,
    pub(crate) prestop: bool,
}

impl QuietBy {
    pub(super) fn nobody(self) -> bool {
        self == Self::default()
    }

    pub(super) fn only_server(self) -> bool {
        self.server && !self.operator && !self.prestop
    }
}

/// Quiet and its end.
impl Shutdown {
    /// Ends quiet for all sources. A SIGTSTP before this moment was no preStop hook's. A clock that
    /// `ojs-init prestop` has started goes on.
    pub(super) fn resumed(&mut self) {
        self.quiet = QuietBy::default();
        self.tstps.clear();
    }

    /// A preStop hook wants quiet. The first one starts the clock, and the last one is remembered.
    pub(super) fn prestop_ran(&mut self, options: &Options, now: Moment) {
        self.start_clock(options, now);
        self.last_prestop = Some(now);
        self.quiet.prestop = true;
    }

    /// Ends the clock of a hook that no SIGTERM followed. The last hook's clock counts instead if
    /// that hook ran less than `lapse` ago, and its start is returned. Otherwise no hook asks for
    /// quiet any more.
    pub(super) fn prestop_lapsed(&mut self, lapse: Duration, now: Moment) -> Option<Moment> {
        self.last_prestop = self.last_prestop.filter(|at| at.elapsed(now) < lapse);
        self.clock = self.last_prestop;
        self.quiet.prestop &= self.clock.is_some();
        self.clock
    }
}

/// The orchestrator's clock.
impl Shutdown {
    /// The clock starts once; a SIGTSTP not long before counts as its start.
    pub(super) fn start_clock(&mut self, options: &Options, now: Moment) {
        let is_recent = |at: &Moment| options.times.limit.is_some_and(|limit| at.elapsed(now) < limit);
        let hook = self.tstps.iter().copied().find(is_recent);
        self.clock.get_or_insert(hook.unwrap_or(now));
    }

    /// Remembers a SIGTSTP. Only the SIGTERM shows which of several the orchestrator sent: the
    /// first one that is recent at that moment.
    pub(super) fn tstp_arrived(&mut self, limit: Option<Duration>, now: Moment) {
        let Some(limit) = limit else { return };
        self.tstps.retain(|at| at.elapsed(now) < limit);
        let is_news = |last: &Moment| last.elapsed(now) >= limit / MOST_TSTPS;
        if self.tstps.back().is_none_or(is_news) {
            self.tstps.push_back(now);
        }
    }
}

/// The request for the end, and its urgency.
impl Shutdown {
    /// Counts a stop signal that is a separate request.
    pub(super) fn stop_signal_arrived(&mut self, by: Reason, options: &Options, now: Moment) -> Force {
        self.start_clock(options, now);
        self.stop_signals.counts(by, now)
    }

    /// The end begins, for this reason.
    pub(super) fn begins(&mut self, reason: Reason, now: Moment) {
        self.is_asked = reason != Reason::Worker;
        self.reason = reason;
        self.began = Some(now);
    }

    /// Sets the moment until which the drain may last.
    pub(super) fn grants_until(&mut self, deadline: Moment) {
        self.granted = self.began.map_or(Duration::ZERO, |began| began.elapsed(deadline));
    }

    /// Notes that a request did not wait for the deadline. A first `stop` leaves the jobs their
    /// cancel grace. Forcing an end that was already requested does not.
    pub(super) fn forced(&mut self, force: Force, was_asked_for: bool) {
        self.skips_cancel_grace = was_asked_for;
        self.forced = Some(force);
    }

    /// How long the end has been going on.
    pub(super) fn took(&self, now: Moment) -> Duration {
        self.began.map_or(Duration::ZERO, |began| began.elapsed(now))
    }
}

/// How far the end is.
impl Shutdown {
    /// Sets the plan of the stop phase. Requests to the backend from now on have to be answered
    /// while outcomes are sent.
    pub(super) fn planned(&mut self, plan: StopPlan) {
        self.plan = Some(plan);
        self.calls_end = Some(plan.report);
    }

    /// When ojs-init has to exit.
    pub(crate) fn exit_by(&self) -> Option<Moment> {
        self.plan.map(|plan| plan.exit_by)
    }

    /// How long a job that is cancelled now has at most, where the end is planned.
    pub(crate) fn cancel_grace_left(&self, now: Moment) -> Option<Duration> {
        self.plan.map(|plan| plan.cancel.remaining(now))
    }

    /// Whether every process that is found gets SIGKILL at once. True from the step `Kill` on.
    pub(crate) fn has_killed(&self) -> bool {
        self.step >= StopStep::Kill
    }

    pub(crate) fn is_killing(&self) -> bool {
        self.step == StopStep::Kill
    }

    pub(crate) fn is_reporting(&self) -> bool {
        self.step == StopStep::Report
    }

    pub(crate) fn is_saying_goodbye(&self) -> bool {
        self.step == StopStep::FinalHeartbeat
    }

    pub(crate) fn has_said_goodbye(&self) -> bool {
        self.step >= StopStep::FinalHeartbeat
    }

    /// The last heartbeat is to be sent, and was not yet.
    pub(super) fn owes_final_heartbeat(&self) -> bool {
        self.is_saying_goodbye() && !self.has_beaten_last
    }

    /// The word `terminated` is to be sent now, which happens once.
    pub(super) fn takes_terminated(&mut self) -> bool {
        !std::mem::replace(&mut self.has_said_terminated, true)
    }
}
