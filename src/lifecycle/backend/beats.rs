//! When and how heartbeats go out, and what one said that is on its way.

use std::time::Duration;

use crate::lifecycle::api::forms::HeartbeatForm;
use crate::lifecycle::api::ids::{Claim, JobId, WorkerId};
use crate::lifecycle::api::time::Moment;
use crate::lifecycle::backend::resumed::Resumed;

/// How long a form other than the full one is used before the full one is tried again.
const OTHER_FORM_FOR: Duration = Duration::from_secs(10 * 60);

/// When and how heartbeats go out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::lifecycle) struct HeartbeatState {
    /// Time between two.
    pub(in crate::lifecycle) interval: Duration,
    /// The next one says quiet although we are further already (GS 5.1).
    pub(super) says_quiet_first: bool,
    /// One has said terminate: from there no way leads back to quiet.
    pub(super) has_said_terminate: bool,
    /// Another one is wanted as soon as there is room for it.
    pub(super) again: bool,
    /// When a worker last asked for one.
    pub(super) asked_at: Option<Moment>,
    /// Whether this backend tells which reservations a heartbeat extended.
    pub(in crate::lifecycle) extends: bool,
    /// How they are spelled; what worked is remembered.
    pub(super) form: HeartbeatForm,
    /// When one in this form was first accepted; none: not yet.
    pub(super) form_since: Option<Moment>,
    /// Forms in a row that were refused.
    pub(super) refusals: u32,
    /// Every form was, and that was said.
    pub(super) are_refused: bool,
    /// How many in a row did not get through, or their answers did not.
    pub(super) lost: u32,
    /// A resume that none of them has been answered since.
    pub(in crate::lifecycle) resumed: Option<Resumed>,
    /// Somebody else than the backend answered the last one.
    pub(super) is_answered_by_others: bool,
}

/// What a heartbeat said that is on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::lifecycle) struct SentHeartbeat {
    pub(super) worker: WorkerId,
    /// When it went out.
    pub(in crate::lifecycle) at: Moment,
    pub(in crate::lifecycle) named: Vec<(JobId, Claim)>,
    pub(in crate::lifecycle) form: HeartbeatForm,
    /// It says quiet on the way to terminate.
    pub(super) says_quiet_first: bool,
    /// How long it keeps what it names.
    pub(in crate::lifecycle) kept_for: Duration,
    /// It went out after a resume that was not answered until then.
    pub(super) is_after_resume: bool,
}

impl HeartbeatState {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval,
            says_quiet_first: false,
            has_said_terminate: false,
            again: false,
            asked_at: None,
            extends: false,
            form: HeartbeatForm::Full,
            form_since: None,
            refusals: 0,
            are_refused: false,
            lost: 0,
            resumed: None,
            is_answered_by_others: false,
        }
    }

    /// What was learnt about a backend may not be so with the next one.
    pub(super) fn forget_backend(&mut self) {
        self.extends = false;
        self.try_full_form();
    }

    /// How the next one is spelled.
    pub(in crate::lifecycle) fn form(&self) -> HeartbeatForm {
        self.form
    }

    fn try_full_form(&mut self) {
        self.form = HeartbeatForm::Full;
        self.form_since = None;
        self.refusals = 0;
    }

    /// One in this form was accepted. The full form is tried again now and then: a single refusal may have been nobody's
    /// last word, and the other forms say less.
    pub(super) fn accepted(&mut self, form: HeartbeatForm, may_try: bool, now: Moment) {
        if form != self.form {
            self.form = form;
            self.form_since = None;
        }
        self.refusals = 0;
        self.are_refused = false;
        self.is_answered_by_others = false;
        let since = *self.form_since.get_or_insert(now);
        if may_try && form != HeartbeatForm::Full && since.elapsed(now) >= OTHER_FORM_FOR {
            self.try_full_form();
        }
    }
}
