//! The log lines about an outage: one at its beginning, one a minute, one at its end. The requests
//! that fail in between are logged at debug.

use std::time::Duration;

use crate::api::{Failure, LinkNotice, LinkTimer, Moment, Options, Reply, Trouble};
use crate::backend::link::{Context, Link, Reservations};
use crate::backend::outages::{Failing, Present};
use crate::backend::purpose::Purpose;

/// Time between two log lines about a continuing outage, and between two lines about a new one.
const TOLD_EVERY: Duration = Duration::from_secs(60);

impl Link {
    /// A request failed because of an outage.
    pub(super) fn request_lost(&mut self, failure: Failure, cx: &Context) {
        if let Some(present) = &mut self.outages.now {
            present.failure = failure;
            present.failed = present.failed.saturating_add(1);
            return;
        }
        let tells_again_at = self
            .outages
            .tells_again_at
            .filter(|at| at.remaining(cx.now) > Duration::ZERO);
        self.outages.now = Some(Present {
            since: cx.now,
            failure,
            failed: 1,
            is_told: tells_again_at.is_none(),
        });
        if let Some(at) = tells_again_at {
            self.timers.arm_at_latest(LinkTimer::Outage, at);
        } else {
            self.outages.tells_again_at = Some(cx.now.after(TOLD_EVERY));
            self.timers.arm(LinkTimer::Outage, cx.now.after(TOLD_EVERY));
            if let Some(outage) = self.outage(cx) {
                self.notify(LinkNotice::BackendIsAway(outage));
            }
        }
    }

    /// The backend answered a request.
    pub(super) fn request_answered(&mut self, cx: &Context) {
        let outage = self.outage(cx);
        let (Some(present), Some(outage)) = (self.outages.now.take(), outage) else {
            return;
        };
        self.listen_after_outage(cx);
        if present.is_told {
            self.timers.cancel(LinkTimer::Outage);
            self.notify(LinkNotice::BackendIsBack(outage));
        } else {
            self.outages.untold = self.outages.untold.saturating_add(present.failed);
        }
    }

    /// A minute of an outage has passed, or a minute in which outages began and ended.
    pub(crate) fn outage_goes_on(&mut self, cx: &Context) {
        let untold = std::mem::take(&mut self.outages.untold);
        let is_one = if let Some(present) = &mut self.outages.now {
            present.is_told = true;
            present.failed = present.failed.saturating_add(untold);
            true
        } else {
            false
        };
        if !is_one && untold == 0 {
            return;
        }
        self.outages.tells_again_at = Some(cx.now.after(TOLD_EVERY));
        if let Some(outage) = self.outage(cx) {
            self.timers.arm(LinkTimer::Outage, cx.now.after(TOLD_EVERY));
            self.notify(LinkNotice::BackendIsStillAway(outage));
        } else {
            self.notify(LinkNotice::BackendIsUnsteady { failed: untold });
        }
    }

    /// The backend accepted a heartbeat that was sent at `sent_at`. It reserves the named jobs for
    /// this long.
    pub(super) fn reservations_secured(&mut self, sent_at: Moment, visibility: Duration) {
        let until = sent_at.after(visibility);
        let is_newer = self.outages.secured.is_none_or(|(before, _)| before <= sent_at);
        if is_newer {
            self.outages.secured = Some((sent_at, until));
        }
    }

    /// Whether the backend is unreachable, judged by the last request.
    pub(crate) fn is_in_outage(&self) -> bool {
        self.outages.now.is_some()
    }

    /// Notes whether the backend accepts registrations and heartbeats. A refusal is no outage, but
    /// stops the worker as well.
    pub(crate) fn note_greeting(&mut self, purpose: &Purpose, reply: &Reply, cx: &Context) {
        if !purpose.is_greeting() {
            return;
        }
        self.outages.was_ever_accepted |= matches!(reply, Reply::HeartbeatOk { .. });
        self.outages.greetings = reply.failed().map(|failure| Failing {
            since: self.outages.greetings.map_or(cx.now, |failing| failing.since),
            failure,
        });
    }

    /// Why the backend is of no use at the moment; none if it works.
    pub(crate) fn trouble(&self, options: &Options, jobs: &dyn Reservations, now: Moment) -> Option<Trouble> {
        let greetings = self.outages.greetings.map(|failing| (failing.since, failing.failure));
        let outage = self.outages.now.map(|present| (present.since, present.failure));
        let (since, failure) = match (greetings, outage) {
            (Some((since, failure)), Some((earlier, _))) => (since.min(earlier), failure),
            (one, other) => one.or(other)?,
        };
        let lapse = self.first_lapse(options, jobs);
        Some(Trouble {
            failure,
            failed: self.outages.now.map_or(0, |present| present.failed),
            lasted: since.elapsed(now),
            waiting: jobs.reporting(),
            lapses_in: lapse.map(|lapse| lapse.remaining(now)),
            is_from_the_start: !self.outages.was_ever_accepted,
        })
    }

    /// The outage alone, without requests that are only refused.
    fn outage(&self, cx: &Context) -> Option<Trouble> {
        let present = self.outages.now?;
        let trouble = self.trouble(cx.options, cx.jobs, cx.now)?;
        Some(Trouble {
            failure: present.failure,
            lasted: present.since.elapsed(cx.now),
            ..trouble
        })
    }

    /// When the first reservation expires if the backend accepts no further heartbeat.
    fn first_lapse(&self, options: &Options, jobs: &dyn Reservations) -> Option<Moment> {
        let lapses = jobs.kept().into_iter().map(|job| {
            let own = job.visibility.unwrap_or_default();
            let claimed = job.claimed_at.after(own.max(options.visibility_timeout));
            match self.outages.secured {
                Some((sent_at, until)) if job.claimed_at <= sent_at => until.max(claimed),
                Some(_) | None => claimed,
            }
        });
        lapses.min()
    }
}
