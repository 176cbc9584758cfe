//! When ojs-init sends heartbeats, in which form, and the content of those in flight.

use std::mem;
use std::time::Duration;

use crate::api::{Claim, Failure, HeartbeatForm, JobId, Moment, WorkerId, WorkerState};
use crate::backend::forms::Forms;
use crate::backend::resumed::Resumed;
use crate::retry::state::is_of_an_outage;

/// When ojs-init sends heartbeats, and in which form.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct HeartbeatState {
    /// Time between two heartbeats.
    pub(crate) interval: Duration,
    /// The next heartbeat reports quiet although the phase is later already (GS 5.1).
    pub(super) says_quiet_first: bool,
    /// A heartbeat has reported terminate. No later one may report quiet.
    pub(super) has_said_terminate: bool,
    /// Another heartbeat is to be sent as soon as there is room for it.
    pub(super) again: bool,
    /// When a worker last asked for a heartbeat.
    asked_at: Option<Moment>,
    pub(super) forms: Forms<HeartbeatForm>,
    /// The backend refused every form, and the log has a line about it.
    pub(super) are_refused: bool,
    /// How many heartbeats in a row failed because of an outage.
    pub(super) lost: u32,
    /// A resume that no heartbeat has been answered since.
    pub(crate) resumed: Option<Resumed>,
    /// Another server than the backend answered the last heartbeat.
    is_answered_by_others: bool,
}

/// A heartbeat in flight.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SentHeartbeat {
    pub(super) worker: WorkerId,
    /// When the heartbeat was sent.
    pub(crate) at: Moment,
    /// The state in the heartbeat.
    pub(super) state: WorkerState,
    pub(crate) named: Vec<(JobId, Claim)>,
    pub(crate) form: HeartbeatForm,
    /// The heartbeat reports quiet on the way to terminate.
    pub(super) says_quiet_first: bool,
    /// How long the heartbeat keeps the named jobs reserved.
    pub(crate) kept_for: Duration,
    /// The heartbeat was sent after a resume that had no answer yet.
    pub(super) is_after_resume: bool,
}

impl HeartbeatState {
    /// A worker asks for a heartbeat. Returns whether to send one now: not too soon after the last
    /// one that a worker asked for.
    pub(super) fn worker_asked(&mut self, every: Duration, now: Moment) -> bool {
        let is_soon = self.asked_at.is_some_and(|asked| asked.elapsed(now) < every);
        if !is_soon {
            self.asked_at = Some(now);
        }
        !is_soon
    }

    /// The state that a heartbeat would report now.
    pub(super) fn would_say(&self, state: WorkerState) -> WorkerState {
        if self.says_quiet_first {
            WorkerState::Quiet
        } else {
            state
        }
    }

    /// The state in the heartbeat that is sent now. Quiet on the way to terminate is sent once, and
    /// another heartbeat follows as soon as there is room.
    pub(super) fn goes_out(&mut self, state: WorkerState) -> (WorkerState, bool) {
        let state = self.would_say(state);
        let says_quiet = mem::take(&mut self.says_quiet_first);
        self.has_said_terminate |= state == WorkerState::Terminate;
        self.again = says_quiet;
        (state, says_quiet)
    }

    /// A heartbeat failed. Returns whether that is worth a log line: another server in the
    /// backend's place fails every heartbeat and gets one line.
    pub(super) fn failed(&mut self, failure: Failure) -> bool {
        let lost = self.lost.saturating_add(1);
        self.lost = if is_of_an_outage(failure) { lost } else { 0 };
        let is_foreign = failure == Failure::NotFromBackend;
        let was_foreign = mem::replace(&mut self.is_answered_by_others, is_foreign);
        !(was_foreign && is_foreign)
    }

    /// The backend accepted a heartbeat in this form.
    pub(super) fn accepted(&mut self, form: HeartbeatForm, may_try: bool, now: Moment) {
        self.are_refused = false;
        self.is_answered_by_others = false;
        self.forms.accepted(form, may_try, now);
    }
}
