//! The use of the backend's answers: what they are believed, and what is sent again.

use ojs_devserver::{Delivery, Dialect, End, JobSnapshot};

use super::{Hand, Judge, Verdict, broken, in_millis};
use crate::course::{RIVAL, is_ours};
use crate::ends::NOISE;
use crate::journal::Word;
use crate::kinds::{Behaviour, Ending, Occasion, Weather};
use crate::plan::Onset;
use crate::sdk::Kind;
use crate::weather::is_one_ack_mute;

/// Most pauses before a request is sent again are twice as long as it has failed by then; the
/// first, in milliseconds.
const FIRST_PAUSE: f64 = 200.0;

/// How long a job that was delivered again may wait for what becomes of its delivery before, in
/// milliseconds, on a machine that is busy: a late answer, a look, another late answer.
const SETTLED_WITHIN: f64 = 1500.0;

/// How long it takes at most until an ACK that hangs has gone out on another connection, in
/// milliseconds, on a machine that is busy: something else has to be answered first, a heartbeat
/// say.
const HEDGED_WITHIN: f64 = 2_200.0;

/// How much later the next one of several does.
const HEDGES_APART: f64 = 250.0;

/// Requests that a backend may refuse before the form that it takes is found. A heartbeat has three
/// other forms, and what says quiet or terminate goes out in the form of the one before it, which
/// may have no answer yet.
const REFUSED_HEARTBEATS: usize = 3 + 2;
const REFUSED_FETCHES: usize = 2;

impl Judge<'_> {
    /// A job is said to be completed only when the backend has said so.
    pub(super) fn only_the_backend_is_believed(&self) -> Verdict {
        const PROMISE: &str = "only an answer of the backend is believed";
        let is_ours_and_acked = |delivery: &Delivery| {
            let is_acked = matches!(delivery.end, Some((_, End::Acked)));
            is_acked && is_ours(delivery.worker.as_deref())
        };
        let is_believed = |id: &str| self.is_logged(id, "Job completed successfully");
        // An ACK that was sent twice, if only in another form, cannot know by which of the two the
        // job was completed.
        let is_sent_twice = |id: &str| {
            let acks = self.requests.iter().filter(|event| event.operation == "ack");
            acks.filter(|ack| ack.jobs.iter().any(|job| job == id)).count() > 1
        };
        let is_done = |job: &JobSnapshot| {
            let is_by_a_rival = job.deliveries.iter().any(|one| one.worker.as_deref() == Some(RIVAL));
            job.deliveries.iter().any(is_ours_and_acked) || is_by_a_rival && is_sent_twice(&job.id)
        };
        let jobs = self.story.jobs.iter();
        let wrong = jobs.filter(|job| is_believed(&job.id) && !is_done(job));
        wrong
            .flat_map(|job| broken(PROMISE, format!("{} is {}", job.id, job.state)))
            .collect()
    }

    /// Whether a line of the log says that of a job.
    pub(super) fn is_logged(&self, id: &str, what: &str) -> bool {
        let name = format!("[job {id}, ");
        self.story
            .log
            .lines()
            .any(|line| line.contains(what) && line.contains(&name))
    }

    /// A job is given up as lost only when its reservation was over.
    pub(super) fn what_is_lost_is_lost(&self) -> Verdict {
        const PROMISE: &str = "no job is lost to an answer that is not true";
        let is_over = |delivery: &Delivery| {
            let ends = [End::VisibilityTimeout, End::WorkerDeath, End::Cancelled];
            let is_taken_away = delivery.end.is_some_and(|(_, end)| ends.contains(&end));
            is_taken_away || !is_ours(delivery.worker.as_deref())
        };
        let jobs = self.story.jobs.iter().filter(|job| self.is_logged(&job.id, "Job lost"));
        let wrong = jobs.filter(|job| !job.deliveries.iter().any(is_over) && job.deliveries.len() == 1);
        wrong
            .flat_map(|job| broken(PROMISE, format!("{} is {}", job.id, job.state)))
            .collect()
    }

    /// While there is time the ACK of a job that was finished is sent until it is taken.
    pub(super) fn acks_get_through(&self) -> Verdict {
        const PROMISE: &str = "an ACK gets through when the backend is back";
        let Some(over) = self.story.asked.cleared.filter(|_| self.plan.weather.is_over_at_once()) else {
            return Vec::new();
        };
        // The drain of an init whose worker has ended by itself may be over before anybody asks.
        let has_ended_by_itself = self.story.log.contains("the worker ended: terminating");
        if self.may_be_forced() || self.story.ended.is_none() || has_ended_by_itself {
            return Vec::new();
        }
        let began = match self.plan.onset {
            Onset::Start => 0.0,
            Onset::Around(_) => over - self.millis(self.plan.lasts) - NOISE,
        };
        let until = self.granted() + self.time_for_outcomes();
        let is_taken = |hand: &Hand<'_>| hand.end() == Some(End::Acked);
        let is_due = |hand: &Hand<'_>| {
            let failing = self.acked(hand).map(|acked| over - acked.max(began));
            failing.is_some_and(|failing| over + 2.0 * failing.max(0.0) + FIRST_PAUSE + 2.0 * NOISE < until)
        };
        let late = |hand: &Hand<'_>| self.acked(hand).is_some_and(|acked| acked + 2.0 * NOISE > until);
        let hands = self
            .hands()
            .filter(|hand| is_due(hand) && !late(hand) && !is_taken(hand));
        let hands = hands.filter(|hand| !self.is_overtaken(hand) && self.heard_of(hand).is_some());
        hands
            .flat_map(|hand| {
                let spare = until - over;
                broken(
                    PROMISE,
                    format!("{} had {spare:.0} ms for it: {:?}", hand.job.id, hand.end()),
                )
            })
            .collect()
    }

    /// When its ACK was known: an SDK's worker notes it when that is answered, which may be much
    /// later.
    fn acked(&self, hand: &Hand<'_>) -> Option<f64> {
        let is_sdk = self.plan.behaviour.is_sdk();
        let is_ack = hand.plan.ending != Ending::Fail;
        let known = hand.word(if is_sdk && is_ack { Word::Ended } else { Word::Acked })?;
        // The Go SDK sends none any more once it has SIGTERM.
        let sends_none = self.plan.behaviour == Behaviour::Sdk(Kind::Go) && hand.word(Word::Acked).is_none();
        let terms = self.story.notes.iter().filter(|note| note.word == Word::Terminated);
        let is_dropped = sends_none && terms.map(|note| note.ms).any(|at| at < known + NOISE);
        (!is_dropped).then_some(known)
    }

    /// Connections that hang delay nothing but what is on them: an ACK goes out again on another
    /// one.
    pub(super) fn acks_outlive_connections(&self) -> Verdict {
        const PROMISE: &str = "an ACK gets through beside connections that hang";
        let is_meant = self.plan.weather == Weather::Frozen || is_one_ack_mute(self.plan);
        if !is_meant || self.may_be_forced() || self.story.ended.is_none() {
            return Vec::new();
        }
        let events = self.story.events.iter();
        let stops = events
            .filter(|event| event.operation == "freezing")
            .map(|event| event.ms);
        let last_stop = stops.fold(0.0, f64::max);
        // Those that hang at the same time go out again one after the other.
        let patience = HEDGED_WITHIN + HEDGES_APART * self.plan.jobs.len() as f64;
        let until = self.granted() + self.time_for_outcomes();
        let is_due = |hand: &Hand<'_>| {
            let acked = self.acked(hand);
            acked.is_some_and(|acked| acked.max(last_stop) + patience < until)
        };
        let is_left = |hand: &Hand<'_>| hand.end() != Some(End::Acked) && self.heard_of(hand).is_some();
        let left = self.hands().filter(|hand| is_due(hand) && is_left(hand));
        left.flat_map(|hand| broken(PROMISE, format!("{}: {:?}", hand.job.id, hand.end())))
            .collect()
    }

    /// The share of the stop phase until the FAILs are over, a little less, in milliseconds.
    fn time_for_outcomes(&self) -> f64 {
        let margin = self.millis(self.plan.margin) - self.millis(self.plan.slack());
        margin * 3.0 / 4.5
    }

    /// Somebody else has done it just before our ACK.
    pub(super) fn is_overtaken(&self, hand: &Hand<'_>) -> bool {
        let is_next = |delivery: &Delivery| {
            let is_rival = delivery.worker.as_deref() == Some(RIVAL);
            is_rival
                && hand
                    .end_ms()
                    .is_some_and(|end| (end - in_millis(delivery.at)).abs() < 1.0)
        };
        hand.end() == Some(End::VisibilityTimeout) && hand.job.deliveries.iter().any(is_next)
    }

    /// That nobody can know of it but by the log makes the log owe it.
    pub(super) fn double_runs_are_told(&self) -> Verdict {
        const PROMISE: &str = "a job that somebody else did is told of";
        let hands = self
            .hands()
            .filter(|hand| self.is_overtaken(hand) && !self.ends.is_abandoned());
        let untold = hands.filter(|hand| {
            let words = [
                "lost",
                "somebody else",
                "another worker",
                "twice",
                "Job completed successfully",
            ];
            !words.iter().any(|word| self.is_logged(&hand.job.id, word))
        });
        untold.flat_map(|hand| broken(PROMISE, hand.job.id.clone())).collect()
    }

    /// A job that came again while its FAIL or requeue was on its way is run once that has settled,
    /// or handed back. Whether there was the time for that.
    pub(super) fn is_to_be_run_again(&self, hand: &Hand<'_>) -> bool {
        let is_again = hand
            .job
            .deliveries
            .first()
            .is_some_and(|first| !std::ptr::eq(first, hand.delivery));
        // A strict backend knows of no giving back.
        let is_refused = self.is_logged(&hand.job.id, "the backend refuses its outcome in every form");
        let had_time = hand.at + SETTLED_WITHIN < self.granted();
        self.plan.weather == Weather::Late && is_again && !is_refused && had_time
    }

    /// One that comes twice in a moment.
    pub(super) fn twins_are_one_request(&self) -> Verdict {
        const PROMISE: &str = "a signal that comes twice is one request";
        let is_meant = [Occasion::Twin, Occasion::Timeout].contains(&self.plan.occasion);
        if is_meant && !self.may_be_forced() && self.story.log.contains("stop phase: forced") {
            return broken(PROMISE, "the stop phase was forced");
        }
        Vec::new()
    }

    /// The form of a request that the backend takes is found, whichever it is, and remembered.
    pub(super) fn forms_are_found(&self) -> Verdict {
        const PROMISE: &str = "what the backend takes is found";
        if !self.plan.weather.is_reliable() || self.ends.is_abandoned() {
            return Vec::new();
        }
        let mut verdict = Vec::new();
        let workers: std::collections::BTreeSet<_> = self.requests.iter().map(|event| &event.worker).collect();
        for (operation, most) in [("heartbeat", REFUSED_HEARTBEATS), ("fetch", REFUSED_FETCHES)] {
            let is_refused = |event: &&&ojs_devserver::Event| event.operation == operation && event.status == Some(400);
            let refused = self.requests.iter().filter(is_refused).count();
            if refused > most * workers.len().max(1) {
                verdict.extend(broken(PROMISE, format!("{refused} times {operation} was refused")));
            }
        }
        let leaves: Vec<_> = self
            .requests
            .iter()
            .filter(|event| event.operation == "deregister")
            .collect();
        // In a stop phase that is brief it may be given up before its answer.
        let is_refused = leaves
            .iter()
            .all(|event| event.status.is_some_and(|status| status != 200));
        if self.plan.dialect != Dialect::Go && !leaves.is_empty() && is_refused {
            verdict.extend(broken(PROMISE, "no deregister was taken"));
        }
        verdict
    }
}
