//! How a FETCH is spelled: the visibility timeout is a field that not every backend takes, and
//! neither is the worker's id.

use std::time::Duration;

use crate::api::{FetchForm, Moment};

/// How long a form other than the full one is used before the full one is tried again.
const OTHER_FORM_FOR: Duration = Duration::from_secs(10 * 60);

/// The forms that this backend accepts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct FetchForms {
    form: FetchForm,
    /// Of the last one that was sent, and of any other that is on its way.
    sent: FetchForm,
    /// When one in this form was first accepted; none: not yet.
    since: Option<Moment>,
    /// Forms in a row that were refused.
    refusals: u32,
    /// Which one the log was told of.
    told: FetchForm,
}

impl FetchForms {
    /// Forgets the backend, because the next one may differ.
    pub(super) fn forget_backend(&mut self) {
        self.form = FetchForm::Full;
        self.since = None;
        self.refusals = 0;
    }

    /// The next FETCH goes out in this form.
    pub(super) fn next(&mut self) -> FetchForm {
        self.sent = self.form;
        self.form
    }

    /// Of the FETCH that was answered last, or is on its way.
    pub(crate) fn sent(&self) -> FetchForm {
        self.sent
    }

    /// Whether the backend takes the full form. Only then may two be on their way: both have the
    /// same form, and no other one is tried before both are answered.
    pub(super) fn is_full_accepted(&self) -> bool {
        self.form == FetchForm::Full && self.since.is_some()
    }

    /// The last one was refused. Whether the next form is to be tried at once; when all of them
    /// were refused it is not the form.
    pub(super) fn refused(&mut self) -> bool {
        if self.form != self.sent {
            // The answer to another FETCH in the same form came first.
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

    /// The last one was accepted. Its form, if that is worth a line in the log. The full form is
    /// tried again now and then: a single refusal may have been nobody's last word, and the other
    /// forms say less.
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
