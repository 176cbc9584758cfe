//! Streams only wake the poll early: an available job brings the next FETCH forward, and a
//! cancelled job is looked at. Polling goes on without them, so a stream that is silent, wrong,
//! flooding or closed costs latency and nothing else.
//!
//! A stream to a backend that leaves is closed at once, because the backend waits for its end.

use std::time::Duration;

use crate::api::ids::CallId;
use crate::api::{Call, Delivery, Effect, Failure, FailureClass, LinkNotice, LinkTimer, StreamNews};
use crate::backend::link::{Context, Link};
use crate::backend::link_said::Said;
use crate::backend::retries::BACK_WITHIN;

/// A wake-up waits for up to this long, by chance: a thousand idle workers are told of one job at
/// the same moment.
const SPREAD: Duration = Duration::from_millis(10);

/// Least time between two FETCHes that streams bring forward.
const BETWEEN_WAKE_UPS: Duration = Duration::from_millis(200);

/// Streams that are not offered are asked for again within this time if the backend may be another
/// one, or if the credentials changed.
const ASK_AGAIN_WITHIN: Duration = Duration::from_secs(5);

/// A queue whose first job has come is asked for within this time.
const ASK_NEW_QUEUE_WITHIN: Duration = Duration::from_millis(500);

impl Link {
    /// There are streams while jobs may be taken. At its end, and in quiet, they are the first that
    /// goes.
    pub(crate) fn watch_streams(&mut self, cx: &Context) {
        let are_wanted = cx.takes_jobs && self.agent.is_registration_answered();
        if !self.streams.are_wanted(are_wanted) {
            return;
        }
        for index in self.streams.numbers() {
            if !are_wanted {
                self.timers.cancel(LinkTimer::Listen(index));
                self.close_stream(index);
            } else if Some(index) != self.streams.together() && !self.streams.is_deaf(index) {
                self.listen(index, cx);
            }
        }
        if !are_wanted {
            return;
        }
        match self.streams.together().filter(|_| self.streams.are_all_deaf()) {
            Some(together) => self.listen(together, cx),
            None => self.listen_to_deaf_later(cx),
        }
    }

    /// Asks for a stream; for that of all queues together only where there is no other.
    pub(crate) fn listen(&mut self, index: usize, cx: &Context) {
        let is_second = Some(index) == self.streams.together() && !self.streams.are_all_missing();
        let Some(topic) = self.streams.topic(index).cloned().filter(|_| !is_second) else {
            return;
        };
        let give_up = cx.now.after(cx.options.request_timeout);
        let call = self.send_call(Call::Listen { topic }, give_up, false);
        self.streams.asked(index, call);
    }

    fn close_stream(&mut self, index: usize) {
        if let Some(call) = self.streams.close(index) {
            self.timers.cancel(LinkTimer::Call(call));
            self.order(Effect::AbandonCall(call));
        }
    }

    pub(crate) fn stream_said(&mut self, call: CallId, news: StreamNews, cx: &Context) {
        let Some(index) = self.streams.find(call) else { return };
        match news {
            StreamNews::Opened => self.stream_opened(index, call, cx),
            StreamNews::JobAvailable => {
                self.streams.told(index);
                self.wake_up(cx);
            }
            StreamNews::JobCancelled(job) => {
                self.streams.told(index);
                self.say(Said::Cancelled(job));
            }
            StreamNews::BackendLeaves => self.let_go(index, call, cx),
        }
    }

    /// Closes the stream of a backend that leaves. It is asked for again after a pause, and sooner
    /// when the backend answers again.
    fn let_go(&mut self, index: usize, call: CallId, cx: &Context) {
        let pause = self
            .streams
            .ended(index, Failure::NotSent, &mut self.draws.jitter, cx.now);
        self.timers.cancel(LinkTimer::Call(call));
        self.order(Effect::AbandonCall(call));
        self.timers.arm(LinkTimer::Listen(index), cx.now.after(pause));
    }

    fn stream_opened(&mut self, index: usize, call: CallId, cx: &Context) {
        self.timers.cancel(LinkTimer::Call(call));
        self.streams.opened(index, call, cx.now);
        if let Some(together) = self.streams.together().filter(|together| *together != index) {
            self.timers.cancel(LinkTimer::Listen(together));
            self.close_stream(together);
        }
        if self.streams.are_offered(true) {
            self.notify(LinkNotice::Listening);
        }
        // The stream tells of no job that became available while there was none.
        self.wake_up(cx);
    }

    /// The stream is over, or was not to be had.
    pub(crate) fn stream_ended(&mut self, call: CallId, failure: Failure, cx: &Context) {
        let Some(index) = self.streams.find(call) else { return };
        let pause = self.streams.ended(index, failure, &mut self.draws.jitter, cx.now);
        self.timers.arm(LinkTimer::Listen(index), cx.now.after(pause));
        if let Some(together) = self.streams.together().filter(|together| *together != index)
            && self.streams.are_all_missing()
            && self.streams.is_closed(together)
            && self.timers.deadline_of(LinkTimer::Listen(together)).is_none()
        {
            self.listen(together, cx);
        }
        if Some(index) == self.streams.together() && self.streams.is_missing(index) {
            self.listen_to_deaf_later(cx);
        }
        // That the backend is away is said by others.
        let is_outage = failure.class() == FailureClass::Outage
            && failure != Failure::NotFromBackend
            && !self.streams.is_missing(index);
        if self.streams.are_closed() && !is_outage && self.streams.are_offered(false) {
            self.notify(LinkNotice::NotListening(failure));
        }
    }

    /// Jobs came. A queue that was not there is by now, and so may its stream be.
    pub(super) fn listen_to_queues_of(&mut self, deliveries: &[Delivery], cx: &Context) {
        if !self.streams.await_jobs() {
            return;
        }
        for delivery in deliveries {
            if let Some(index) = self.streams.job_came(&delivery.subject.queue)
                && self.timers.deadline_of(LinkTimer::Listen(index)).is_some()
            {
                let soon = cx.now.after(self.draws.jitter.up_to(ASK_NEW_QUEUE_WITHIN));
                self.timers.arm_at_latest(LinkTimer::Listen(index), soon);
            }
        }
    }

    /// The backend may be another one by now, or take other credentials: what it does not offer is
    /// asked for again.
    pub(crate) fn listen_again(&mut self, cx: &Context) {
        if !self.streams.is_listening() {
            return;
        }
        for index in self.streams.numbers() {
            if self.timers.deadline_of(LinkTimer::Listen(index)).is_some() {
                let pause = self.draws.jitter.poll_pause(ASK_AGAIN_WITHIN);
                self.timers.arm_at_latest(LinkTimer::Listen(index), cx.now.after(pause));
            }
        }
    }

    /// The backend answers again after an outage: asks again for the streams that the outage has
    /// ended, all within a second.
    pub(super) fn listen_after_outage(&mut self, cx: &Context) {
        for index in self.streams.numbers() {
            if self.streams.awaits_backend(index) && self.timers.deadline_of(LinkTimer::Listen(index)).is_some() {
                let soon = cx.now.after(self.draws.jitter.up_to(BACK_WITHIN));
                self.timers.arm_at_latest(LinkTimer::Listen(index), soon);
            }
        }
    }

    /// A job became available, as somebody says: the pause after an empty FETCH ends. Whether there
    /// is room for a job is asked when it has ended, and one that is shorter stays as it is.
    fn wake_up(&mut self, cx: &Context) {
        if self.is_fetching() {
            return self.streams.tells_meanwhile();
        }
        // Of a FETCH that is answered in quiet the news is old.
        let due = self.timers.deadline_of(LinkTimer::Fetch);
        let Some(due) = due.filter(|_| self.streams.is_listening()) else {
            return;
        };
        let at = cx.now.after(self.draws.jitter.up_to(SPREAD));
        let at = self.streams.next_wake(at, BETWEEN_WAKE_UPS);
        if at < due {
            self.timers.arm(LinkTimer::Fetch, at);
            self.streams.wakes(at);
            self.notify(LinkNotice::WokenUp);
        }
    }

    /// A FETCH brought no job, and the next one waits. One that became available while it was on
    /// its way may have come too late for it.
    pub(super) fn fetch_was_in_vain(&mut self, cx: &Context) {
        if self.streams.takes_told_meanwhile() {
            self.wake_up(cx);
        }
    }
}
