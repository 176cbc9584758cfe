//! Streams only wake the poll early: an event about an available job brings the next FETCH forward.
//! An event about a cancelled job makes ojs-init ask the backend for the job's state. Polling
//! continues without streams, so a stream that is silent, wrong, flooding or closed costs latency
//! and nothing else.
//!
//! If a backend shuts down, ojs-init closes its stream at once because the backend waits for that.

use std::time::Duration;

use crate::api::ids::CallId;
use crate::api::{Call, Delivery, Effect, Failure, FailureClass, LinkNotice, LinkTimer, MOST_STREAMS, StreamNews};
use crate::backend::link::{Context, Link};
use crate::backend::link_said::Said;
use crate::backend::retries::BACK_WITHIN;

/// ojs-init asks again for missing streams within this time if the backend may be another one, or
/// if the credentials changed.
const ASK_AGAIN_WITHIN: Duration = Duration::from_secs(5);

/// ojs-init asks for the stream of a queue within this time after the queue's first job.
const ASK_NEW_QUEUE_WITHIN: Duration = Duration::from_millis(500);

impl Link {
    /// Keeps streams open while the worker may accept jobs. At the end, and in quiet, the streams
    /// are closed first.
    pub(crate) fn watch_streams(&mut self, cx: &Context) {
        let are_wanted = cx.takes_jobs && self.session.is_registration_answered;
        if !self.streams.are_wanted(are_wanted) {
            return;
        }
        for index in self.streams.numbers() {
            if !are_wanted {
                self.timers.cancel(LinkTimer::Listen(index));
                self.close_stream(index);
            } else if Some(index) != self.streams.together() && !self.streams.at(index).is_deaf {
                self.listen(index, cx);
            }
        }
        if !are_wanted {
            return self.polls_are_alone(cx);
        }
        match self.streams.together().filter(|_| self.streams.are_all_deaf()) {
            Some(together) => self.listen(together, cx),
            None => self.listen_to_deaf_later(cx),
        }
    }

    /// Asks for a stream. The stream for all queues together is asked for only if no other is
    /// available.
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
            StreamNews::JobAvailable { job, came_due } => {
                self.streams.told(index);
                self.poll_pace.told(job.as_ref(), came_due);
                self.wake_ups.told(job, cx.now);
                self.wake_up(cx);
            }
            StreamNews::JobTaken(job) => {
                self.streams.taken(index, cx.now);
                self.wake_ups.taken(&job, cx.now);
                self.others_take_jobs(cx);
            }
            StreamNews::JobComesLater => {
                if self.poll_pace.job_comes_later(cx.now) {
                    self.poll_no_later_than_without_streams(cx);
                }
            }
            StreamNews::JobCancelled(job) => {
                self.streams.told(index);
                self.say(Said::Cancelled(job));
            }
            StreamNews::BackendLeaves => self.let_go(index, call, cx),
        }
    }

    /// Closes the stream of a backend that shuts down. ojs-init asks for it again after a pause, or
    /// sooner if the backend answers again.
    fn let_go(&mut self, index: usize, call: CallId, cx: &Context) {
        let pause = self.stream_is_over(index, Failure::NotSent, cx);
        self.timers.cancel(LinkTimer::Call(call));
        self.order(Effect::AbandonCall(call));
        self.timers.arm(LinkTimer::Listen(index), cx.now.after(pause));
        self.polls_are_alone(cx);
    }

    /// Returns the time until ojs-init asks for the stream again.
    fn stream_is_over(&mut self, index: usize, failure: Failure, cx: &Context) -> Duration {
        let window = self.wake_ups.window();
        self.streams
            .ended(index, failure, window, &mut self.draws.jitter, cx.now)
    }

    fn stream_opened(&mut self, index: usize, call: CallId, cx: &Context) {
        self.timers.cancel(LinkTimer::Call(call));
        let was_cut = self.streams.opened(index, call, cx.now);
        if let Some(together) = self.streams.together().filter(|together| *together != index) {
            self.timers.cancel(LinkTimer::Listen(together));
            self.close_stream(together);
        }
        if self.streams.are_offered(true) {
            self.notify(LinkNotice::Listening);
        }
        self.poll_pace.stream_opened(was_cut);
        self.wake_ups.opened();
        self.wake_up(cx);
    }

    /// A stream ended, or its request failed.
    pub(crate) fn stream_ended(&mut self, call: CallId, failure: Failure, cx: &Context) {
        let Some(index) = self.streams.find(call) else { return };
        let pause = self.stream_is_over(index, failure, cx);
        self.timers.arm(LinkTimer::Listen(index), cx.now.after(pause));
        if self.streams.at(index).was_cut {
            self.stream_was_cut(pause, cx);
        } else {
            self.polls_are_alone(cx);
        }
        if let Some(together) = self.streams.together().filter(|together| *together != index)
            && self.streams.are_all_missing()
            && self.streams.at(together).is_closed()
            && !self.timers.is_armed(LinkTimer::Listen(together))
        {
            self.listen(together, cx);
        }
        if Some(index) == self.streams.together() && self.streams.at(index).is_missing {
            self.listen_to_deaf_later(cx);
        }
        // Other log lines report an outage.
        let is_outage = failure.class() == FailureClass::Outage
            && failure != Failure::NotFromBackend
            && !self.streams.at(index).is_missing;
        if self.streams.are_closed() && !is_outage && self.streams.are_offered(false) {
            self.notify(LinkNotice::NotListening(failure));
        }
    }

    /// Jobs arrived. A queue that was missing exists now, and its stream may exist as well.
    pub(super) fn listen_to_queues_of(&mut self, deliveries: &[Delivery], cx: &Context) {
        if !self.streams.await_jobs() {
            return;
        }
        for delivery in deliveries {
            if let Some(index) = self.streams.job_came(&delivery.subject.queue)
                && self.timers.is_armed(LinkTimer::Listen(index))
            {
                let soon = cx.now.after(self.draws.jitter.up_to(ASK_NEW_QUEUE_WITHIN));
                self.timers.arm_at_latest(LinkTimer::Listen(index), soon);
            }
        }
    }

    /// Asks again for the streams that the backend did not offer, because it may be another one by
    /// now or accept other credentials.
    pub(crate) fn listen_again(&mut self, cx: &Context) {
        if !self.streams.is_listening {
            return;
        }
        for index in self.streams.numbers() {
            if self.timers.is_armed(LinkTimer::Listen(index)) {
                let pause = self.draws.jitter.poll_pause(ASK_AGAIN_WITHIN);
                self.timers.arm_at_latest(LinkTimer::Listen(index), cx.now.after(pause));
            }
        }
    }

    /// The backend answers again after an outage. Asks again, within a second, for the streams that
    /// the outage has ended.
    pub(super) fn listen_after_outage(&mut self, cx: &Context) {
        for index in self.streams.numbers() {
            if self.streams.at(index).awaits_backend && self.timers.is_armed(LinkTimer::Listen(index)) {
                let soon = cx.now.after(self.draws.jitter.up_to(BACK_WITHIN));
                self.timers.arm_at_latest(LinkTimer::Listen(index), soon);
            }
        }
    }

    /// A job became available according to a stream, which ends the pause after an empty FETCH
    /// early. A shorter pause stays. The room for a job is checked when the pause has ended.
    fn wake_up(&mut self, cx: &Context) {
        if !self.wake_ups.is_any_told() {
            return;
        }
        // Of a FETCH that is answered in quiet the news is old.
        let due = self.timers.deadline_of(LinkTimer::Fetch);
        let Some(due) = due.filter(|due| self.streams.is_listening && Some(*due) != self.wake_ups.at) else {
            return;
        };
        if let Some(at) = self.wake_ups.bring_forward(due, &mut self.draws.jitter, cx.now) {
            self.timers.arm(LinkTimer::Fetch, at);
        }
    }

    /// Another worker fetched a job. If no job is left to ask for, FETCH waits for the next poll
    /// again.
    fn others_take_jobs(&mut self, cx: &Context) {
        if !self.wake_ups.is_any_left() {
            self.poll_pace.goes_on();
        }
        if let Some(at) = self.streams.taken_everywhere_since() {
            self.poll_pace.others_looked(at, cx.options.poll_interval_max);
        }
        let due = self.timers.deadline_of(LinkTimer::Fetch);
        if due.is_none() || due == self.wake_ups.at && self.wake_ups.is_any_told() {
            return;
        }
        self.wake_ups.cancel();
        if let Some(ends) = self.poll_pace.pause_ends() {
            self.timers.arm(LinkTimer::Fetch, ends);
        }
        self.wake_up(cx);
    }

    /// A steady stream was cut. The pace of the polls stays, so that a fleet whose streams are all
    /// cut at one moment does not poll at that moment. The FETCH after the reopening finds the jobs
    /// of the gap. If the stream does not open, a poll finds them.
    fn stream_was_cut(&mut self, reopened_after: Duration, cx: &Context) {
        let latest = cx.now.after(reopened_after + cx.options.poll_interval);
        self.poll_pace.looks_again_at(latest);
        self.timers.bring_forward(LinkTimer::Fetch, latest);
    }

    /// A stream ended.
    fn polls_are_alone(&mut self, cx: &Context) {
        self.poll_pace.begins_again();
        self.poll_no_later_than_without_streams(cx);
    }

    /// Moves the next poll to at most the time that it would have without streams.
    fn poll_no_later_than_without_streams(&mut self, cx: &Context) {
        let longest = cx.options.poll_interval;
        let due = self.timers.deadline_of(LinkTimer::Fetch);
        if due.is_some_and(|due| due > cx.now.after(longest)) {
            let pause = self.draws.jitter.poll_pause(longest);
            self.poll_pace.ends_at_latest(cx.now.after(pause));
            self.timers.arm_at_latest(LinkTimer::Fetch, cx.now.after(pause));
        }
    }

    /// A FETCH returned fewer jobs than it asked for, and a stream would report further jobs.
    pub(super) fn has_brought_all(&self, cx: &Context) -> bool {
        // `worker.exit_when_idle` needs an answer without jobs.
        self.poll_pace.has_brought_all
            && self.poll_pace.are_streams_trusted(cx.now)
            && self.is_each_queue_heard(cx)
            && self.streams.telling() > 0
            && cx.options.exit_when_idle.is_none()
    }

    fn is_each_queue_heard(&self, cx: &Context) -> bool {
        self.streams.are_all_open() && self.wake_ups.may_tell_of_takings() && cx.options.listen_to.len() <= MOST_STREAMS
    }

    /// A FETCH was answered, and the next one waits. A job that became available while the FETCH
    /// was in flight may have been too late for it.
    pub(super) fn rest_until_next_poll(&mut self, cx: &Context) {
        let is_heard = self.is_each_queue_heard(cx);
        let (least, most) = (cx.options.poll_interval, cx.options.poll_interval_max);
        let longest = self.poll_pace.longest_pause(least, most, is_heard, cx.now);
        let mut pause = self.draws.jitter.poll_pause(longest);
        self.poll_pace.pause_begins(pause, cx.now);
        if self.wake_ups.is_any_left() {
            // A stream may report a job shortly before a FETCH can return it.
            pause = pause.min(self.draws.jitter.poll_pause(least));
            self.poll_pace.looks_again_at(cx.now.after(pause));
        }
        self.pause_fetch_for(LinkTimer::Fetch, pause, cx);
        self.wake_up(cx);
    }
}
