//! Heartbeats: that they go on, what they name and what they say.

use ojs_devserver::{Dialect, Event};

use super::{Hand, Judge, Verdict, arrived, broken};
use crate::ends::{NOISE, SLACK, is_carried_out, is_whole};
use crate::journal::Word;
use crate::names::Host;
use crate::plan::HEARTBEAT;

impl Judge<'_> {
    pub(super) fn heartbeats_go_on(&self) -> Verdict {
        let beats: Vec<f64> = self.beats().map(arrived).collect();
        // Nobody could be reached.
        let gates: Vec<f64> = self
            .story
            .events
            .iter()
            // Nor is there anybody between a worker and the next one.
            .filter(|event| ["refusing", "listening", "register"].contains(&event.operation))
            .map(|event| event.ms)
            .collect();
        let most = 2.0 * self.millis(HEARTBEAT) + NOISE;
        let end = self.last_of("deregister").or(self.story.ended.map(|(end, _)| end));
        // Until the last words, which have times of their own: the last heartbeat waits for its
        // answer up to the end of its step, and until it has it, it is followed by nothing.
        let hangs = self.beats().last().is_some_and(|beat| {
            beat.took_ms.is_none() && ["hang", "delay", "late_reply"].contains(&beat.fault.unwrap_or_default())
        });
        let hangs = hangs || self.was_last_beat_before_a_stop();
        // A backend that has never answered a worker itself needs no last words of it.
        let is_known = self.requests.iter().any(|event| {
            event.worker.is_some() && event.status.is_some_and(|status| status < 300) && event.fault.is_none()
        });
        let last = end.filter(|_| is_known && self.ends.t0.is_some() && !self.ends.is_abandoned() && !hangs);
        let last = last.map(|end| end - 2.0 * self.millis(self.plan.margin) / 9.0);
        let ends = beats.iter().copied().skip(1).chain(last);
        let gaps = beats.iter().copied().zip(ends);
        // The last words wait for their answer alone: nothing is left that a heartbeat could keep.
        let last_words = self.beats().filter(|beat| {
            let is_late = self.ends.t0.is_some_and(|t0| arrived(beat) > t0);
            is_late && beat.jobs.is_empty() && beat.fault.is_some()
        });
        let waits: Vec<(f64, f64)> = last_words
            .map(|beat| (arrived(beat), arrived(beat) + beat.took_ms.unwrap_or(f64::MAX)))
            .collect();
        let is_waited = |from: f64, to: f64| waits.iter().any(|(began, end)| *began <= from && to <= end + NOISE);
        // On connections that have stopped one hangs until its time is over, unless an answer to
        // another request shows it.
        let hangs_unseen = |from: f64, to: f64| {
            let mut events = self.story.events.iter();
            let has_stopped = events.any(|event| event.operation == "freezing" && from < event.ms && event.ms < to);
            let is_sign = |event: &&Event| event.operation != "heartbeat" && event.status.is_some();
            let mut signs = self.requests.iter().copied().filter(is_sign).map(arrived);
            has_stopped && !signs.any(|sign| from + most < sign && sign < to - NOISE)
        };
        let is_gap = |&(from, to): &(f64, f64)| {
            to - from > most
                && !is_waited(from, to)
                && !hangs_unseen(from, to)
                && !gates.iter().any(|gate| from <= *gate && *gate <= to)
        };
        match gaps.into_iter().find(is_gap) {
            Some((from, to)) if !beats.is_empty() => {
                broken("heartbeats go on", format!("none from {from:.0} to {to:.0} ms"))
            }
            _ => Vec::new(),
        }
    }

    /// Whether connections stopped after the last heartbeat that arrived: when another one was on
    /// its way and nothing else was answered, nothing showed that it hangs.
    pub(super) fn was_last_beat_before_a_stop(&self) -> bool {
        let last = self.last_of("heartbeat").unwrap_or(0.0);
        let mut events = self.story.events.iter();
        // One that was read right then was in the socket before.
        events.any(|event| event.operation == "freezing" && event.ms > last - NOISE)
    }

    /// When connections stopped first after this moment, or new ones began to: while one address
    /// refuses them, a request waits for the one that hangs, and only the init knows of it.
    fn first_stop_of_connections(&self, after: f64) -> Option<f64> {
        let hangs = |event: &Event| match event.operation {
            "freezing" => true,
            "refusing" => self.plan.host == Host::OneHangs,
            _ => false,
        };
        let mut events = self.story.events.iter();
        let stop = events.find(|event| hangs(event) && event.ms > after);
        stop.map(|event| event.ms)
    }

    /// The first moment at which a FAIL or a requeue of this job may have been written to a
    /// connection that hangs, or may wait for one. Those that arrived may have been the second, and
    /// those of a job without any end the only ones.
    fn first_stop_of_a_report(&self, hand: &Hand<'_>, has_arrived: bool) -> Option<f64> {
        let stop = self.first_stop_of_connections(hand.at);
        if has_arrived {
            return stop;
        }
        let words = [Word::Failed, Word::Releasing];
        let is_told = words.iter().any(|word| hand.word(*word).is_some())
            || self.plan.behaviour.may_end_first()
            || !self.recyclings.is_empty();
        let earliest = if is_told { 0.0 } else { self.ends.t0? };
        stop.filter(|_| hand.end_ms().is_none()).map(|stop| stop.max(earliest))
    }

    pub(super) fn last_of(&self, operation: &str) -> Option<f64> {
        let mut found = self.requests.iter().rev().filter(|event| event.operation == operation);
        found.next().map(|event| arrived(event))
    }

    fn beats(&self) -> impl Iterator<Item = &Event> {
        let beats = self.requests.iter().filter(|event| event.operation == "heartbeat");
        beats.copied()
    }

    /// From the FETCH that brings it to its outcome each heartbeat names a job; only while a FAIL
    /// or a requeue may have been carried out, none does. Of those that are not carried out the
    /// record has no jobs.
    pub(super) fn heartbeats_name_each_job(&self) -> Verdict {
        const PROMISE: &str = "heartbeats name each job";
        let last_words = self.beats().filter(|beat| beat.state.as_deref() != Some("running"));
        let last = last_words.map(arrived).reduce(f64::max);
        let end = last.or(self.story.ended.map(|(end, _)| end)).unwrap_or(f64::MAX);
        let mut verdict = Vec::new();
        for hand in self.hands().filter(|hand| self.heard_of(hand).is_some()) {
            let id = &hand.job.id;
            let given_up = self.is_said_to_lapse(&hand);
            // Its FAIL or requeue may have been carried out: how long that has been so the record
            // cannot say, where the request itself never got there.
            let is_looked_at = |event: &Event| event.operation == "info" && event.request.contains(id.as_str());
            if given_up || self.requests.iter().any(|event| is_looked_at(event)) {
                continue;
            }
            let mut nacks = self
                .requests
                .iter()
                .filter(|event| event.operation == "nack" && event.jobs.contains(id));
            let nack = nacks
                .find(|event| arrived(event) >= hand.at)
                .map(|event| arrived(event) - NOISE);
            let stop = self.first_stop_of_a_report(&hand, nack.is_some());
            let until = [nack, stop, hand.end_ms(), Some(end)]
                .into_iter()
                .flatten()
                .fold(f64::MAX, f64::min);
            let is_without = |beat: &&Event| {
                let is_between = arrived(beat) > hand.at + NOISE && arrived(beat) < until - SLACK;
                is_between && is_carried_out(beat) && !beat.jobs.contains(id)
            };
            if let Some(beat) = self.beats().find(is_without) {
                verdict.extend(broken(PROMISE, format!("{id} at {:.0} ms", arrived(beat))));
            }
        }
        verdict
    }

    /// From running to terminate one heartbeat says quiet; then nothing but terminate is said.
    pub(super) fn one_says_quiet(&self) -> Verdict {
        const PROMISE: &str = "one heartbeat says quiet, then all terminate";
        let (Some(asked), Some(t0)) = (self.ends.asked, self.ends.t0) else {
            return Vec::new();
        };
        let is_known = self.beats().any(|beat| is_whole(beat) && beat.ms < asked - NOISE);
        let was_quiet = self.ends.quiet_from.is_some_and(|quiet| quiet < t0);
        let ended_by_itself = self.plan.behaviour.may_end_first();
        // Its heartbeats have no word for it.
        let is_mute = self.plan.dialect == Dialect::Strict;
        if is_mute
            || !is_known
            || was_quiet
            || ended_by_itself
            || self.ends.is_abandoned()
            || !self.plan.weather.is_reliable()
        {
            return Vec::new();
        }
        let says = |beat: &&Event, state: &str| beat.state.as_deref() == Some(state);
        let later: Vec<&Event> = self.beats().filter(|beat| arrived(beat) > asked - SLACK).collect();
        let quiets: Vec<f64> = later
            .iter()
            .filter(|beat| says(beat, "quiet"))
            .map(|beat| arrived(beat))
            .collect();
        let ends = later
            .iter()
            .filter(|beat| says(beat, "terminate") || says(beat, "terminated"))
            .map(|beat| arrived(beat));
        let terminate = ends.reduce(f64::min);
        let is_late = later
            .iter()
            .any(|beat| says(beat, "running") && arrived(beat) > t0 + NOISE);
        let is_in_order = terminate.is_none_or(|terminate| quiets.iter().all(|quiet| *quiet < terminate + NOISE));
        if quiets.len() == 1 && is_in_order && !is_late {
            return Vec::new();
        }
        broken(
            PROMISE,
            format!("quiet at {quiets:.0?}, terminate from {terminate:.0?}, asked at {asked:.0} ms"),
        )
    }
}
