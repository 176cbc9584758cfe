//! News from other parts for the link: about the backend, and about pauses.

use crate::api::{JobRequest, LinkTimer, Moment};
use crate::backend::link::{Context, Link};

impl Link {
    /// The backend's store was up for a request that was sent at `asked_at`: the backend returned
    /// jobs, extended a reservation or accepted an outcome. The moment is that of the request
    /// because the store may have gone down before a late answer arrives.
    pub(crate) fn store_was_seen(&mut self, asked_at: Moment) {
        self.session.showed_store(asked_at);
    }

    /// The backend accepted an outcome.
    pub(crate) fn outcome_was_taken(&mut self, now: Moment) {
        self.session.took_outcome(now);
    }

    /// The backend has accepted ACKs only in the bare form since this moment, or accepts the full
    /// form (none).
    pub(crate) fn acks_are_bare_since(&mut self, since: Option<Moment>) {
        self.session.acks_are_bare_since(since);
    }

    /// The backend does not support such requests.
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

    /// Whether to log that the backend saves no checkpoints: once.
    pub(crate) fn has_to_say_that_it_saves_none(&mut self) -> bool {
        self.session.has_to_say_that_it_saves_none()
    }

    /// ojs-init stops fetching jobs, so no FETCH waits for the answer to a heartbeat any more.
    pub(crate) fn quiet_begins(&mut self) {
        self.session.heartbeats.take_resumed();
    }

    /// Sends no FETCH until a pause has ended, because the backend could deliver a returned job
    /// straight back. In terminate there is no FETCH anyway.
    pub(crate) fn pause_fetch(&mut self, cx: &Context) {
        let pause = cx.options.poll_interval;
        self.pause_fetch_for(LinkTimer::FetchReturned, pause, cx);
        self.wake_ups.hold_until(cx.now.after(pause));
    }
}
