//! Deaf streams: open streams that send no events. A poll of an idle worker proves that a stream is
//! deaf if it finds a job that was created while the stream was open. ojs-init then asks for the
//! other kind of stream. If that one is deaf too, ojs-init works without streams.

use std::collections::BTreeSet;
use std::time::Duration;

use ojs_values::small;

use crate::api::{Delivery, Effect, InPlaceOfDeaf, LinkNotice, LinkTimer, Text};
use crate::backend::link::{Context, Link};
use crate::backend::purpose::SentFetch;
use crate::backend::streams::NOT_OFFERED;

/// After this many polls that found new jobs, a stream that has never sent an event counts as deaf.
const POLLS_OF_PROOF: u8 = 3;

/// Highest number of a job's first attempt: some backends count from 0, some from 1.
const FIRST_ATTEMPT: u64 = 1;

impl Link {
    /// A FETCH was answered. If the FETCH before it returned no jobs and no stream brought this one
    /// forward, the new jobs in it became available without an event.
    pub(super) fn judge_polls(&mut self, fetch: &SentFetch, deliveries: &[Delivery], cx: &Context) {
        let has_jobs = !deliveries.is_empty();
        if fetch.is_second && !has_jobs {
            // The FETCH beside this one may have fetched the jobs.
            return;
        }
        let is_poll = fetch.is_for_pushed && !fetch.is_woken && !fetch.is_second;
        let is_behind_opening = self.wake_ups.asked_behind_opening;
        if is_poll && !is_behind_opening && self.poll_pace.pause_ends().is_some() && self.streams.are_all_open() {
            let mut ids = deliveries.iter().map(|delivery| &delivery.subject.id);
            if let Some(untold) = ids.find(|id| !self.wake_ups.was_told(id)) {
                self.poll_pace.found_untold(untold.clone(), cx.now);
            }
        }
        let idle_since = self.streams.fetch_answered(fetch.at, has_jobs);
        let Some(idle_since) = idle_since.filter(|_| is_poll) else {
            return;
        };
        let idle_for = idle_since.elapsed(cx.now);
        let new = deliveries.iter().filter(|delivery| is_new(delivery, idle_for));
        let queues: BTreeSet<&Text> = small::gather(new.map(|delivery| &delivery.subject.queue));
        if let Some(index) = self.streams.missed(&queues, idle_since, POLLS_OF_PROOF) {
            self.streams_are_deaf(index, cx);
        }
    }

    fn streams_are_deaf(&mut self, index: usize, cx: &Context) {
        for call in self.streams.are_deaf(index) {
            self.timers.cancel(LinkTimer::Call(call));
            self.order(Effect::AbandonCall(call));
        }
        let together = self.streams.together().filter(|together| *together != index);
        let is_other_tried = together.is_some_and(|_| self.streams.are_all_missing());
        let others_tell = self.streams.telling() > 0;
        self.streams.are_offered(others_tell);
        self.notify(LinkNotice::StreamsAreDeaf(match (is_other_tried, others_tell) {
            (true, _) => InPlaceOfDeaf::OtherKind,
            (false, true) => InPlaceOfDeaf::OtherQueues,
            (false, false) => InPlaceOfDeaf::Polls,
        }));
        match together.filter(|_| is_other_tried) {
            Some(together) => {
                self.timers.cancel(LinkTimer::Listen(together));
                self.listen(together, cx);
            }
            None => self.listen_to_deaf_later(cx),
        }
    }

    /// Asks for the deaf streams again much later, if there is no other kind of stream.
    pub(super) fn listen_to_deaf_later(&mut self, cx: &Context) {
        for index in self.streams.numbers() {
            let is_second = Some(index) == self.streams.together();
            if self.streams.at(index).is_deaf && !is_second && !self.timers.is_armed(LinkTimer::Listen(index)) {
                let pause = self.draws.jitter.poll_pause(NOT_OFFERED);
                self.timers.arm(LinkTimer::Listen(index), cx.now.after(pause));
            }
        }
    }
}

/// Whether a job was created within this time and is delivered for the first time.
fn is_new(delivery: &Delivery, within: Duration) -> bool {
    let attempt = delivery.subject.attempt;
    attempt.is_none_or(|attempt| attempt <= FIRST_ATTEMPT) && delivery.waited.is_some_and(|waited| waited <= within)
}
