//! The last words: a heartbeat without jobs, then deregister, then nothing.

use ojs_devserver::{Dialect, Event};

use super::{Judge, Verdict, arrived, broken};
use crate::ends::{NOISE, is_whole};
use crate::kinds::Occasion;
use crate::names::Host;

impl Judge<'_> {
    pub(super) fn last_words(&self) -> Verdict {
        const PROMISE: &str = "final heartbeat and deregister last";
        // A worker that was ended is deregistered before the next one comes.
        let is_sign = |event: &Event| ["heartbeat", "register"].contains(&event.operation);
        let last_sign = self.requests.iter().rposition(|event| is_sign(event)).unwrap_or(0);
        let last_worker = self.requests.get(last_sign).and_then(|event| event.worker.as_deref());
        let bye = |from: usize, worker: Option<&str>| {
            let is_its = |event: &Event| event.operation == "deregister" && event.worker.as_deref() == worker;
            (from..self.requests.len()).find(|position| self.requests.get(*position).is_some_and(|event| is_its(event)))
        };
        // Where it is refused the record may not know whose it was. One before the last sign was
        // that of a worker that was ended.
        let first = bye(0, last_worker).or_else(|| bye(last_sign, None));
        let is_known = self
            .requests
            .iter()
            .any(|event| is_sign(event) && is_whole(event) && event.worker.as_deref() == last_worker);
        let Some(first) = first else {
            // Whether it is answered or not: it arrives.
            let is_reached = self.plan.weather.lets_heartbeats_through();
            let is_reached = is_reached && !self.was_last_beat_before_a_stop();
            let is_expected = is_known && is_reached && !self.ends.is_abandoned() && self.story.ended.is_some();
            return if is_expected {
                broken(PROMISE, "it was not deregistered")
            } else {
                Vec::new()
            };
        };
        let (before, after) = self.requests.split_at(first);
        let mut verdict = Vec::new();
        if let Some(odd) = after.iter().find(|event| event.operation != "deregister") {
            verdict.extend(broken(PROMISE, format!("{} came after deregister", odd.operation)));
        }
        let is_of_the_last = |event: &Event| event.worker.as_deref() == last_worker;
        let is_early = |event: &&&Event| event.operation == "register" && is_whole(event) && is_of_the_last(event);
        let registered = before.iter().find(is_early).map(|event| event.ms);
        let left = after.first().map_or(f64::MAX, |event| arrived(event));
        let is_known_for_long = registered.is_some_and(|registered| registered < left - NOISE);
        let beats: Vec<_> = before
            .iter()
            .filter(|event| event.operation == "heartbeat" && is_of_the_last(event))
            .collect();
        match beats.last() {
            // A worker that hears of its registration that late only takes it back.
            None if self.plan.occasion == Occasion::Start || !is_known_for_long => {}
            None => verdict.extend(broken(PROMISE, "no heartbeat before deregister")),
            // The very last one met a port that opened right after it.
            Some(last) if self.port_opened_between(last, left) => {}
            Some(_) if self.was_last_beat_before_a_stop() => {}
            // The backend never answered that it knows us: there are no last words to it.
            Some(last) if !is_known && last.jobs.is_empty() => {}
            Some(last) if !self.may_end_with(last, left) || !last.jobs.is_empty() => {
                let how = format!("the last one says {:?} and {} jobs", last.state, last.jobs.len());
                verdict.extend(broken(PROMISE, how));
            }
            Some(last) => {
                let late = |event: &&&Event| {
                    ["ack", "nack", "fetch"].contains(&event.operation) && arrived(event) > arrived(last)
                };
                if let Some(odd) = before.iter().find(late) {
                    verdict.extend(broken(
                        PROMISE,
                        format!("{} came after the final heartbeat", odd.operation),
                    ));
                }
            }
        }
        verdict
    }

    /// Whether the port was closed after this heartbeat, and opened just before the worker left.
    /// Any time will do where the backend has another address that hangs: an init that was refused
    /// at the one waits for the other as long as it may.
    fn port_opened_between(&self, last: &Event, left: f64) -> bool {
        let waits =
            self.plan.host == Host::OneHangs && self.story.log.contains("final heartbeat failed: it did not get");
        let mut events = self.story.events.iter();
        events.any(|event| {
            event.operation == "listening" && event.ms > arrived(last) && (waits || left - event.ms < NOISE)
        })
    }

    /// The last heartbeat, where the worker left at that time.
    fn may_end_with(&self, last: &Event, left: f64) -> bool {
        // Its heartbeats have no word for it, once it is known what they may have.
        let is_mute = self.plan.dialect == Dialect::Strict && last.state.is_none();
        is_mute
            || self
                .plan
                .final_state
                .may_end_with(last.state.as_deref(), is_whole(last) && last.ms < left)
    }

    /// A request that is sent after t0 is given up when its part of the stop phase is over: an init
    /// that says deregister waits for nothing else. Late answers show that: the backend sees which
    /// connections are closed.
    ///
    /// One thread gives up, another says deregister and a third writes it down: a busy machine lets
    /// them run in any order. A request that is not cut outlives its phase by seconds.
    pub(super) fn requests_end_with_their_phase(&self) -> Verdict {
        const PROMISE: &str = "each request ends with its phase";
        let (Some(bye), Some(t0)) = (self.last_of("deregister"), self.ends.t0) else {
            return Vec::new();
        };
        // A request that is on its way when somebody forces the end keeps the time that it was
        // given.
        let since = self.ends.forced.map_or(t0 + NOISE, |forced| forced.max(t0 + NOISE));
        let is_open = |event: &&&Event| {
            ["ack", "nack", "info"].contains(&event.operation)
                && event.fault == Some("delay")
                && arrived(event) > since
                && event.ms > bye + NOISE
        };
        match self.requests.iter().find(is_open) {
            Some(open) if !self.ends.is_abandoned() => {
                let late = open.ms - bye;
                broken(
                    PROMISE,
                    format!("{} was given up {late:.0} ms after deregister", open.operation),
                )
            }
            _ => Vec::new(),
        }
    }
}
