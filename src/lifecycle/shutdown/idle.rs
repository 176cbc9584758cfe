//! Ends that begin without a request: no job for `worker.exit_when_idle`, or the outcome of the one job of `--once`.
//!
//! Silence is not idleness. The idle time begins when the backend answers a FETCH with no job. Anything that hides whether there are
//! jobs renews it: a FETCH that failed, an outage, quiet, a worker that is not ready, a closed memory gate. When the time is over, the
//! answer to one more FETCH decides.

use crate::lifecycle::api::{Moment, Reason, Timer};
use crate::lifecycle::machine::Lifecycle;
use crate::lifecycle::shutdown::phase::Trigger;

impl Lifecycle {
    /// The backend answered a FETCH, which went out at `asked_at`, with no job.
    pub(in crate::lifecycle) fn found_no_job(&mut self, asked_at: Moment, now: Moment) {
        let Some(longest) = self.options.exit_when_idle else {
            return;
        };
        self.idle.asked_at = Some(asked_at);
        if self.idle.since.is_none() && self.has_nothing_to_do() {
            self.idle.since = Some(now);
            self.timers.arm(Timer::Idle, now.after(longest));
        }
    }

    /// Whether the one job of `--once` was claimed. No FETCH follows it.
    pub(in crate::lifecycle) fn has_its_one_job(&self) -> bool {
        self.options.once && self.idle.has_claimed
    }

    /// Whether that job was claimed and the backend has no ACK of it.
    pub(super) fn lacks_its_one_ack(&self) -> bool {
        self.has_its_one_job() && !self.idle.has_acked
    }

    /// Begins the end if there is nothing to do and nothing is on its way. This comes before the next FETCH, so that holders that ask
    /// without a pause cannot put it off.
    pub(in crate::lifecycle) fn end_if_idle(&mut self, now: Moment) {
        if self.phase.is_terminating() {
            return;
        }
        if self.has_its_one_job() && self.has_nothing_to_do() {
            let reason = if self.idle.has_acked {
                Reason::OnceDone
            } else {
                Reason::OnceNotDone
            };
            return self.go(Trigger::Terminate, reason, now);
        }
        let (Some(since), Some(longest)) = (self.idle.since, self.options.exit_when_idle) else {
            return;
        };
        if !self.has_nothing_to_do() || !self.is_looking_for_jobs() {
            self.renew_idle_time();
        } else if since.elapsed(now) >= longest && !self.is_fetching() {
            let due = since.after(longest);
            if self.idle.asked_at.is_some_and(|asked_at| asked_at >= due) || !self.fetch_once_more() {
                self.go(Trigger::Terminate, Reason::Idle(longest), now);
            }
        }
    }

    /// The idle time begins anew with the next FETCH that finds no job.
    pub(in crate::lifecycle) fn renew_idle_time(&mut self) {
        self.idle.since = None;
        self.timers.cancel(Timer::Idle);
    }

    /// Whether there is no job of ours, and no handler of a lost job has time left to end. Dropped jobs do not count: nothing tells that a
    /// worker still has them, and the drain waits for them.
    fn has_nothing_to_do(&self) -> bool {
        self.jobs.reserved() + self.jobs.held_back() == 0 && self.jobs.lost() == self.jobs.unanswered()
    }
}
