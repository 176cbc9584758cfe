//! When and how heartbeats go out, and what one said that is on its way.

use std::mem;
use std::time::Duration;

use crate::api::{Claim, Failure, HeartbeatForm, JobId, Moment, WorkerId, WorkerState};
use crate::backend::resumed::Resumed;
use crate::retry::state::is_of_an_outage;

/// How long a form other than the full one is used before the full one is tried again.
const OTHER_FORM_FOR: Duration = Duration::from_secs(10 * 60);

/// When and how heartbeats go out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct HeartbeatState {
    /// Time between two.
    interval: Duration,
    /// The next one says quiet although we are further already (GS 5.1).
    says_quiet_first: bool,
    /// One has said terminate: from there no way leads back to quiet.
    has_said_terminate: bool,
    /// Another one is wanted as soon as there is room for it.
    again: bool,
    /// When a worker last asked for one.
    asked_at: Option<Moment>,
    /// Whether this backend tells which reservations a heartbeat extended.
    extends: bool,
    /// How they are spelled; what worked is remembered.
    form: HeartbeatForm,
    /// When one in this form was first accepted; none: not yet.
    form_since: Option<Moment>,
    /// Forms in a row that were refused.
    refusals: u32,
    /// Every form was, and that was said.
    are_refused: bool,
    /// How many in a row did not get through, or their answers did not.
    lost: u32,
    /// A resume that none of them has been answered since.
    resumed: Option<Resumed>,
    /// Somebody else than the backend answered the last one.
    is_answered_by_others: bool,
}

/// A heartbeat on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SentHeartbeat {
    pub(super) worker: WorkerId,
    /// When it went out.
    pub(crate) at: Moment,
    /// The state in the heartbeat.
    pub(super) state: WorkerState,
    pub(crate) named: Vec<(JobId, Claim)>,
    pub(crate) form: HeartbeatForm,
    /// The heartbeat says quiet on the way to terminate.
    pub(super) says_quiet_first: bool,
    /// How long it keeps what it names.
    pub(crate) kept_for: Duration,
    /// The heartbeat went out after a resume that was not answered until then.
    pub(super) is_after_resume: bool,
}

/// The consequence of a refusal.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeartbeatRefusal {
    /// The form to try at once; none: each was refused.
    pub(super) next: Option<HeartbeatForm>,
    /// Not said yet: once, and not with each of the forms that are tried again at every interval.
    pub(super) is_news: bool,
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

    /// Forgets the backend, because the next one may differ.
    pub(super) fn forget_backend(&mut self) {
        self.extends = false;
        self.try_full_form();
    }

    /// Time between two.
    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// The backend or the configuration wants this time between two. What it was before.
    pub(super) fn set_interval(&mut self, interval: Duration) -> Duration {
        mem::replace(&mut self.interval, interval)
    }

    /// A worker asks for one; whether that is sent, or is too soon after the last one that a worker
    /// asked for.
    pub(super) fn worker_asked(&mut self, every: Duration, now: Moment) -> bool {
        let is_soon = self.asked_at.is_some_and(|asked| asked.elapsed(now) < every);
        if !is_soon {
            self.asked_at = Some(now);
        }
        !is_soon
    }

    /// The end begins, and the backend is to hear of quiet first, or not.
    pub(super) fn end_begins(&mut self, says_quiet_first: bool) {
        self.says_quiet_first = says_quiet_first;
    }

    /// The one that said quiet on the way to terminate is to be said again, in another form.
    pub(super) fn say_quiet_again(&mut self) {
        self.says_quiet_first = true;
    }

    /// The state that a heartbeat would have now.
    pub(super) fn would_say(&self, state: WorkerState) -> WorkerState {
        if self.says_quiet_first {
            WorkerState::Quiet
        } else {
            state
        }
    }

    /// The state in the heartbeat that goes out now. Quiet on the way to terminate is sent once,
    /// and another heartbeat follows as soon as there is room.
    pub(super) fn goes_out(&mut self, state: WorkerState) -> (WorkerState, bool) {
        let state = self.would_say(state);
        let says_quiet = mem::take(&mut self.says_quiet_first);
        self.has_said_terminate |= state == WorkerState::Terminate;
        self.again = says_quiet;
        (state, says_quiet)
    }

    /// One has said terminate.
    pub(super) fn has_said_terminate(&self) -> bool {
        self.has_said_terminate
    }

    /// Another one is wanted as soon as there is room for it.
    pub(super) fn wants_another(&mut self) {
        self.again = true;
    }

    /// One is wanted, and waits.
    pub(super) fn is_another_wanted(&self) -> bool {
        self.again
    }

    /// There is room: whether another one is wanted.
    pub(super) fn takes_another(&mut self) -> bool {
        mem::take(&mut self.again)
    }

    /// A heartbeat was accepted, and its reply had a list of the extended reservations or not.
    /// Returns whether any reply of this backend has had one, this reply included.
    pub(crate) fn told_extended(&mut self, has_list: bool) -> bool {
        self.extends |= has_list;
        self.extends
    }

    /// Whether a reply of this backend has had such a list.
    pub(crate) fn has_told_extended(&self) -> bool {
        self.extends
    }

    /// The worker runs again.
    pub(super) fn resumed(&mut self, resumed: Resumed) {
        self.resumed = Some(resumed);
    }

    /// The worker is quiet again, or the resume is answered: what there was to be answered.
    pub(crate) fn take_resumed(&mut self) -> Option<Resumed> {
        self.resumed.take()
    }

    /// A resume was not answered yet.
    pub(super) fn awaits_resume(&self) -> bool {
        self.resumed.is_some()
    }

    /// How many in a row did not get through before this one, which did.
    pub(super) fn takes_lost(&mut self) -> u32 {
        mem::take(&mut self.lost)
    }

    /// One failed. Whether that is worth a line: who stands in for the backend, or answers in its
    /// place by mistake, does so every time.
    pub(super) fn failed(&mut self, failure: Failure) -> bool {
        let lost = self.lost.saturating_add(1);
        self.lost = if is_of_an_outage(failure) { lost } else { 0 };
        let is_foreign = failure == Failure::NotFromBackend;
        let was_foreign = mem::replace(&mut self.is_answered_by_others, is_foreign);
        !(was_foreign && is_foreign)
    }

    /// One in this form was refused: see [`HeartbeatRefusal`]. None: another form is being tried
    /// already.
    pub(super) fn refused(&mut self, refused: HeartbeatForm) -> Option<HeartbeatRefusal> {
        if refused != self.form {
            return None;
        }
        self.form = refused.next();
        self.form_since = None;
        self.refusals += 1;
        let was_said = self.are_refused;
        let is_tried = self.refusals < HeartbeatForm::COUNT;
        if !is_tried {
            self.refusals = 0;
            self.are_refused = true;
            self.lost = 0;
        }
        Some(HeartbeatRefusal {
            next: is_tried.then_some(self.form),
            is_news: !was_said,
        })
    }

    /// How the next one is spelled.
    pub(crate) fn form(&self) -> HeartbeatForm {
        self.form
    }

    fn try_full_form(&mut self) {
        self.form = HeartbeatForm::Full;
        self.form_since = None;
        self.refusals = 0;
    }

    /// One in this form was accepted. The full form is tried again now and then: a single refusal
    /// may have been nobody's last word, and the other forms say less.
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
