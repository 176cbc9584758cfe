//! Recycling: the next worker takes the place of the one before, and nobody else sees a difference.

use std::collections::BTreeSet;

use ojs_devserver::End;

use super::{Hand, Judge, Verdict, arrived, broken};
use crate::course::is_ours;
use crate::ends::{NOISE, SLACK, is_carried_out};
use crate::journal::Word;
use crate::kinds::{Behaviour, Weather};
use crate::recycles::{self, Recycling};
use crate::sdk::Kind;

/// How long the start of a worker takes on a busy machine, in milliseconds.
const START: f64 = 2_000.0;

/// How long that of a virtual machine takes.
const SLOW_START: f64 = 10_000.0;

impl Judge<'_> {
    /// Whether a recycling cut the job off. A job that went back tells nobody why: it may have.
    pub(super) fn is_cut_off_by_recycling(&self, hand: &Hand<'_>) -> bool {
        match hand.end() {
            Some(End::Failed) => hand
                .error()
                .is_some_and(|error| error.contains("the worker was recycled")),
            Some(End::Requeued) => {
                let end = hand.end_ms().unwrap_or(f64::MAX);
                let grace = self.millis(self.grace());
                let has = |one: &&Recycling| end > one.began + grace - SLACK && end < one.ended + NOISE;
                self.recyclings.iter().any(|one| has(&one))
            }
            Some(End::Acked | End::VisibilityTimeout | End::WorkerDeath | End::Cancelled) | None => false,
        }
    }

    /// Whether the backend was told that a recycling cut the job off.
    pub(super) fn is_failed_by_recycling(&self, hand: &Hand<'_>) -> bool {
        hand.end() == Some(End::Failed) && self.is_cut_off_by_recycling(hand)
    }

    /// The moment until which this job may go on: the end of the drain, or of a recycling's grace.
    pub(super) fn granted_to(&self, hand: &Hand<'_>) -> f64 {
        let grace = self.millis(self.grace());
        let end = hand.end_ms().unwrap_or(f64::MAX);
        let meets = |one: &&Recycling| hand.at < one.ended && end > one.began;
        let limits = self.recyclings.iter().filter(meets).map(|one| one.began + grace);
        limits.fold(self.granted(), f64::min)
    }

    fn grace(&self) -> std::time::Duration {
        self.plan.grace.min(self.plan.limit.saturating_sub(self.plan.margin))
    }

    pub(super) fn recyclings_grant_the_grace_period(&self) -> Verdict {
        const PROMISE: &str = "a recycling grants the grace period";
        let grace = self.millis(self.grace());
        let mut verdict = Vec::new();
        for hand in self.hands().filter(|hand| self.is_failed_by_recycling(hand)) {
            let end = hand.end_ms().unwrap_or(f64::MAX);
            let began = self.recyclings.iter().rev().find(|one| one.began < end);
            let early = began.map_or(f64::MAX, |one| one.began + grace - SLACK - end);
            if early > 0.0 {
                verdict.extend(broken(
                    PROMISE,
                    format!("{} failed {early:.0} ms too early", hand.job.id),
                ));
            }
        }
        verdict
    }

    /// The backend knows the next worker as the same one, and hears of it once.
    pub(super) fn a_recycled_worker_keeps_its_name(&self) -> Verdict {
        const PROMISE: &str = "a recycled worker keeps its name";
        if self.recyclings.is_empty() || self.plan.behaviour.may_end_first() {
            return Vec::new();
        }
        let ours = || self.requests.iter().filter(|event| is_ours(event.worker.as_deref()));
        let names: BTreeSet<&str> = ours().filter_map(|event| event.worker.as_deref()).collect();
        let registered = ours().filter(|event| event.operation == "register" && is_carried_out(event));
        let registered = registered.count();
        // Where an answer is lost it registers again.
        let is_once = registered <= 1 || !self.plan.weather.is_reliable();
        if names.len() <= 1 && is_once {
            return Vec::new();
        }
        broken(PROMISE, format!("{names:?}, registered {registered} times"))
    }

    /// A recycling that has the time for it comes to its end, and the next worker is ready.
    pub(super) fn recyclings_come_to_an_end(&self) -> Verdict {
        const PROMISE: &str = "a recycling comes to an end";
        if self.plan.behaviour.may_end_first() {
            return Vec::new();
        }
        let asked = self.ends.asked.unwrap_or(f64::MAX);
        let is_slow = self.plan.behaviour == Behaviour::Sdk(Kind::Java);
        let start = if is_slow { SLOW_START } else { START };
        let cancel_grace = self.millis(self.plan.cancel_grace);
        let longest = self.millis(self.grace()) + 2.0 * cancel_grace + start;
        let is_left = |one: &&Recycling| one.ended == f64::MAX && one.began + longest < asked;
        if let Some(left) = self.recyclings.iter().find(is_left) {
            return broken(PROMISE, format!("that of {:.0} ms does not", left.began));
        }
        Vec::new()
    }

    /// Each recycling that came to its end has one more process of the worker.
    pub(super) fn recyclings_start_a_worker(&self) -> Verdict {
        const PROMISE: &str = "each recycling starts a worker";
        let done = self.recyclings.iter().filter(|one| one.is_done).count();
        let started = recycles::starts(self.story).len();
        let noted = self
            .story
            .notes
            .iter()
            .filter(|note| note.word == Word::Started)
            .count();
        // These note nothing, or not before their first request.
        let notes_none = matches!(
            self.plan.behaviour,
            Behaviour::Python | Behaviour::Exec(_) | Behaviour::Sdk(_)
        );
        if done == 0 || (started > done && (notes_none || noted > done)) {
            return Vec::new();
        }
        broken(PROMISE, format!("{done} recyclings, {started} starts, {noted} workers"))
    }

    pub(super) fn no_fetch_in_a_recycling(&self) -> Verdict {
        const PROMISE: &str = "no FETCH in a recycling";
        // Where the worker dies by itself the recycling is over.
        if self.plan.behaviour.may_end_first() {
            return Vec::new();
        }
        let fetches = || self.requests.iter().filter(|event| event.operation == "fetch");
        // One may have been ordered before. One on a connection that stopped is read when that goes
        // on.
        let is_in = |one: &Recycling, at: f64| at > one.began + NOISE && at < one.ended - SLACK;
        let mut verdict = Vec::new();
        for one in &self.recyclings {
            let late: Vec<f64> = fetches()
                .map(|event| arrived(event))
                .filter(|at| is_in(one, *at))
                .collect();
            let is_frozen = self.plan.weather == Weather::Frozen && late.len() <= 1;
            if !late.is_empty() && !is_frozen {
                verdict.extend(broken(PROMISE, format!("{late:.0?} in {one:.0?}")));
            }
        }
        verdict
    }

    /// The limits of one worker process.
    pub(super) fn limits_of_a_worker_hold(&self) -> Verdict {
        const AGE: &str = "a worker is recycled when it is of age";
        const JOBS: &str = "a worker gets so many jobs and no more";
        let Some(recycles) = &self.plan.recycles else {
            return Vec::new();
        };
        if self.plan.behaviour.may_end_first() {
            return Vec::new();
        }
        let mut verdict = Vec::new();
        let asked = self.ends.asked.unwrap_or(f64::MAX);
        if let Some(age) = recycles.max_age.map(|age| self.millis(age) + NOISE) {
            let is_recycled = |start: f64| {
                self.recyclings
                    .iter()
                    .any(|one| (start..start + age).contains(&one.began))
            };
            let starts = recycles::starts(self.story).into_iter();
            let old = starts.filter(|start| start + age < asked && !is_recycled(*start));
            verdict.extend(old.flat_map(|start| broken(AGE, format!("started at {start:.0} ms"))));
        }
        // The jobs of a FETCH that reaches the limit come besides.
        let most = recycles.max_jobs.map(|jobs| jobs - 1 + self.plan.concurrency);
        if let Some(most) = most.filter(|_| self.is_one_process()) {
            let mut taken = 0;
            for note in &self.story.notes {
                match note.word {
                    Word::Started => taken = 0,
                    Word::Took => taken += 1,
                    _ => {}
                }
                if taken > most {
                    verdict.extend(broken(JOBS, format!("{taken} by {:.0} ms", note.ms)));
                    break;
                }
            }
        }
        verdict
    }

    /// Whether each life of the worker is one process that notes its start.
    pub(super) fn is_one_process(&self) -> bool {
        !matches!(
            self.plan.behaviour,
            Behaviour::Python | Behaviour::Prefork | Behaviour::Exec(_)
        )
    }

    /// An operator who is told that the worker is recycled finds it done.
    pub(super) fn operators_are_told_the_truth(&self) -> Verdict {
        const PROMISE: &str = "who is told of a recycling gets it";
        let commands = self.story.asked.commands.iter();
        let told = commands.filter(|command| command.came.said.starts_with("the worker is recycled:"));
        let told = told.count();
        let done = self.recyclings.iter().filter(|one| one.is_by_operator).count();
        // A log may be cut off with the one who writes it.
        if told <= done || self.ends.is_abandoned() {
            return Vec::new();
        }
        broken(PROMISE, format!("{told} told, {done} in the log"))
    }
}
