//! The forms of a FETCH. Not every backend accepts the visibility timeout, and not every backend
//! accepts the worker's id.

use std::time::Duration;

use crate::api::{FetchForm, Moment};

/// How long ojs-init uses another form before it tries the full form again.
const OTHER_FORM_FOR: Duration = Duration::from_secs(10 * 60);

/// The forms that this backend accepts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct FetchForms {
    form: FetchForm,
    /// Form of the last FETCH that was sent, and of any other one in flight.
    sent: FetchForm,
    /// When a FETCH in this form was first accepted; none: not yet.
    since: Option<Moment>,
    /// Forms in a row that the backend refused.
    refusals: u32,
    /// The form in the last log line about it.
    told: FetchForm,
}

impl FetchForms {
    /// Forgets the backend, because the next one may differ.
    pub(super) fn forget_backend(&mut self) {
        self.form = FetchForm::Full;
        self.since = None;
        self.refusals = 0;
    }

    /// The form of the next FETCH, which is about to be sent.
    pub(super) fn next(&mut self) -> FetchForm {
        self.sent = self.form;
        self.form
    }

    /// Form of the FETCH that was answered last, or is in flight.
    pub(crate) fn sent(&self) -> FetchForm {
        self.sent
    }

    /// Whether the backend accepts the full form. Only then may two FETCHes be in flight: both have
    /// the same form, and ojs-init tries no other form before both are answered.
    pub(super) fn is_full_accepted(&self) -> bool {
        self.form == FetchForm::Full && self.since.is_some()
    }

    /// The backend refused the last FETCH. Returns whether to try the next form at once. If the
    /// backend has refused every form, the form is not the reason.
    pub(super) fn refused(&mut self) -> bool {
        if self.form != self.sent {
            // The answer to another FETCH in the same form arrived first.
            return true;
        }
        self.form = self.sent.next();
        self.since = None;
        self.refusals += 1;
        let is_to_be_tried = self.refusals < FetchForm::COUNT;
        if !is_to_be_tried {
            self.refusals = 0;
        }
        is_to_be_tried
    }

    /// The backend accepted the last FETCH. Returns its form, if that is worth a log line. ojs-init
    /// tries the full form again now and then, because a single refusal may have been temporary and
    /// the other forms carry fewer fields.
    pub(super) fn accepted(&mut self, now: Moment) -> Option<FetchForm> {
        if self.form != self.sent {
            self.form = self.sent;
            self.since = None;
        }
        self.refusals = 0;
        let since = *self.since.get_or_insert(now);
        if self.form != FetchForm::Full && since.elapsed(now) >= OTHER_FORM_FOR {
            self.forget_backend();
        }
        let told = std::mem::replace(&mut self.told, self.sent);
        (told != self.sent).then_some(self.sent)
    }
}
