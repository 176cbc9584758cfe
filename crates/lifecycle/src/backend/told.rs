//! News of the other parts for the link: about the backend, and about pauses.

use crate::api::{JobRequest, LinkTimer, Moment};
use crate::backend::link::{Context, Link};

impl Link {
    /// The backend had its store at this moment: to a request of that time jobs came, a reservation
    /// was extended or an outcome was taken. An answer that comes late tells of the time before the
    /// store went away.
    pub(crate) fn store_was_seen(&mut self, asked_at: Moment) {
        self.session.showed_store(asked_at);
    }

    /// The backend took an outcome.
    pub(crate) fn outcome_was_taken(&mut self, now: Moment) {
        self.session.took_outcome(now);
    }

    /// The backend has taken ACKs in the bare form since this moment, or takes them in the full
    /// form.
    pub(crate) fn acks_are_bare_since(&mut self, since: Option<Moment>) {
        self.session.acks_are_bare_since(since);
    }

    /// The backend does not know such requests.
    pub(crate) fn is_unsupported(&mut self, request: JobRequest) {
        match request {
            JobRequest::Progress(_) => self.session.refuses_progress(),
            JobRequest::Checkpoint(_) => self.session.refuses_checkpoints(),
            JobRequest::Report(_)
            | JobRequest::LookBeforeRepeat(_)
            | JobRequest::LookAgain(_)
            | JobRequest::CheckUnextended(_) => {}
        }
    }

    /// Whether it has to be told that the backend saves no checkpoints: once.
    pub(crate) fn has_to_say_that_it_saves_none(&mut self) -> bool {
        self.session.has_to_say_that_it_saves_none()
    }

    /// Jobs are taken no more: nothing waits for the answer to a heartbeat before the next FETCH.
    pub(crate) fn quiet_begins(&mut self) {
        self.session.heartbeats.take_resumed();
    }

    /// Sends no FETCH before a pause is over, because a job that was given back must not come
    /// straight back. In terminate there is no FETCH anyway.
    pub(crate) fn pause_fetch(&mut self, cx: &Context) {
        let pause = cx.options.poll_interval;
        self.pause_fetch_for(LinkTimer::FetchReturned, pause, cx);
        self.wake_ups.hold_until(cx.now.after(pause));
    }
}
