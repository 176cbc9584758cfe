//! When ojs-init retries failed requests, and what a failure shows about the backend.

use std::time::Duration;

use crate::api::{Failure, LinkTimer, Reply};
use crate::backend::link::{Context, Link};
use crate::backend::link_said::Said;
use crate::backend::purpose::Purpose;
use crate::retry::state::Failures;

/// Least time between two moments to which retries are brought forward.
const RETRY_NOW_EVERY: Duration = Duration::from_secs(1);

/// After an outage ojs-init retries the requests within this time.
pub(super) const BACK_WITHIN: Duration = Duration::from_secs(1);

impl Link {
    /// Retries the requests that the backend refused, or that could not be sent, for lack of
    /// credentials.
    pub(crate) fn credentials_changed(&mut self, cx: &Context) {
        self.retry_now(Failures::OfCredentials, Duration::ZERO, cx);
        self.listen_again(cx);
    }

    /// A heartbeat was accepted after an outage. Retries the requests that failed in the outage, at
    /// a time by chance because all workers would retry at once otherwise.
    pub(super) fn outage_is_over(&mut self, cx: &Context) {
        let spread = self.draws.jitter.up_to(BACK_WITHIN);
        self.retry_now(Failures::OfAnOutage, spread, cx);
    }

    /// After `later`, retries every request whose last failure matches. At most once a second,
    /// because frequent writes next to the token, or an unstable network, would cause requests
    /// without a pause.
    fn retry_now(&mut self, failures: Failures, later: Duration, cx: &Context) {
        let last = self.session.retried_now_at;
        let is_soon = last.is_some_and(|last| last.after(RETRY_NOW_EVERY).remaining(cx.now) > Duration::ZERO);
        let at = match last {
            Some(last) if last.remaining(cx.now) > Duration::ZERO => last,
            Some(last) => cx.now.after(later.max(last.after(RETRY_NOW_EVERY).remaining(cx.now))),
            None => cx.now.after(later),
        };
        let is_registering = self.is_registering();
        let is_fetching = self.is_fetching();
        let mut is_one_retried = self.session.registrations.retry_now(failures, is_registering, is_soon)
            && (is_registering || self.timers.bring_forward(LinkTimer::Register, at));
        // Of two FETCHes one may have failed while the other one is in flight.
        if self.is_fetch_held_up() || !is_fetching {
            is_one_retried |= self.session.fetches.retry_now(failures, false, is_soon)
                && self.timers.bring_forward(LinkTimer::FetchAgain, at);
        }
        is_one_retried |= is_fetching && self.session.fetches.retry_now(failures, true, is_soon);
        if is_one_retried {
            self.session.retried_now_at = Some(at);
        }
        self.say(Said::RetryJobs { failures, at, is_soon });
    }

    /// Notes whether the backend is reachable. An answer of another server, or a server error, may
    /// concern one job or one path only. Either counts for the backend only if it answers a
    /// registration or a heartbeat.
    pub(crate) fn note_backend_health(&mut self, purpose: &Purpose, reply: &Reply, cx: &Context) {
        if matches!(reply, Reply::Failed(Failure::Overloaded | Failure::NoCredentials))
            || (matches!(reply, Reply::Failed(Failure::ServerError | Failure::NotFromBackend))
                && !purpose.is_greeting())
        {
            return;
        }
        if let Reply::Failed(failure) = reply
            && Failures::OfAnOutage.has(*failure)
        {
            self.request_lost(*failure, cx);
        } else {
            self.request_answered(cx);
        }
    }
}
