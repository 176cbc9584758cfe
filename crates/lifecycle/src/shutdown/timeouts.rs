//! Every number of the end that has no setting: how long each wait may last, and why.
//!
//! The configuration sets how much time there is at all (grace period, the orchestrator's limit,
//! stop margin, slack), and the cancel grace that a short limit leaves. Those numbers and their
//! arithmetic are in `api::budget`. `worker::supervise` has the time of the search for the worker's
//! descendants, because that runs with or without a shutdown.

use std::time::Duration;

use crate::api::{Moment, ShutdownTimes, cancel_grace};

// Requests to end.

/// Time after a stop signal within which another one of its kind repeats it, because `timeout` and
/// some shells signal a process and its group. No person is that quick, and no orchestrator forces
/// anything within a second.
pub(super) const SAME_REQUEST: Duration = Duration::from_millis(100);

/// A SIGTSTP that follows another one within this part of the limit counts as the same. Only a
/// later SIGTERM shows which of them the orchestrator sent, and their number must not fill the
/// memory.
pub(super) const MOST_TSTPS: u32 = 16;

// The drain.

/// How often the jobs that are left are logged during the drain (GS-R003).
pub(super) const DRAIN_LOG_EVERY: Duration = Duration::from_secs(5);

/// Least time between two lines about a changed number of jobs. A thousand jobs that end at once
/// cause a few lines.
pub(super) const DRAIN_LOG_AT_MOST_EVERY: Duration = Duration::from_secs(1);

// The steps of the stop phase.

/// One part of the stop phase is the time without the slack and the cancel grace, divided by this.
/// With the usual margin of 5 s and a cancel grace of 1 s a part is 100 ms; see [`StopPlan::new`].
const PARTS: u32 = 35;

/// Part by which SIGKILL is sent and the killed processes have ended. They have 500 ms, because the
/// kernel tears big processes down slowly.
const KILL_BY_PART: u32 = 5;

/// Part by which the outcomes are sent. They have 2 s, the longest of all steps, because a lost
/// outcome costs the most.
const REPORT_BY_PART: u32 = 25;

/// Until this part the last heartbeat has its answer: 500 ms for a single request.
const HEARTBEAT_BY_PART: u32 = 30;

/// Until this part the deregistration has its answer: 500 ms for a single request.
const DEREGISTER_BY_PART: u32 = PARTS;

/// Wait of the SIGKILL, and then of the exit, for clients of the control socket that have their
/// answer and are about to leave. Both end such clients as well, because ojs-init is PID 1.
pub(super) const OPERATOR_LEAVE_LIMIT: Duration = Duration::from_millis(100);

/// Clients that leave get at most one part in this many of the time for the SIGKILL and the
/// reaping.
const OPERATOR_LEAVE_SHARE: u32 = 5;

/// Least time for killed processes to end, unless half of the time left for the reports is shorter.
/// A job whose process is not known to have ended gets no FAIL.
pub(super) const REAP_MIN: Duration = Duration::from_millis(200);

/// The part of the time for the outcomes in which an outcome waits for the checkpoint of its job. A
/// handler that saved something within its cancel grace did so for the next attempt, and the
/// outcome needs the rest.
const CHECKPOINT_SHARE: u32 = 2;

/// The part of the last heartbeat's time in which it waits for an earlier one that hangs. The other
/// part is its own.
const EARLIER_HEARTBEAT_SHARE: u32 = 2;

/// Longest time of the last heartbeat and of the deregistration each, if there is time, because an
/// exit in good order must be quick too.
pub(super) const LAST_WORD: Duration = Duration::from_secs(2);

/// Longest wait for the answer to a registration that is to be undone.
pub(super) const UNDO_WITHIN: Duration = Duration::from_secs(1);

/// When each step of the stop phase ends. Steps begin as soon as the one before is done, and never
/// end later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct StopPlan {
    pub(super) cancel: Moment,
    kill: Moment,
    pub(super) report: Moment,
    heartbeat: Moment,
    deregister: Moment,
    pub(super) exit_by: Moment,
}

impl StopPlan {
    /// With the usual margin of 5 s: cancel until 1.0 s, SIGKILL until 1.5 s, outcomes until 3.5 s,
    /// final heartbeat until 4.0 s, deregister until 4.5 s, and a slack of 500 ms. With another
    /// margin each step gets its share of the time without the slack. A step that starts late gets
    /// the remaining time.
    pub(super) fn new(times: &ShutdownTimes, configured_grace: Duration, begin: Moment, exit_by: Moment) -> Self {
        // A drain that the grace period cut short leaves more time than the stop phase may use.
        let exit_by = exit_by.min(begin.after(times.stop_margin));
        let span = exit_by.remaining(begin).saturating_sub(times.slack());
        let grace = cancel_grace(configured_grace, span);
        let rest = span.saturating_sub(grace);
        let at = |part: u32| begin.after(grace + rest * part / PARTS);
        Self {
            cancel: at(0),
            kill: at(KILL_BY_PART),
            report: at(REPORT_BY_PART),
            heartbeat: at(HEARTBEAT_BY_PART),
            deregister: at(DEREGISTER_BY_PART),
            exit_by,
        }
    }

    /// When the SIGKILL no longer waits for clients that leave the control socket.
    pub(super) fn leave_before_kill(&self, now: Moment) -> Moment {
        let share = self.kill.remaining(now) / OPERATOR_LEAVE_SHARE;
        now.after(OPERATOR_LEAVE_LIMIT.min(share))
    }

    /// When the exit no longer waits for clients that leave the control socket.
    pub(super) fn leave_before_exit(&self, now: Moment) -> Moment {
        self.deregister.min(now.after(OPERATOR_LEAVE_LIMIT))
    }

    /// When ojs-init stops waiting for processes that get SIGKILL now. Even after a late SIGKILL
    /// these have some time to end.
    pub(super) fn reaped(&self, now: Moment) -> Moment {
        let least = REAP_MIN.min(self.report.remaining(now) / 2);
        self.kill.max(now.after(least))
    }

    /// When outcomes no longer wait for checkpoints.
    pub(super) fn checkpoints(&self, now: Moment) -> Moment {
        now.after(self.report.remaining(now) / CHECKPOINT_SHARE)
    }

    /// When the last heartbeat has to have its answer.
    pub(super) fn final_heartbeat(&self, is_quick: bool, now: Moment) -> Moment {
        last_word(self.heartbeat, is_quick, now)
    }

    /// When a deregistration has to have its answer.
    pub(super) fn deregister(&self, is_quick: bool, now: Moment) -> Moment {
        last_word(self.deregister, is_quick, now)
    }

    /// When a registration in flight has to have its answer, because the worker must be
    /// deregistered after it.
    pub(super) fn undo(&self, now: Moment) -> Moment {
        self.deregister.min(now.after(UNDO_WITHIN))
    }
}

/// When the last heartbeat, which ends then, no longer waits for an earlier one that hangs.
pub(super) fn earlier_heartbeats(end: Moment, now: Moment) -> Moment {
    now.after(end.remaining(now) / EARLIER_HEARTBEAT_SHARE)
}

fn last_word(end: Moment, is_quick: bool, now: Moment) -> Moment {
    if is_quick { end.min(now.after(LAST_WORD)) } else { end }
}

#[cfg(test)]
#[path = "timeouts_tests.rs"]
mod tests;
