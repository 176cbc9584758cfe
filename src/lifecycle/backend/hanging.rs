//! A request that hangs while the backend answers others delays nothing but itself: what may come twice goes out once more,
//! on another connection, and of what may not the connection is closed, so that a look finds out what became of it.

use std::time::Duration;

use crate::lifecycle::api::ids::{CallId, Claim};
use crate::lifecycle::api::{Call, Effect, Failure, FailureClass, Moment, Notice, Reply, Timer};
use crate::lifecycle::backend::purpose::{Purpose, WhenItHangs};
use crate::lifecycle::backend::siblings::OneAnswer;
use crate::lifecycle::jobs::job::{Job, Report};
use crate::lifecycle::machine::{CALL_LEEWAY, Lifecycle};
use crate::lifecycle::shutdown::timeouts::REPORT_HANGS_AFTER;

/// A FAIL or a requeue has this many times as long as a request that may come twice: the backend may still be at it.
const RESET_AFTER: u32 = 4;

/// It has this long at least.
const RESET_AFTER_AT_LEAST: Duration = Duration::from_secs(5);

impl Lifecycle {
    /// A request went out: something may have to be done when it hangs.
    pub(in crate::lifecycle) fn watch_call(&mut self, call: CallId, purpose: &Purpose, now: Moment) {
        match self.when_it_hangs(purpose) {
            WhenItHangs::Wait => {}
            WhenItHangs::Again | WhenItHangs::Newer | WhenItHangs::Reset => {
                self.hedges.watches(call, now);
                self.timers
                    .arm_at_latest(Timer::Hanging, now.after(self.hedges.times.hangs_after()));
            }
        }
    }

    /// An ACK may come twice, a FAIL or a requeue not.
    fn when_it_hangs(&self, purpose: &Purpose) -> WhenItHangs {
        if let Purpose::Report(claim) = purpose {
            let report = self.jobs.get(*claim).and_then(Job::report);
            if !report.is_some_and(|report| report.what.is_ack()) {
                return WhenItHangs::Reset;
            }
        }
        purpose.when_it_hangs()
    }

    /// What was answered, and the number of the request that the answer is to; none: a sibling may still bring another one.
    pub(in crate::lifecycle) fn one_answer(
        &mut self,
        call: CallId,
        reply: Reply,
        now: Moment,
    ) -> Option<(CallId, Reply)> {
        self.note_answer_time(call, &reply, now);
        let was_never_sent = matches!(reply, Reply::Failed(failure) if failure.was_never_sent());
        let is_of_the_form = reply == Reply::Failed(Failure::Refused);
        match self.hedges.siblings.answered(call, reply) {
            OneAnswer::Decides { first, reply, open } => {
                for call in open {
                    self.abandon_call(call);
                }
                if self.hedges.is_idle() {
                    self.timers.cancel(Timer::Hanging);
                }
                Some((first, reply))
            }
            OneAnswer::Waits { first } => {
                if was_never_sent && let Some(Purpose::Report(claim)) = self.calls.get(&first) {
                    let report = self.jobs.report_mut(*claim);
                    report.into_iter().for_each(Report::did_not_get_there);
                }
                // The siblings say the same words: what hangs will not be taken either, and another form waits for its turn.
                if is_of_the_form {
                    for open in self.hedges.siblings.open(first) {
                        self.order(Effect::AbandonCall(open));
                    }
                }
                None
            }
        }
    }

    /// Nobody waits any more for the answer to this request.
    pub(in crate::lifecycle) fn drop_call(&mut self, first: CallId) {
        self.calls.remove(&first);
        for call in self.hedges.siblings.forget(first) {
            self.abandon_call(call);
        }
    }

    fn abandon_call(&mut self, call: CallId) {
        self.hedges.forget(call);
        self.hedges.was_reset(call);
        self.timers.cancel(Timer::Call(call));
        self.order(Effect::AbandonCall(call));
    }

    /// Whoever answers is there, and what has no answer now may hang.
    fn note_answer_time(&mut self, call: CallId, reply: &Reply, now: Moment) {
        let sent_at = self.hedges.forget(call);
        let is_answer = match reply {
            Reply::Failed(failure) => !failure.was_never_sent() && failure.class() != FailureClass::Outage,
            Reply::Registered { .. }
            | Reply::HeartbeatOk { .. }
            | Reply::Fetched(_)
            | Reply::Accepted
            | Reply::JobSeen(_)
            | Reply::Manifest(_) => true,
        };
        if !is_answer {
            return;
        }
        self.hedges.times.answered(now);
        if let Some(sent_at) = sent_at {
            self.hedges.times.took(sent_at.elapsed(now));
        }
        // What waited while the backend answered nothing may be answered next.
        let after = self.hedges.times.hangs_after();
        if self.hedges.is_one_without_answer_for(after, now) {
            self.timers.arm_at_latest(Timer::Hanging, now.after(after));
        }
    }

    /// Does what there is to be done about each request that hangs.
    pub(in crate::lifecycle) fn look_for_hanging(&mut self, now: Moment) {
        let after = self.hedges.times.hangs_after();
        let is_late = |(_, sent_at): &(CallId, Moment)| sent_at.elapsed(now) >= after;
        let late: Vec<(CallId, Moment)> = self.hedges.watched().take_while(is_late).collect();
        for (call, sent_at) in late {
            // Where the backend answers nothing, no request of its own hangs.
            if self.hedges.times.has_answered_since(sent_at) {
                self.hangs(call, sent_at, now);
            }
        }
        let due = self
            .hedges
            .watched()
            .map(|(call, sent_at)| sent_at.after(self.patience(call)));
        match due.filter(|due| *due > now).min() {
            Some(due) => self.timers.arm(Timer::Hanging, due),
            // The next answer brings it up again.
            None => self.timers.cancel(Timer::Hanging),
        }
    }

    fn hangs(&mut self, call: CallId, sent_at: Moment, now: Moment) {
        let Some(rule) = self.calls.get(&call).map(|purpose| self.when_it_hangs(purpose)) else {
            return self.hedges.done_about(call);
        };
        match rule {
            WhenItHangs::Again => {
                if self.hedges.has_room(self.calls.len()) {
                    self.hedge(call, now);
                }
            }
            WhenItHangs::Newer => {
                self.hedges.done_about(call);
                self.heartbeat_hangs(now);
            }
            WhenItHangs::Reset => {
                if sent_at.elapsed(now) >= self.patience(call) {
                    self.hedges.resets(call);
                    self.order(Effect::AbandonCall(call));
                }
            }
            WhenItHangs::Wait => self.hedges.done_about(call),
        }
    }

    /// How long this request has before something is done about it.
    fn patience(&self, call: CallId) -> Duration {
        let after = self.hedges.times.hangs_after();
        let rule = self.calls.get(&call).map(|purpose| self.when_it_hangs(purpose));
        match rule {
            Some(WhenItHangs::Reset) if self.ending.shutdown().is_reporting() => after.max(REPORT_HANGS_AFTER),
            Some(WhenItHangs::Reset) => (after * RESET_AFTER).max(RESET_AFTER_AT_LEAST),
            Some(WhenItHangs::Again | WhenItHangs::Newer | WhenItHangs::Wait) | None => after,
        }
    }

    /// Sends the same request once more, on another connection. Whichever good answer comes first counts.
    pub(in crate::lifecycle) fn hedge(&mut self, first: CallId, now: Moment) {
        let Some(purpose) = self.calls.get(&first).cloned() else {
            return;
        };
        let Some(call) = self.call_again(&purpose, now) else {
            return self.hedges.done_about(first);
        };
        if let Purpose::Report(claim) = purpose {
            self.jobs.report_mut(claim).into_iter().for_each(Report::goes_out);
        }
        self.notify(Notice::Hedged(call.endpoint()));
        // Both have the time of the first one.
        let left = self
            .timers
            .deadline_of(Timer::Call(first))
            .map(|end| end.remaining(now));
        let left = left.map_or(self.options.request_timeout, |left| left.saturating_sub(CALL_LEEWAY));
        let sibling = self.send_call(call, self.ending.shutdown().cap(now.after(left)), true);
        self.hedges.joins(first, sibling, now);
    }

    /// The request of this purpose, once more.
    fn call_again(&self, purpose: &Purpose, now: Moment) -> Option<Call> {
        let look = |claim: &Claim| {
            let job = self.jobs.get(*claim)?;
            Some(Call::GetJob { job: job.id().clone() })
        };
        match purpose {
            Purpose::Report(claim) => self.report_call(*claim),
            Purpose::LookBeforeRepeat(claim) | Purpose::LookAgain(claim) | Purpose::CheckUnextended(claim) => {
                look(claim)
            }
            Purpose::Manifest => Some(Call::Manifest),
            Purpose::FinalHeartbeat { state, .. } => self.last_heartbeat(*state, now),
            Purpose::Register(_)
            | Purpose::Heartbeat(_)
            | Purpose::Fetch(..)
            | Purpose::Progress(_)
            | Purpose::Checkpoint(_)
            | Purpose::Deregister(..) => None,
        }
    }

    /// What was the last word must be the last to arrive: the connections of heartbeats that hang are closed.
    pub(in crate::lifecycle) fn abandon_heartbeats(&mut self) {
        let is_heartbeat = |(_, purpose): &(CallId, &Purpose)| {
            matches!(purpose, Purpose::Heartbeat(_) | Purpose::FinalHeartbeat { .. })
        };
        let firsts = self.calls.general().filter(is_heartbeat).map(|(call, _)| call);
        let open: Vec<CallId> = firsts.flat_map(|first| self.hedges.siblings.open(first)).collect();
        for call in open {
            self.hedges.done_about(call);
            self.order(Effect::AbandonCall(call));
        }
    }
}
