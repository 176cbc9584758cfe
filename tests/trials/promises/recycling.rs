//! Recycling: the next worker takes the place of the one before, and nobody else sees a difference.

use std::collections::{BTreeMap, BTreeSet};

use ojs_devserver::{End, Event};

use super::{Hand, Judge, Verdict, arrived, broken};
use crate::course::is_ours;
use crate::ends::{NOISE, SLACK, is_carried_out};
use crate::journal::{Note, Word};
use crate::kinds::{Behaviour, Weather};
use crate::recycles::{self, Recycling};
use crate::sdk::Kind;

/// How long the start of a worker takes on a busy machine, in milliseconds.
const START: f64 = 2_000.0;

/// How long that of a virtual machine takes.
const SLOW_START: f64 = 10_000.0;

impl Judge<'_> {
    /// Whether this job may be one of the worker that is recycled: with two workers at a time the
    /// notes tell which of them has it.
    fn is_of_old(&self, one: &Recycling, hand: &Hand<'_>) -> bool {
        let are_two = self.recyclings.iter().any(|one| one.next.is_some());
        !are_two || hand.worker.is_none() || hand.worker == one.old
    }

    /// Whether a recycling cut the job off. A job that went back tells nobody why: it may have.
    pub(super) fn is_cut_off_by_recycling(&self, hand: &Hand<'_>) -> bool {
        match hand.end() {
            Some(End::Failed) => hand
                .error()
                .is_some_and(|error| error.contains("the worker was recycled")),
            Some(End::Requeued) => {
                let end = self.given_back_at(hand);
                let grace = self.millis(self.plan.grace);
                let is_in = |one: &Recycling| end > one.granted + grace - SLACK && end < one.ended + NOISE;
                // A backend that is away hears of it later.
                let answers = [Word::Acked, Word::Failed, Word::Releasing];
                let is_unanswered = answers.iter().all(|word| hand.word(*word).is_none());
                let was_left =
                    |one: &Recycling| is_unanswered && one.is_done && hand.took.is_some_and(|took| took < one.ended);
                self.recyclings
                    .iter()
                    .any(|one| self.is_of_old(one, hand) && (is_in(one) || was_left(one)))
            }
            Some(End::Acked | End::VisibilityTimeout | End::WorkerDeath | End::Cancelled) | None => false,
        }
    }

    /// When the backend first heard that the job goes back: it may have refused that for a while.
    fn given_back_at(&self, hand: &Hand<'_>) -> f64 {
        let is_about = |event: &&&Event| event.operation == "nack" && event.jobs.contains(&hand.job.id);
        let first = self.requests.iter().filter(is_about).map(|event| arrived(event));
        let first = first.filter(|at| *at > hand.at).fold(f64::MAX, f64::min);
        first.min(hand.end_ms().unwrap_or(f64::MAX))
    }

    /// Whether it was, with the next worker beside the old one.
    pub(super) fn is_cut_off_beside_the_next(&self, hand: &Hand<'_>) -> bool {
        let has_next = |one: &Recycling| one.next.is_some() && self.is_of_old(one, hand);
        self.is_cut_off_by_recycling(hand) && self.recyclings.iter().any(has_next)
    }

    /// Whether the backend was told that a recycling cut the job off.
    pub(super) fn is_failed_by_recycling(&self, hand: &Hand<'_>) -> bool {
        hand.end() == Some(End::Failed) && self.is_cut_off_by_recycling(hand)
    }

    /// The moment until which this job may go on: the end of the drain, or of a recycling's grace.
    pub(super) fn granted_to(&self, hand: &Hand<'_>) -> f64 {
        let grace = self.millis(self.plan.grace);
        let end = hand.end_ms().unwrap_or(f64::MAX);
        let meets = |one: &&Recycling| self.is_of_old(one, hand) && hand.at < one.ended && end > one.granted;
        let limits = self.recyclings.iter().filter(meets).map(|one| one.granted + grace);
        // A shutdown that came before the end of the grace has ended the recycling.
        let t0 = self.ends.t0.unwrap_or(f64::MAX);
        limits.filter(|limit| *limit <= t0).fold(self.granted(), f64::min)
    }

    pub(super) fn recyclings_grant_the_grace_period(&self) -> Verdict {
        const PROMISE: &str = "a recycling grants the grace period";
        let grace = self.millis(self.plan.grace);
        let mut verdict = Vec::new();
        for hand in self.hands().filter(|hand| self.is_failed_by_recycling(hand)) {
            // A backend that refuses the FAIL for a while may take it in the next recycling.
            let end = self.given_back_at(&hand);
            let is_its = |one: &&Recycling| self.is_of_old(one, &hand) && one.began < end + SLACK;
            let its = || self.recyclings.iter().rev().filter(is_its);
            let early_by = |one: &Recycling| one.granted + grace - SLACK - end;
            // Another one may begin before the backend has the outcomes of this one: with two
            // workers at a time, and right behind it. The note of the job tells, if there is one.
            let own = its().find(|one| hand.worker.is_some() && one.old == hand.worker);
            let before = its()
                .filter(|one| one.began < end)
                .take(if hand.worker.is_none() { 2 } else { 1 });
            let early = own.map(early_by).or(before.map(early_by).reduce(f64::min));
            let early = early.or(its().next().map(early_by)).unwrap_or(f64::MAX);
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
        let longest = self.millis(self.plan.grace) + 2.0 * cancel_grace + start;
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
        for one in self.recyclings.iter().filter(|one| one.next.is_none()) {
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

    /// From the moment on at which the next worker takes jobs nothing that is fetched goes to the
    /// old one. A worker is ready right after its start.
    pub(super) fn old_workers_get_no_new_jobs(&self) -> Verdict {
        const PROMISE: &str = "no new job goes to the old one of two workers";
        let mut verdict = Vec::new();
        for one in self.recyclings.iter().filter(|one| one.next.is_some()) {
            let mut of_next = self.story.notes.iter().filter(|note| note.worker == one.next);
            let started = of_next.clone().find(|note| note.word == Word::Started);
            let took = of_next.find(|note| note.word == Word::Took);
            let is_ready = started.map_or(f64::MAX, |note| note.ms + 2.0 * NOISE);
            let takes_over = took.map_or(is_ready, |note| note.ms.min(is_ready));
            let is_late = |hand: &Hand<'_>| hand.took.is_some() && hand.worker == one.old && hand.at > takes_over;
            verdict.extend(self.hands().filter(is_late).flat_map(|hand| {
                let late = hand.at - takes_over;
                broken(PROMISE, format!("{} came {late:.0} ms later", hand.job.id))
            }));
        }
        verdict
    }

    /// Nothing is heard of the old one of two workers once it is said to have ended.
    pub(super) fn old_workers_are_gone(&self) -> Verdict {
        const PROMISE: &str = "a recycled worker is gone";
        let is_late = |one: &Recycling, note: &Note| note.worker == one.old && note.ms > one.ended + SLACK;
        let mut verdict = Vec::new();
        for one in self.recyclings.iter().filter(|one| one.next.is_some()) {
            if let Some(note) = self.story.notes.iter().find(|note| is_late(one, note)) {
                verdict.extend(broken(PROMISE, format!("{note:?}")));
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
            // Its age counts from its first ready, which no FETCH comes before. As long as the one
            // before has not ended it has to wait.
            let due = |start: f64| {
                let mut beside = self.recyclings.iter().filter(|one| one.next.is_some());
                let before = beside.find(|one| one.began < start && start < one.ended);
                let fetches = self.requests.iter().filter(|event| event.operation == "fetch");
                let fetches = fetches.map(|event| arrived(event));
                let first_fetch = || fetches.filter(|at| *at > start).fold(f64::MAX, f64::min);
                age + before.map_or_else(first_fetch, |one| one.ended)
            };
            let is_recycled = |start: f64| {
                self.recyclings
                    .iter()
                    .any(|one| (start..due(start)).contains(&one.began))
            };
            let starts = recycles::starts(self.story).into_iter().map(|(start, _)| start);
            let old = starts.filter(|start| due(*start) < asked && !is_recycled(*start));
            verdict.extend(old.flat_map(|start| broken(AGE, format!("started at {start:.0} ms"))));
        }
        // The jobs of a FETCH that reaches the limit come besides.
        let most = recycles.max_jobs.map(|jobs| jobs - 1 + self.plan.concurrency);
        if let Some(most) = most.filter(|_| !self.plan.behaviour.is_exec()) {
            let mut taken = BTreeMap::new();
            for note in self.story.notes.iter().filter(|note| note.word == Word::Took) {
                let taken = taken.entry(note.worker).or_insert(0);
                *taken += 1;
                // Until the next one is ready the old one of two goes on, and while one is recycled
                // no other is.
                let is_beside =
                    |one: &Recycling| one.next.is_some() && one.began < note.ms + SLACK && note.ms < one.ended + NOISE;
                if *taken > most && !self.recyclings.iter().any(is_beside) {
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
