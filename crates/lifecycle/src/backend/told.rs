//! News from other parts for the link: about the backend, and about pauses.

use crate::api::{LinkTimer, Moment};
use crate::backend::link::{Context, Link};

impl Link {
    /// The backend's store was up for a request that was sent at `asked_at`: the backend returned
    /// jobs, extended a reservation or accepted an outcome. The moment is that of the request
    /// because the store may have gone down before a late answer arrives.
    pub(crate) fn store_was_seen(&mut self, asked_at: Moment) {
        self.session.store_seen = self.session.store_seen.max(Some(asked_at));
    }

    /// Sends no FETCH until a pause has ended, because the backend could deliver a returned job
    /// straight back. In terminate there is no FETCH anyway.
    pub(crate) fn pause_fetch(&mut self, cx: &Context) {
        let pause = cx.options.poll_interval;
        self.pause_fetch_for(LinkTimer::FetchReturned, pause, cx);
        self.wake_ups.hold_until(cx.now.after(pause));
    }
}
