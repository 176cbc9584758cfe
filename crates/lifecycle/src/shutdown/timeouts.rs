//! Every number of the end that nobody can set: how long what may take, and why so long.
//!
//! The configuration says how much time there is at all (grace period, the orchestrator's limit,
//! stop margin, slack), and what a short limit leaves of the cancel grace. Those numbers and their
//! arithmetic are in `api::budget`. How long the worker's descendants are looked for is a matter of
//! its supervision, with or without a shutdown: `worker::supervise`.

use std::time::Duration;

use crate::api::{Moment, ShutdownTimes, cancel_grace};

// Requests to end.

/// How soon after a stop signal another one of its kind is the same request: `timeout` and some
/// shells signal a process and its group. No person is that quick, and no orchestrator forces
/// anything within a second.
pub(super) const SAME_REQUEST: Duration = Duration::from_millis(100);

/// A SIGTSTP that follows another one within one such part of the limit counts as the same. Which
/// of them was the orchestrator's is only known later, and no number of them may fill the memory.
pub(super) const MOST_TSTPS: u32 = 16;

// The drain.

/// How often the jobs that are left are logged during the drain (GS-R003).
pub(super) const DRAIN_LOG_EVERY: Duration = Duration::from_secs(5);

/// Least time between two such lines when the number changes: a thousand jobs that end at once are
/// a few lines.
pub(super) const DRAIN_LOG_AT_MOST_EVERY: Duration = Duration::from_secs(1);

// The steps of the stop phase.

/// One part of the stop phase: what the slack and the cancel grace leave, by this many. With the
/// usual margin of 5 s and a cancel grace of 1 s a part is 100 ms; see [`StopPlan::new`].
const PARTS: u32 = 35;

/// Until this part SIGKILL is to be out and who got it gone: 500 ms, since the kernel tears big
/// processes down slowly.
const KILL_BY_PART: u32 = 5;

/// Until this part outcomes go out: 2 s, the most of all, since a lost outcome costs the most.
const REPORT_BY_PART: u32 = 25;

/// Until this part the last heartbeat has its answer: 500 ms for a single request.
const HEARTBEAT_BY_PART: u32 = 30;

/// Until this part the deregistration has its answer: 500 ms for a single request.
const DEREGISTER_BY_PART: u32 = PARTS;

/// How long the SIGKILL, and then the exit, wait for those on the control socket who have their
/// answer and are about to leave: as PID 1 either ends them as well.
pub(super) const OPERATOR_LEAVE_LIMIT: Duration = Duration::from_millis(100);

/// Of the time that the SIGKILL and the reaping have, those who leave get at most one part in so
/// many.
const OPERATOR_LEAVE_SHARE: u32 = 5;

/// How long those who got the SIGKILL have at least to be gone, when half of what is left for the
/// reports is as much. A job whose process is not known to be gone gets no FAIL.
pub(super) const REAP_MIN: Duration = Duration::from_millis(200);

/// The part of the time for the outcomes in which an outcome waits for the checkpoint of its job. A
/// handler that saved something within its cancel grace did so for the next attempt, and the
/// outcome needs the rest.
const CHECKPOINT_SHARE: u32 = 2;

/// Of the time for the last heartbeat, the part for which it waits for an earlier one that hangs:
/// the other part is its own.
const EARLIER_HEARTBEAT_SHARE: u32 = 2;

/// Longest that each of the two last words may take when there is time: an exit in good order shall
/// be quick too.
pub(super) const LAST_WORD: Duration = Duration::from_secs(2);

/// Longest wait for the answer to a registration that is to be undone.
pub(super) const UNDO_WITHIN: Duration = Duration::from_secs(1);

/// When each step of the stop phase ends. Steps begin as soon as the one before is done, and never
/// end later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct StopPlan {
    cancel: Moment,
    kill: Moment,
    report: Moment,
    heartbeat: Moment,
    deregister: Moment,
    exit_by: Moment,
}

impl StopPlan {
    /// With the usual margin of 5 s: cancel until 1.0 s, SIGKILL until 1.5 s, outcomes until 3.5 s,
    /// final heartbeat until 4.0 s, deregister until 4.5 s, and a slack of 500 ms. Of other margins
    /// each has its share of what the slack leaves; what starts late gets what is left.
    pub(super) fn new(times: &ShutdownTimes, configured_grace: Duration, begin: Moment, exit_by: Moment) -> Self {
        // A drain that the grace period cut short leaves more time than the stop phase may take.
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

    /// When the cancel grace is over.
    pub(super) fn cancel(&self) -> Moment {
        self.cancel
    }

    /// When the backend has to have every outcome.
    pub(super) fn report(&self) -> Moment {
        self.report
    }

    /// When we have to be gone.
    pub(super) fn exit_by(&self) -> Moment {
        self.exit_by
    }

    /// When the SIGKILL no longer waits for those who leave the control socket.
    pub(super) fn leave_before_kill(&self, now: Moment) -> Moment {
        let share = self.kill.remaining(now) / OPERATOR_LEAVE_SHARE;
        now.after(OPERATOR_LEAVE_LIMIT.min(share))
    }

    /// When the exit no longer waits for them.
    pub(super) fn leave_before_exit(&self, now: Moment) -> Moment {
        self.deregister.min(now.after(OPERATOR_LEAVE_LIMIT))
    }

    /// When what gets its SIGKILL now is no longer waited for. Where the SIGKILL itself came late,
    /// what is killed has some time to be gone all the same.
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

    /// When a registration that was on its way has to have its answer, so that it can be undone.
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
