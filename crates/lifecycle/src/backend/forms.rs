//! The forms of a request. Backends accept different ones: not every backend accepts the visibility
//! timeout, and not every backend accepts the worker's id in a FETCH.

use std::time::Duration;

use crate::api::{Moment, RequestForm};

/// How long ojs-init uses another form before it tries the full form again.
const OTHER_FORM_FOR: Duration = Duration::from_secs(10 * 60);

/// The form that this backend accepts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Forms<F> {
    /// The form of the next request.
    pub(super) next: F,
    /// When a request in this form was first accepted; none: not yet.
    since: Option<Moment>,
    /// Forms in a row that the backend refused.
    refusals: u32,
}

impl<F: RequestForm> Forms<F> {
    /// Whether the backend accepts the full form.
    pub(super) fn is_full_accepted(&self) -> bool {
        self.next == F::default() && self.since.is_some()
    }

    /// The backend refused a request in the present form. Returns whether to try the next form at
    /// once. If the backend has refused every form, the form is not the reason.
    pub(super) fn refused(&mut self) -> bool {
        self.next = self.next.next();
        self.since = None;
        self.refusals += 1;
        let is_to_be_tried = self.refusals < F::COUNT;
        if !is_to_be_tried {
            self.refusals = 0;
        }
        is_to_be_tried
    }

    /// The backend accepted a request in this form. If ojs-init `may_try`, it tries the full form
    /// again now and then, because a single refusal may have been temporary and the other forms
    /// carry fewer fields.
    pub(super) fn accepted(&mut self, form: F, may_try: bool, now: Moment) {
        if form != self.next {
            self.next = form;
            self.since = None;
        }
        self.refusals = 0;
        let since = *self.since.get_or_insert(now);
        if may_try && form != F::default() && since.elapsed(now) >= OTHER_FORM_FOR {
            *self = Self::default();
        }
    }
}
