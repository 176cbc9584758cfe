//! The state of the end: who asked for it and how urgently, since when, how far it is. Other files
//! report events and ask questions. Only this file changes the fields.

use std::collections::VecDeque;
use std::time::Duration;

use crate::api::{Force, Moment, Options, Reason};
use crate::shutdown::steps::StopStep;
use crate::shutdown::stop_signals::StopSignals;
use crate::shutdown::timeouts::{MOST_TSTPS, StopPlan};

/// The state of the end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Shutdown {
    quiet: QuietBy,
    /// When the orchestrator's clock started, as far as we can see it.
    clock: Option<Moment>,
    /// When SIGTSTPs came that may have been preStop hooks: the oldest first.
    tstps: VecDeque<Moment>,
    /// When the last preStop hook ran: its clock counts when that of the first comes to nothing.
    last_prestop: Option<Moment>,
    stop_signals: StopSignals,
    /// The request that did not wait for the deadline.
    forced: Option<Force>,
    /// Nobody gets a cancel grace any more.
    skips_cancel_grace: bool,
    /// Somebody asked for the end; else the worker ended by itself.
    is_asked: bool,
    has_beaten_last: bool,
    /// The word `terminated` was sent after it.
    has_said_terminated: bool,
    /// The cause of the end.
    reason: Reason,
    began: Option<Moment>,
    /// The drain that was planned then, or what a clock that started later has left of it.
    granted: Duration,
    killed_at: Option<Moment>,
    /// How many active jobs the log knows of, and since when.
    logged: Option<(usize, Moment)>,
    /// The exit status of a third signal.
    abandoned_with: Option<u8>,
    cut_off: usize,
    /// Finished jobs whose ACK the backend never took.
    unreported: usize,
    /// When each step of the stop phase ends.
    plan: Option<StopPlan>,
    /// Where we are in it.
    step: StopStep,
    /// No outcome waits for a checkpoint of its job any more.
    goes_without_checkpoints: bool,
    /// When every request that is made now has to be over.
    calls_end: Option<Moment>,
}

/// The sides that asked for quiet and have not taken it back.
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

/// Quiet, and what takes it back.
impl Shutdown {
    /// The sides that asked for quiet.
    pub(crate) fn quiet_by(&self) -> QuietBy {
        self.quiet
    }

    pub(super) fn operator_wants_quiet(&mut self) {
        self.quiet.operator = true;
    }

    pub(super) fn server_wants_quiet(&mut self) {
        self.quiet.server = true;
    }

    /// Nobody wants quiet any more, so no SIGTSTP before this was a preStop hook's. A clock that
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

    /// No SIGTERM followed the hook that the clock is of. The one of the last hook counts instead,
    /// if that ran less than `lapse` ago: its time is returned. Else no hook wants quiet any more.
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

    /// Which of several the orchestrator's was is only known when the SIGTERM comes: the first that
    /// is recent by then.
    pub(super) fn tstp_arrived(&mut self, limit: Option<Duration>, now: Moment) {
        let Some(limit) = limit else { return };
        self.tstps.retain(|at| at.elapsed(now) < limit);
        let is_news = |last: &Moment| last.elapsed(now) >= limit / MOST_TSTPS;
        if self.tstps.back().is_none_or(is_news) {
            self.tstps.push_back(now);
        }
    }

    /// When the orchestrator's clock started.
    pub(super) fn clock(&self) -> Option<Moment> {
        self.clock
    }

    pub(crate) fn has_clock(&self) -> bool {
        self.clock.is_some()
    }
}

/// The request for the end, and its urgency.
impl Shutdown {
    /// How long ago a stop signal came that a SIGCONT of this moment belongs to.
    pub(super) fn stop_signal_just_came(&self, now: Moment) -> Option<Duration> {
        self.stop_signals.just_came(now)
    }

    /// How long ago the stop signal came of which this one is no more than a repetition.
    pub(super) fn repeats_stop_signal(&self, by: Reason, now: Moment) -> Option<Duration> {
        self.stop_signals.repeats(by, now)
    }

    /// A stop signal came that is a request of its own.
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

    /// The drain may take until this moment.
    pub(super) fn grants_until(&mut self, deadline: Moment) {
        self.granted = self.began.map_or(Duration::ZERO, |began| began.elapsed(deadline));
    }

    /// Somebody did not wait for the deadline. A first `stop` leaves the jobs their cancel grace;
    /// forcing what was asked for before does not.
    pub(super) fn forced(&mut self, force: Force, was_asked_for: bool) {
        self.skips_cancel_grace = was_asked_for;
        self.forced = Some(force);
    }

    /// A third signal: the exit status is this.
    pub(super) fn abandoned(&mut self, status: u8) {
        self.abandoned_with = Some(status);
    }

    /// Somebody asked for the end; else the worker ended by itself.
    pub(super) fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// The cause of the end.
    pub(crate) fn reason(&self) -> Reason {
        self.reason
    }

    /// When it began.
    pub(crate) fn began(&self) -> Option<Moment> {
        self.began
    }

    /// How long the end has been going on.
    pub(super) fn took(&self, now: Moment) -> Duration {
        self.began.map_or(Duration::ZERO, |began| began.elapsed(now))
    }

    /// How long the drain could take, when that was last planned.
    pub(super) fn granted(&self) -> Duration {
        self.granted
    }

    /// The request that did not wait for the deadline.
    pub(super) fn forced_by(&self) -> Option<Force> {
        self.forced
    }

    /// Nobody gets a cancel grace any more.
    pub(crate) fn skips_cancel_grace(&self) -> bool {
        self.skips_cancel_grace
    }

    /// The exit status of a third signal, if that came.
    pub(super) fn abandoned_with(&self) -> Option<u8> {
        self.abandoned_with
    }
}

/// How far the end is.
impl Shutdown {
    /// The step that the end is in.
    pub(crate) fn step(&self) -> StopStep {
        self.step
    }

    pub(super) fn entered(&mut self, step: StopStep) {
        self.step = step;
    }

    /// The stop phase has this plan. What is asked of the backend from now on has to be answered
    /// while outcomes go out.
    pub(super) fn planned(&mut self, plan: StopPlan) {
        self.plan = Some(plan);
        self.calls_end = Some(plan.report());
    }

    /// When each step of the stop phase ends.
    pub(super) fn plan(&self) -> Option<StopPlan> {
        self.plan
    }

    /// When we have to be gone.
    pub(crate) fn exit_by(&self) -> Option<Moment> {
        self.plan.map(|plan| plan.exit_by())
    }

    /// How long a job that is cancelled now has at most, where the end is planned.
    pub(crate) fn cancel_grace_left(&self, now: Moment) -> Option<Duration> {
        self.plan.map(|plan| plan.cancel().remaining(now))
    }

    /// Requests that are made from now on have to be over by then.
    pub(super) fn calls_end_by(&mut self, end: Option<Moment>) {
        self.calls_end = end;
    }

    /// The moment that no request must outlast.
    pub(crate) fn calls_end(&self) -> Option<Moment> {
        self.calls_end
    }

    /// From this step on whoever is found gets SIGKILL at once.
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

    pub(super) fn final_heartbeat_sent(&mut self) {
        self.has_beaten_last = true;
    }

    /// The word `terminated` is to be sent now, which happens once.
    pub(super) fn takes_terminated(&mut self) -> bool {
        !std::mem::replace(&mut self.has_said_terminated, true)
    }
}

/// Counts of processes, jobs and outcomes.
impl Shutdown {
    /// SIGKILL went out.
    pub(super) fn killed(&mut self, now: Moment) {
        self.killed_at = Some(now);
    }

    /// How long ago SIGKILL went out last.
    pub(super) fn since_kill(&self, now: Moment) -> Duration {
        self.killed_at.map_or(Duration::ZERO, |at| at.elapsed(now))
    }

    /// The log was told how many jobs are active.
    pub(super) fn drain_logged(&mut self, active: usize, now: Moment) {
        self.logged = Some((active, now));
    }

    /// When the log was told of another number than this one.
    pub(super) fn drain_logged_otherwise(&self, active: usize) -> Option<Moment> {
        self.logged.filter(|(logged, _)| *logged != active).map(|(_, at)| at)
    }

    /// A job was cut off.
    pub(super) fn job_cut_off(&mut self) {
        self.cut_off += 1;
    }

    /// Jobs that were cut off.
    pub(crate) fn cut_off(&self) -> usize {
        self.cut_off
    }

    /// The backend never took so many ACKs of finished jobs.
    pub(super) fn acks_unreported(&mut self, acks: usize) {
        self.unreported += acks;
    }

    /// Finished jobs whose ACK the backend never took.
    pub(super) fn unreported(&self) -> usize {
        self.unreported
    }

    /// Outcomes have waited for checkpoints for long enough.
    pub(super) fn checkpoints_time_over(&mut self) {
        self.goes_without_checkpoints = true;
    }

    /// No outcome waits for a checkpoint of its job any more.
    pub(crate) fn goes_without_checkpoints(&self) -> bool {
        self.goes_without_checkpoints
    }
}
