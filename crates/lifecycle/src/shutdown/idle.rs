//! Ends that begin without a request: after no job for `worker.exit_when_idle`, or after the
//! outcome of the one job of `--once`.
//!
//! Silence is not idleness. The idle time begins when the backend answers a FETCH with no job.
//! Anything that hides whether there are jobs restarts the idle time: a FETCH that failed, an
//! outage, quiet, a worker that is not ready, a closed memory gate. When the idle time ends, the
//! answer to one more FETCH decides.

use crate::api::{EndingTimer, Moment, Options, Reason};
use crate::shutdown::ending::{Context, Ending};
use crate::shutdown::phase::Trigger;
use crate::shutdown::said::Said;

impl Ending {
    /// Notes that the backend answered a FETCH, sent at `asked_at`, with no job.
    pub(crate) fn found_no_job(&mut self, asked_at: Moment, cx: &Context) {
        let Some(longest) = cx.options.exit_when_idle else {
            return;
        };
        self.idle.asked_at = self.idle.asked_at.max(Some(asked_at));
        if self.idle.since.is_none() && cx.facts.has_nothing_to_do {
            self.idle.since = Some(cx.now);
            self.timers.arm(EndingTimer::Idle, cx.now.after(longest));
        }
    }

    /// Whether the one job of `--once` was claimed. No FETCH follows it.
    pub(crate) fn has_its_one_job(&self, options: &Options) -> bool {
        options.once && self.idle.has_claimed
    }

    /// Whether the one job of `--once` was claimed and the backend has no ACK of it.
    pub(super) fn lacks_its_one_ack(&self, options: &Options) -> bool {
        self.has_its_one_job(options) && !self.idle.has_acked
    }

    /// Whether `end_if_idle` could begin the end.
    pub(crate) fn may_end_by_itself(&self, options: &Options) -> bool {
        !self.phase.is_terminating() && (self.has_its_one_job(options) || self.idle.since.is_some())
    }

    /// Begins the end if there is nothing to do and no FETCH is in flight. This runs before the
    /// next FETCH, because holders that ask without a pause could otherwise delay the end for ever.
    pub(crate) fn end_if_idle(&mut self, cx: &Context) {
        if self.phase.is_terminating() {
            return;
        }
        if self.has_its_one_job(cx.options) && cx.facts.has_nothing_to_do {
            let reason = if self.idle.has_acked {
                Reason::OnceDone
            } else {
                Reason::OnceNotDone
            };
            return self.go(Trigger::Terminate, reason, cx);
        }
        let (Some(since), Some(longest)) = (self.idle.since, cx.options.exit_when_idle) else {
            return;
        };
        if !cx.facts.has_nothing_to_do || !cx.facts.is_looking_for_jobs {
            self.renew_idle_time();
        } else if since.elapsed(cx.now) >= longest && !cx.facts.is_fetching && !cx.facts.is_recycling {
            let due = since.after(longest);
            if self.idle.asked_at.is_some_and(|asked_at| asked_at >= due) {
                self.go(Trigger::Terminate, Reason::Idle(longest), cx);
            } else {
                self.say(Said::AskOnceMore { idle_for: longest });
            }
        }
    }

    /// The idle time begins anew with the next FETCH that finds no job.
    pub(crate) fn renew_idle_time(&mut self) {
        self.idle.since = None;
        self.timers.cancel(EndingTimer::Idle);
    }
}
