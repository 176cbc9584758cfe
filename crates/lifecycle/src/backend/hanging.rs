//! Hanging requests. A request that hangs while the backend answers others delays only itself.
//! ojs-init sends a repeatable request again on another connection. It closes the connection of a
//! FAIL or a requeue, and then checks the result. A newer heartbeat replaces one that hangs. Any
//! other request waits for its timeout.

use std::time::Duration;

use crate::api::ids::CallId;
use crate::api::{Effect, Failure, FailureClass, JobRequest, LinkNotice, LinkTimer, Moment, Reply};
use crate::backend::link::{CALL_LEEWAY, Context, Link};
use crate::backend::link_said::Said;
use crate::backend::purpose::{Purpose, WhenItHangs};
use crate::backend::siblings::OneAnswer;
use crate::retry::patience::REPORT_HANGS_AFTER;

/// A FAIL or a requeue has this many times as long as a repeatable request, because the backend may
/// still be processing it.
const RESET_AFTER: u32 = 4;

/// Shortest time that a FAIL or a requeue has.
const RESET_AFTER_AT_LEAST: Duration = Duration::from_secs(5);

impl Link {
    /// A request was sent. Watches it if its rule for hanging requests requires an action.
    pub(super) fn watch_call(&mut self, call: CallId, rule: WhenItHangs, now: Moment) {
        match rule {
            WhenItHangs::Wait => {}
            WhenItHangs::Again | WhenItHangs::Newer | WhenItHangs::Reset => {
                self.hedges.watches(call, now);
                self.timers
                    .arm_at_latest(LinkTimer::Hanging, now.after(self.hedges.times.hangs_after()));
            }
        }
    }

    /// Returns the deciding answer, and the number of the request that it belongs to. None if a
    /// sibling may still return another answer.
    pub(crate) fn one_answer(&mut self, call: CallId, reply: Reply, cx: &Context) -> Option<(CallId, Reply)> {
        self.note_answer_time(call, &reply, cx.now);
        let failed = reply.failed();
        let was_never_sent = failed.is_some_and(Failure::was_never_sent);
        let is_of_the_form = failed == Some(Failure::Refused);
        match self.hedges.siblings.answered(call, reply) {
            OneAnswer::Decides { first, reply, open } => {
                for call in open {
                    self.abandon_call(call);
                }
                if self.hedges.is_idle() {
                    self.timers.cancel(LinkTimer::Hanging);
                }
                Some((first, reply))
            }
            OneAnswer::Waits { first } => {
                if was_never_sent && let Some(Purpose::OfJob(JobRequest::Report(claim))) = self.calls.get(&first) {
                    let claim = *claim;
                    self.say(Said::ReportNotSent(claim));
                }
                // The siblings have the same form, so the backend will refuse them as well. Another
                // form can be tried next.
                if is_of_the_form {
                    for open in self.hedges.siblings.open(first) {
                        self.order(Effect::AbandonCall(open));
                    }
                }
                None
            }
        }
    }

    /// Drops a request whose answer is no longer needed.
    pub(crate) fn drop_call(&mut self, first: CallId) {
        self.calls.remove(&first);
        for call in self.hedges.siblings.forget(first) {
            self.abandon_call(call);
        }
    }

    fn abandon_call(&mut self, call: CallId) {
        self.hedges.forget(call);
        self.hedges.was_reset(call);
        self.timers.cancel(LinkTimer::Call(call));
        self.order(Effect::AbandonCall(call));
    }

    /// Notes the time of an answer, which shows that the backend is reachable. A request without an
    /// answer may hang from now on.
    fn note_answer_time(&mut self, call: CallId, reply: &Reply, now: Moment) {
        let sent_at = self.hedges.forget(call);
        let is_answer = reply
            .failed()
            .is_none_or(|failure| !failure.was_never_sent() && failure.class() != FailureClass::Outage);
        if !is_answer {
            return;
        }
        self.hedges.times.answered(now);
        if let Some(sent_at) = sent_at {
            self.hedges.times.took(sent_at.elapsed(now));
        }
        // A request that waited while the backend answered nothing may be answered next.
        let after = self.hedges.times.hangs_after();
        if self.hedges.is_one_without_answer_for(after, now) {
            self.timers.arm_at_latest(LinkTimer::Hanging, now.after(after));
        }
    }

    /// Acts on each request that hangs.
    pub(crate) fn look_for_hanging(&mut self, cx: &Context) {
        let after = self.hedges.times.hangs_after();
        let is_late = |(_, sent_at): &(CallId, Moment)| sent_at.elapsed(cx.now) >= after;
        let late: Vec<(CallId, Moment)> = self.hedges.watched().take_while(is_late).collect();
        for (call, sent_at) in late {
            // If the backend answers nothing, no single request hangs.
            if self.hedges.times.has_answered_since(sent_at) {
                self.hangs(call, sent_at, cx);
            }
        }
        let due = self
            .hedges
            .watched()
            .map(|(call, sent_at)| sent_at.after(self.patience(call, cx)));
        match due.filter(|due| *due > cx.now).min() {
            Some(due) => self.timers.arm(LinkTimer::Hanging, due),
            // The next answer arms it again.
            None => self.timers.cancel(LinkTimer::Hanging),
        }
    }

    fn hangs(&mut self, call: CallId, sent_at: Moment, cx: &Context) {
        match self.calls.when_it_hangs(&call) {
            Some(WhenItHangs::Again) => {
                if self.hedges.has_room(self.calls.len()) {
                    self.hedge(call, cx);
                }
            }
            Some(WhenItHangs::Newer) => {
                self.hedges.done_about(call);
                self.heartbeat_hangs(cx);
            }
            Some(WhenItHangs::Reset) => {
                if sent_at.elapsed(cx.now) >= self.patience(call, cx) {
                    self.hedges.resets(call);
                    self.order(Effect::AbandonCall(call));
                }
            }
            Some(WhenItHangs::Wait) | None => self.hedges.done_about(call),
        }
    }

    /// How long this request may be without an answer before ojs-init acts.
    fn patience(&self, call: CallId, cx: &Context) -> Duration {
        let after = self.hedges.times.hangs_after();
        match self.calls.when_it_hangs(&call) {
            Some(WhenItHangs::Reset) if cx.end.is_reporting => after.max(REPORT_HANGS_AFTER),
            Some(WhenItHangs::Reset) => (after * RESET_AFTER).max(RESET_AFTER_AT_LEAST),
            Some(WhenItHangs::Again | WhenItHangs::Newer | WhenItHangs::Wait) | None => after,
        }
    }

    /// Sends the same request again on another connection. The first good answer counts.
    pub(crate) fn hedge(&mut self, first: CallId, cx: &Context) {
        let Some(call) = self.calls.repeatable(&first).cloned() else {
            return self.hedges.done_about(first);
        };
        if let Some(Purpose::OfJob(JobRequest::Report(claim))) = self.calls.get(&first) {
            let claim = *claim;
            self.say(Said::ReportSentAgain(claim));
        }
        self.notify(LinkNotice::Hedged(call.endpoint()));
        // Both requests have the deadline of the first one.
        let left = self
            .timers
            .deadline_of(LinkTimer::Call(first))
            .map(|end| end.remaining(cx.now));
        let left = left.map_or(cx.options.request_timeout, |left| left.saturating_sub(CALL_LEEWAY));
        let sibling = self.send_call(call, cx.cap(cx.now.after(left)), true);
        self.hedges.joins(first, sibling, cx.now);
    }

    /// Closes the connections of all unanswered heartbeats, because no heartbeat may arrive after
    /// the deregistration.
    pub(crate) fn abandon_heartbeats(&mut self) {
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
