//! The times of a shutdown: the orchestrator's clock, the deadline of the drain, the plan of the stop phase.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::lifecycle::api::effect::{Reason, Remark};
use crate::lifecycle::api::event::JobError;
use crate::lifecycle::api::ids::{CallId, Claim};
use crate::lifecycle::api::options::Options;
use crate::lifecycle::api::time::Moment;
use crate::lifecycle::machine::{Lifecycle, Timer};
use crate::lifecycle::shutdown::budget::{ShutdownTimes, cancel_grace};
use crate::lifecycle::shutdown::force::{Force, StopSignals};
use crate::lifecycle::shutdown::phase::{Phase, Trigger};

/// A SIGTSTP that follows another one within one such part of the limit counts as the same.
const MOST_TSTPS: u32 = 16;

/// What we know of the end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(in crate::lifecycle) struct Shutdown {
    /// Who asked for quiet.
    pub(in crate::lifecycle) quiet: QuietBy,
    /// When the orchestrator's clock started, as far as we can see it.
    clock: Option<Moment>,
    /// When SIGTSTPs came that may have been preStop hooks: the oldest first.
    tstps: VecDeque<Moment>,
    /// When the last preStop hook ran: its clock counts when that of the first comes to nothing.
    last_prestop: Option<Moment>,
    /// SIGTERM, SIGINT and SIGQUIT so far.
    pub(in crate::lifecycle) stop_signals: StopSignals,
    /// Who did not wait for the deadline.
    pub(in crate::lifecycle) forced: Option<Force>,
    /// Nobody gets a cancel grace any more.
    pub(in crate::lifecycle) is_hurried: bool,
    /// Somebody asked for the end; else the worker ended by itself.
    pub(in crate::lifecycle) is_asked: bool,
    /// The last heartbeat was sent.
    pub(in crate::lifecycle) has_beaten_last: bool,
    /// The word `terminated` was sent after it.
    pub(in crate::lifecycle) has_said_terminated: bool,
    /// What started it.
    pub(in crate::lifecycle) reason: Reason,
    /// When it started.
    began: Option<Moment>,
    /// The drain that was planned then, or what a clock that started later has left of it.
    granted: Duration,
    /// When SIGKILL went out last.
    pub(in crate::lifecycle) killed_at: Option<Moment>,
    /// How many active jobs the log knows of, and since when.
    pub(in crate::lifecycle) logged: Option<(usize, Moment)>,
    /// The exit status of a third signal.
    pub(in crate::lifecycle) abandoned_with: Option<u8>,
    /// Jobs that were cut off.
    pub(in crate::lifecycle) cut_off: usize,
    /// Finished jobs whose ACK the backend never took.
    pub(in crate::lifecycle) unreported: usize,
    /// When each step of the stop phase ends.
    pub(in crate::lifecycle) plan: Option<Plan>,
    /// Where we are in it.
    pub(in crate::lifecycle) step: Step,
    /// No outcome waits for a checkpoint of its job any more.
    pub(in crate::lifecycle) goes_without_checkpoints: bool,
    /// When every request that is made now has to be over.
    pub(in crate::lifecycle) calls_end: Option<Moment>,
    /// Requests that hang and were made again; their answers still count.
    pub(in crate::lifecycle) overtaken: BTreeMap<CallId, Claim>,
}

/// Who asked for quiet and has not taken it back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(in crate::lifecycle) struct QuietBy {
    /// A signal, or a person on the control socket.
    pub(in crate::lifecycle) operator: bool,
    /// The backend.
    pub(in crate::lifecycle) server: bool,
    /// The orchestrator's preStop hook.
    pub(in crate::lifecycle) prestop: bool,
}

impl QuietBy {
    pub(in crate::lifecycle) fn nobody(self) -> bool {
        self == Self::default()
    }

    pub(in crate::lifecycle) fn only_server(self) -> bool {
        self.server && !self.operator && !self.prestop
    }
}

/// The steps of the end game and of the stop phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::lifecycle) enum Step {
    /// Not there yet.
    #[default]
    NotYet,
    /// Jobs are cancelled; their handlers may answer.
    Cancel,
    /// The worker is asked to end.
    Ask,
    /// Who asked for something on the control socket, and has the answer, may leave before the SIGKILL.
    BeforeKill,
    /// The worker is made to end.
    Kill,
    /// Outcomes go out.
    Report,
    /// The last heartbeat.
    FinalHeartbeat,
    /// The last word.
    Deregister,
    /// As before the SIGKILL: the exit of PID 1 ends everybody as well.
    BeforeExit,
    /// Nothing is left to do.
    Over,
}

/// When each step of the stop phase ends. Steps begin as soon as the one before is done, and never end later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::lifecycle) struct Plan {
    pub(in crate::lifecycle) cancel: Moment,
    pub(in crate::lifecycle) kill: Moment,
    pub(in crate::lifecycle) report: Moment,
    pub(in crate::lifecycle) heartbeat: Moment,
    pub(in crate::lifecycle) deregister: Moment,
    exit_by: Moment,
}

impl Plan {
    /// With the usual margin of 5 s: cancel until 1.0 s, SIGKILL until 1.5 s, outcomes until 3.5 s, final heartbeat
    /// until 4.0 s, deregister until 4.5 s, and a slack of 500 ms. Of other margins each has its share of what the slack
    /// leaves; what starts late gets what is left.
    fn new(times: &ShutdownTimes, configured_grace: Duration, begin: Moment, exit_by: Moment) -> Self {
        // A drain that the grace period cut short leaves more time than the stop phase may take.
        let exit_by = exit_by.min(begin.after(times.stop_margin));
        let span = exit_by.from_now(begin).saturating_sub(times.slack());
        let grace = cancel_grace(configured_grace, span);
        let rest = span.saturating_sub(grace);
        let at = |thirty_fifths: u32| begin.after(grace + rest * thirty_fifths / 35);
        Self {
            cancel: at(0),
            kill: at(5),
            report: at(25),
            heartbeat: at(30),
            deregister: at(35),
            exit_by,
        }
    }
}

impl Shutdown {
    /// The clock starts once; a SIGTSTP not long before counts as its start.
    pub(in crate::lifecycle) fn start_clock(&mut self, options: &Options, now: Moment) {
        let is_recent = |at: &Moment| options.times.limit.is_some_and(|limit| at.until(now) < limit);
        let hook = self.tstps.iter().copied().find(is_recent);
        self.clock.get_or_insert(hook.unwrap_or(now));
    }

    /// How long the end has been going on.
    pub(in crate::lifecycle) fn took(&self, now: Moment) -> Duration {
        self.began.map_or(Duration::ZERO, |began| began.until(now))
    }

    /// When it began.
    pub(in crate::lifecycle) fn began(&self) -> Option<Moment> {
        self.began
    }

    pub(in crate::lifecycle) fn has_clock(&self) -> bool {
        self.clock.is_some()
    }

    /// The first hook starts the clock, and the last one is remembered.
    pub(in crate::lifecycle) fn prestop_ran(&mut self, options: &Options, now: Moment) {
        self.start_clock(options, now);
        self.last_prestop = Some(now);
    }

    /// No SIGTERM followed the hook that the clock is of. The one of the last hook counts instead, if that ran less than
    /// `lapse` ago: its time is returned.
    pub(in crate::lifecycle) fn next_prestop(&mut self, lapse: Duration, now: Moment) -> Option<Moment> {
        self.last_prestop = self.last_prestop.filter(|at| at.until(now) < lapse);
        self.clock = self.last_prestop;
        self.clock
    }

    /// Which of several the orchestrator's was is only known when the SIGTERM comes: the first that is recent by then.
    pub(in crate::lifecycle) fn tstp_arrived(&mut self, limit: Option<Duration>, now: Moment) {
        let Some(limit) = limit else { return };
        self.tstps.retain(|at| at.until(now) < limit);
        let is_news = |last: &Moment| last.until(now) >= limit / MOST_TSTPS;
        if self.tstps.back().is_none_or(is_news) {
            self.tstps.push_back(now);
        }
    }

    pub(in crate::lifecycle) fn forget_tstp(&mut self) {
        self.tstps.clear();
    }

    /// The moment that a request must not outlast.
    pub(in crate::lifecycle) fn cap(&self, give_up: Moment) -> Moment {
        self.calls_end.map_or(give_up, |end| give_up.min(end))
    }

    pub(in crate::lifecycle) fn exit_by(&self) -> Option<Moment> {
        self.plan.map(|plan| plan.exit_by)
    }

    pub(in crate::lifecycle) fn is_killing(&self) -> bool {
        self.step == Step::Kill
    }

    pub(in crate::lifecycle) fn is_reporting(&self) -> bool {
        self.step == Step::Report
    }

    pub(in crate::lifecycle) fn has_said_goodbye(&self) -> bool {
        self.step >= Step::FinalHeartbeat
    }
}

impl Lifecycle {
    /// t0: from here on there is a deadline, no FETCH, and no way back.
    pub(in crate::lifecycle) fn begin_terminate(&mut self, from: Phase, reason: Reason, now: Moment) {
        for timer in [
            Timer::PrestopLapse,
            Timer::Fetch,
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
        self.shutdown.is_asked = reason != Reason::Worker;
        self.shutdown.reason = reason;
        self.shutdown.began = Some(now);
        self.begin_account(now);
        self.set_deadline(self.latest_deadline(now));
        let state = self.state();
        self.say(Remark::StateChanged { state, reason });
        self.beat_for_terminate(from, now);
    }

    /// When a drain that begins now ends; what the orchestrator's clock says has gone by already is gone.
    pub(in crate::lifecycle) fn latest_deadline(&self, now: Moment) -> Moment {
        let elapsed = self.shutdown.clock.map_or(Duration::ZERO, |clock| clock.until(now));
        now.after(self.options.times.drain(elapsed))
    }

    fn set_deadline(&mut self, deadline: Moment) {
        self.shutdown.granted = self
            .shutdown
            .began
            .map_or(Duration::ZERO, |began| began.until(deadline));
        let margin = deadline.after(self.options.times.stop_margin);
        let exit_by = self.limit().unwrap_or(margin);
        self.plan(deadline, exit_by);
        self.timers.arm(Timer::Deadline, deadline);
    }

    /// A stop signal after a terminate that no orchestrator had asked for: the deadline, and every other end, may only
    /// come closer.
    pub(in crate::lifecycle) fn clock_started_late(&mut self, now: Moment) {
        let (Some(exit_by), Some(before)) = (self.limit(), self.shutdown.exit_by()) else {
            return;
        };
        if before <= exit_by {
            return;
        }
        if let Some(before) = self.timers.due(Timer::Deadline) {
            let deadline = before.min(self.latest_deadline(now));
            self.set_deadline(deadline);
            if deadline < before && self.phase == Phase::Drain {
                self.announce(self.shutdown.reason, Some(deadline.from_now(now)), now);
            }
        } else {
            self.plan(now, exit_by);
            self.follow_plan(now);
        }
    }

    /// When the orchestrator's time is over, once we know when it began.
    fn limit(&self) -> Option<Moment> {
        let (clock, limit) = self.shutdown.clock.zip(self.options.times.limit)?;
        Some(clock.after(limit))
    }

    /// How long it is until then.
    pub(in crate::lifecycle) fn time_to_limit(&self, now: Moment) -> Option<Duration> {
        self.limit().map(|limit| limit.from_now(now))
    }

    pub(in crate::lifecycle) fn deadline_reached(&mut self, now: Moment) {
        self.go(Trigger::DeadlineReached, self.shutdown.reason, now);
    }

    /// The plan of a stop phase that begins now.
    pub(in crate::lifecycle) fn plan_stop(&mut self, now: Moment) {
        let margin = now.after(self.options.times.stop_margin);
        let limits = [self.shutdown.exit_by(), self.limit()];
        let exit_by = limits.into_iter().flatten().fold(margin, Moment::min);
        self.plan(now, exit_by);
    }

    fn plan(&mut self, begin: Moment, exit_by: Moment) {
        let plan = Plan::new(&self.options.times, self.options.cancel_grace, begin, exit_by);
        self.shutdown.plan = Some(plan);
        self.shutdown.calls_end = Some(plan.report);
    }

    /// The FAIL of a job that was cut off (GS-005, worker protocol 7.2.5, requirements C-05).
    pub(in crate::lifecycle) fn shutdown_error(&self, now: Moment) -> JobError {
        let elapsed = self.shutdown.took(now);
        let details = format!(
            r#"{{"reason":"shutdown","kind":"{}","trigger":"{}","grace_ms":{},"elapsed_ms":{}}}"#,
            if self.shutdown.forced.is_some() {
                "forced"
            } else {
                "ShutdownTimeout"
            },
            self.shutdown.reason.name(),
            // What was in force, which the orchestrator's limit may have made less than what is configured.
            self.shutdown.granted.as_millis(),
            elapsed.as_millis(),
        );
        JobError {
            code: Some(self.options.shutdown_error_code.clone()),
            kind: Some(self.options.shutdown_error_type.clone()),
            message: "the worker was shut down before the job was finished".into(),
            retryable: true,
            details: Some(details.into()),
            backtrace: None,
        }
    }

    /// With what status to end.
    pub(in crate::lifecycle) fn exit_status(&self) -> u8 {
        if let Some(status) = self.shutdown.abandoned_with {
            return status;
        }
        if !self.shutdown.is_asked {
            return self.worker.status(&self.options.remap_exit);
        }
        if self.shutdown.cut_off > 0 {
            self.options.interrupted_exit
        } else {
            0
        }
    }
}

#[cfg(test)]
#[path = "times_tests.rs"]
mod tests;
