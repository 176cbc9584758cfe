//! The orchestrator's clock, what was asked for, and the plan of the stop phase.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::lifecycle::api::budget::{ShutdownTimes, cancel_grace};
use crate::lifecycle::api::force::Force;
use crate::lifecycle::api::ids::{CallId, Claim};
use crate::lifecycle::api::options::Options;
use crate::lifecycle::api::time::Moment;
use crate::lifecycle::api::words::Reason;
use crate::lifecycle::shutdown::stop_signals::StopSignals;

/// A SIGTSTP that follows another one within one such part of the limit counts as the same.
const MOST_TSTPS: u32 = 16;

/// What we know of the end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(in crate::lifecycle) struct Shutdown {
    /// Who asked for quiet.
    pub(in crate::lifecycle) quiet: QuietBy,
    /// When the orchestrator's clock started, as far as we can see it.
    pub(super) clock: Option<Moment>,
    /// When SIGTSTPs came that may have been preStop hooks: the oldest first.
    tstps: VecDeque<Moment>,
    /// When the last preStop hook ran: its clock counts when that of the first comes to nothing.
    last_prestop: Option<Moment>,
    /// SIGTERM, SIGINT and SIGQUIT so far.
    pub(super) stop_signals: StopSignals,
    /// Who did not wait for the deadline.
    pub(super) forced: Option<Force>,
    /// Nobody gets a cancel grace any more.
    pub(in crate::lifecycle) skips_cancel_grace: bool,
    /// Somebody asked for the end; else the worker ended by itself.
    pub(super) is_asked: bool,
    /// The last heartbeat was sent.
    pub(super) has_beaten_last: bool,
    /// The word `terminated` was sent after it.
    pub(super) has_said_terminated: bool,
    /// What started it.
    pub(in crate::lifecycle) reason: Reason,
    /// When it started.
    pub(super) began: Option<Moment>,
    /// The drain that was planned then, or what a clock that started later has left of it.
    pub(super) granted: Duration,
    /// When SIGKILL went out last.
    pub(in crate::lifecycle) killed_at: Option<Moment>,
    /// How many active jobs the log knows of, and since when.
    pub(super) logged: Option<(usize, Moment)>,
    /// The exit status of a third signal.
    pub(super) abandoned_with: Option<u8>,
    /// Jobs that were cut off.
    pub(in crate::lifecycle) cut_off: usize,
    /// Finished jobs whose ACK the backend never took.
    pub(super) unreported: usize,
    /// When each step of the stop phase ends.
    pub(in crate::lifecycle) plan: Option<StopPlan>,
    /// Where we are in it.
    pub(in crate::lifecycle) step: StopStep,
    /// No outcome waits for a checkpoint of its job any more.
    pub(in crate::lifecycle) goes_without_checkpoints: bool,
    /// When every request that is made now has to be over.
    pub(super) calls_end: Option<Moment>,
    /// Requests that hang and were made again; their answers still count.
    pub(in crate::lifecycle) hedged: BTreeMap<CallId, Claim>,
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
    pub(super) fn nobody(self) -> bool {
        self == Self::default()
    }

    pub(super) fn only_server(self) -> bool {
        self.server && !self.operator && !self.prestop
    }
}

/// The steps of the end game and of the stop phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::lifecycle) enum StopStep {
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
pub(in crate::lifecycle) struct StopPlan {
    pub(in crate::lifecycle) cancel: Moment,
    pub(super) kill: Moment,
    pub(super) report: Moment,
    pub(super) heartbeat: Moment,
    pub(super) deregister: Moment,
    exit_by: Moment,
}

impl StopPlan {
    /// With the usual margin of 5 s: cancel until 1.0 s, SIGKILL until 1.5 s, outcomes until 3.5 s, final heartbeat
    /// until 4.0 s, deregister until 4.5 s, and a slack of 500 ms. Of other margins each has its share of what the slack
    /// leaves; what starts late gets what is left.
    pub(super) fn new(times: &ShutdownTimes, configured_grace: Duration, begin: Moment, exit_by: Moment) -> Self {
        // A drain that the grace period cut short leaves more time than the stop phase may take.
        let exit_by = exit_by.min(begin.after(times.stop_margin));
        let span = exit_by.remaining(begin).saturating_sub(times.slack());
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
    pub(super) fn start_clock(&mut self, options: &Options, now: Moment) {
        let is_recent = |at: &Moment| options.times.limit.is_some_and(|limit| at.elapsed(now) < limit);
        let hook = self.tstps.iter().copied().find(is_recent);
        self.clock.get_or_insert(hook.unwrap_or(now));
    }

    /// How long the end has been going on.
    pub(super) fn took(&self, now: Moment) -> Duration {
        self.began.map_or(Duration::ZERO, |began| began.elapsed(now))
    }

    /// When it began.
    pub(in crate::lifecycle) fn began(&self) -> Option<Moment> {
        self.began
    }

    pub(in crate::lifecycle) fn has_clock(&self) -> bool {
        self.clock.is_some()
    }

    /// The first hook starts the clock, and the last one is remembered.
    pub(super) fn prestop_ran(&mut self, options: &Options, now: Moment) {
        self.start_clock(options, now);
        self.last_prestop = Some(now);
    }

    /// No SIGTERM followed the hook that the clock is of. The one of the last hook counts instead, if that ran less than
    /// `lapse` ago: its time is returned.
    pub(super) fn next_prestop(&mut self, lapse: Duration, now: Moment) -> Option<Moment> {
        self.last_prestop = self.last_prestop.filter(|at| at.elapsed(now) < lapse);
        self.clock = self.last_prestop;
        self.clock
    }

    /// Which of several the orchestrator's was is only known when the SIGTERM comes: the first that is recent by then.
    pub(super) fn tstp_arrived(&mut self, limit: Option<Duration>, now: Moment) {
        let Some(limit) = limit else { return };
        self.tstps.retain(|at| at.elapsed(now) < limit);
        let is_news = |last: &Moment| last.elapsed(now) >= limit / MOST_TSTPS;
        if self.tstps.back().is_none_or(is_news) {
            self.tstps.push_back(now);
        }
    }

    pub(super) fn forget_tstp(&mut self) {
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
        self.step == StopStep::Kill
    }

    pub(in crate::lifecycle) fn is_reporting(&self) -> bool {
        self.step == StopStep::Report
    }

    pub(in crate::lifecycle) fn has_said_goodbye(&self) -> bool {
        self.step >= StopStep::FinalHeartbeat
    }
}
