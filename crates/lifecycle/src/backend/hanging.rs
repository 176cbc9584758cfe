//! Hanging requests. A request that hangs while the backend answers others delays only itself.
//! ojs-init sends a repeatable request again on another connection. It closes the connection of a
//! FAIL or a requeue, and then checks the result. A newer heartbeat replaces one that hangs. Any
//! other request waits for its timeout.

use std::time::Duration;

use crate::api::ids::CallId;
use crate::api::{Effect, Failure, FailureClass, JobRequest, LinkNotice, LinkTimer, Moment, Reply};
use crate::backend::calls::SentCall;
use crate::backend::link::{CALL_LEEWAY, Context, Link};
use crate::backend::link_said::Said;
use crate::backend::purpose::{Purpose, WhenItHangs};
use crate::retry::patience::REPORT_HANGS_AFTER;

/// A FAIL or a requeue has this many times as long as a repeatable request, because the backend may
/// still be processing it.
const RESET_AFTER: u32 = 4;

/// Shortest time that a FAIL or a requeue has.
const RESET_AFTER_AT_LEAST: Duration = Duration::from_secs(5);

impl Link {
    /// Returns the answer that decides about the request. None if another copy of it may still be
    /// answered.
    pub(super) fn one_answer(&mut self, first: CallId, copy: CallId, reply: Reply, cx: &Context) -> Option<Reply> {
        self.note_answer_time(copy, &reply, cx.now);
        let failed = reply.failed();
        let decisive = self.calls.decides(first, copy, reply);
        if decisive.is_some() {
            return decisive;
        }
        let (failure, request) = (failed?, self.calls.get(first)?);
        // The other copies have the same form, so the backend will refuse them as well. Another
        // form can be tried next.
        let refused: Vec<CallId> = request.open().filter(|_| failure == Failure::Refused).collect();
        if failure.was_never_sent()
            && let Purpose::OfJob(JobRequest::Report(claim)) = request.purpose
        {
            self.say(Said::ReportNotSent(claim));
        }
        for open in refused {
            self.order(Effect::AbandonCall(open));
        }
        None
    }

    /// Forgets a request, and drops its copies without an answer: none is needed any more.
    pub(crate) fn forget_call(&mut self, first: CallId) -> Option<SentCall> {
        let request = self.calls.remove(first)?;
        for copy in request.open() {
            self.timers.cancel(LinkTimer::Call(copy));
            self.order(Effect::AbandonCall(copy));
        }
        Some(request)
    }

    /// Notes the time of an answer, which shows that the backend is reachable. A request without an
    /// answer may hang from now on.
    fn note_answer_time(&mut self, call: CallId, reply: &Reply, now: Moment) {
        let sent_at = self.calls.sent_at(call);
        self.calls.done_about(call);
        let is_answer = reply
            .failed()
            .is_none_or(|failure| !failure.was_never_sent() && failure.class() != FailureClass::Outage);
        if !is_answer {
            return;
        }
        self.answer_times.answered_at = Some(now);
        if let Some(sent_at) = sent_at {
            self.answer_times.took(sent_at.elapsed(now));
        }
        // A request that waited while the backend answered nothing may be answered next.
        let after = self.answer_times.hangs_after();
        let oldest = self.calls.watched().next();
        if oldest.is_some_and(|(_, sent_at)| sent_at.elapsed(now) >= after) {
            self.timers.arm_at_latest(LinkTimer::Hanging, now.after(after));
        }
    }

    /// Acts on each request that hangs.
    pub(crate) fn look_for_hanging(&mut self, cx: &Context) {
        let after = self.answer_times.hangs_after();
        let is_late = |(_, sent_at): &(CallId, Moment)| sent_at.elapsed(cx.now) >= after;
        let late: Vec<(CallId, Moment)> = self.calls.watched().take_while(is_late).collect();
        for (call, sent_at) in late {
            // If the backend answers nothing, no single request hangs.
            if self.answer_times.has_answered_since(sent_at) {
                self.hangs(call, sent_at, cx);
            }
        }
        let due = self
            .calls
            .watched()
            .map(|(call, sent_at)| sent_at.after(self.patience(call, cx)));
        match due.filter(|due| *due > cx.now).min() {
            Some(due) => self.timers.arm(LinkTimer::Hanging, due),
            // The next answer arms it again.
            None => self.timers.cancel(LinkTimer::Hanging),
        }
    }

    fn hangs(&mut self, call: CallId, sent_at: Moment, cx: &Context) {
        match self.rule_of(call) {
            Some(WhenItHangs::Again) => {
                if self.calls.have_room_for_a_hedge() {
                    self.hedge(call, cx);
                }
            }
            Some(WhenItHangs::Newer) => {
                self.calls.done_about(call);
                self.heartbeat_hangs(cx);
            }
            Some(WhenItHangs::Reset) => {
                if sent_at.elapsed(cx.now) >= self.patience(call, cx) {
                    self.calls.resets(call);
                    self.order(Effect::AbandonCall(call));
                }
            }
            Some(WhenItHangs::Wait) | None => self.calls.done_about(call),
        }
    }

    fn rule_of(&self, call: CallId) -> Option<WhenItHangs> {
        self.calls.get(call).map(SentCall::when_it_hangs)
    }

    /// How long this request may be without an answer before ojs-init acts.
    fn patience(&self, call: CallId, cx: &Context) -> Duration {
        let after = self.answer_times.hangs_after();
        match self.rule_of(call) {
            Some(WhenItHangs::Reset) if cx.end.is_reporting => after.max(REPORT_HANGS_AFTER),
            Some(WhenItHangs::Reset) => (after * RESET_AFTER).max(RESET_AFTER_AT_LEAST),
            Some(WhenItHangs::Again | WhenItHangs::Newer | WhenItHangs::Wait) | None => after,
        }
    }

    /// Sends the same request again on another connection. The first good answer counts.
    pub(crate) fn hedge(&mut self, first: CallId, cx: &Context) {
        let request = self.calls.get(first);
        let Some((purpose, call)) = request.and_then(|request| Some((&request.purpose, request.again.clone()?))) else {
            return self.calls.done_about(first);
        };
        if let Purpose::OfJob(JobRequest::Report(claim)) = *purpose {
            self.say(Said::ReportSentAgain(claim));
        }
        self.notify(LinkNotice::Hedged(call.endpoint()));
        // Both requests have the deadline of the first one.
        let left = self
            .timers
            .deadline_of(LinkTimer::Call(first))
            .map(|end| end.remaining(cx.now));
        let left = left.map_or(cx.options.request_timeout, |left| left.saturating_sub(CALL_LEEWAY));
        let copy = self.send_call(call, cx.cap(cx.now.after(left)), true);
        self.calls.joins(first, copy, cx.now);
    }

    /// Closes the connections of all unanswered heartbeats, because no heartbeat may arrive after
    /// the deregistration.
    pub(crate) fn abandon_heartbeats(&mut self) {
        let is_heartbeat = |(_, purpose): &(CallId, &Purpose)| {
            matches!(purpose, Purpose::Heartbeat(_) | Purpose::FinalHeartbeat { .. })
        };
        let firsts = self.calls.general().filter(is_heartbeat);
        let requests = firsts.filter_map(|(first, _)| self.calls.get(first));
        let open: Vec<CallId> = requests.flat_map(SentCall::open).collect();
        for call in open {
            self.calls.done_about(call);
            self.order(Effect::AbandonCall(call));
        }
    }
}
