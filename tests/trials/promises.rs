//! The promises that every trial is held to, judged from outside: the backend's record, what the
//! workers noted, signals and the wait status.

use std::fmt;
use std::time::Duration;

use ojs_devserver::{Delivery, End, Event, JobSnapshot};

use super::course::{Story, is_ours};
use super::ends::{Ends, NOISE, SLACK, is_whole};
use super::journal::{Note, Word};
use super::kinds::Behaviour;
use super::plan::{JobPlan, Plan};
use super::recycles::{self, Recycling};

mod account;
mod answers;
mod ending;
mod gateway;
mod heartbeats;
mod jobs;
mod last_words;
mod recycling;
mod workers;

/// Promises about time that are given to whoever has a machine: one that has something else to do
/// for a quarter of a second breaks them as well.
const OF_TIME: [&str; 10] = [
    "a recycling comes to an end",
    "a recycling grants the grace period",
    "a worker is recycled when it is of age",
    "a killed process is seen to end",
    "an ACK gets through when the backend is back",
    "an ACK gets through beside connections that hang",
    "gone before the limit",
    "heartbeats go on",
    "each request ends with its phase",
    "the drain is granted",
];

/// A promise that was broken.
#[derive(Debug)]
pub struct Broken {
    pub promise: &'static str,
    pub how: String,
}

impl Broken {
    /// Whether it shows that nobody ran for a while: whatever else was broken may come of that.
    pub fn is_a_pause(&self) -> bool {
        ["heartbeats go on", "a killed process is seen to end"].contains(&self.promise)
    }

    /// Whether a busy machine may have broken it.
    pub fn is_of_time(&self) -> bool {
        OF_TIME.contains(&self.promise)
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.how)
    }
}

/// The data that figures are made of.
#[derive(Debug, Clone, Copy, Default)]
pub struct Measured {
    /// Milliseconds from the end to the limit.
    pub left: Option<f64>,
    /// Milliseconds from the answer to the last outcome to the exit, in a drain that was over early
    /// and with a worker that ends at once.
    pub wound_up: Option<f64>,
    /// Deliveries left to their visibility timeout.
    pub left_to_lapse: usize,
    /// How often the worker was recycled to the end, and how often that was begun.
    pub recycled: usize,
    pub recyclings: usize,
}

/// Judges a trial.
pub fn judge(plan: &Plan, story: &Story) -> (Vec<Broken>, Measured) {
    let judge = Judge::new(plan, story);
    let mut broken = Vec::new();
    let mut measured = Measured::default();
    let checks = [
        judge.gone_before_the_limit(&mut measured),
        judge.no_fetch_after_t0(),
        judge.one_outcome_each(&mut measured),
        judge.the_workers_answer_decides(),
        judge.the_drain_is_granted(),
        judge.no_blind_repeat(),
        judge.nothing_runs_twice(),
        judge.heartbeats_go_on(),
        judge.heartbeats_name_each_job(),
        judge.one_says_quiet(),
        judge.last_words(),
        judge.requests_end_with_their_phase(),
        judge.each_is_told_to_cancel(),
        judge.the_worker_is_asked_to_end(),
        judge.exit_status(),
        judge.the_log_counts(),
        judge.the_termination_log_agrees(),
        judge.never_too_many(),
        judge.calm_log(),
        judge.operators_are_answered(),
        judge.only_the_backend_is_believed(),
        judge.what_is_lost_is_lost(),
        judge.acks_get_through(),
        judge.acks_outlive_connections(),
        judge.double_runs_are_told(),
        judge.twins_are_one_request(),
        judge.forms_are_found(),
        judge.one_worker_upstream(),
        judge.recyclings_grant_the_grace_period(),
        judge.a_recycled_worker_keeps_its_name(),
        judge.recyclings_come_to_an_end(),
        judge.recyclings_start_a_worker(),
        judge.no_fetch_in_a_recycling(),
        judge.old_workers_get_no_new_jobs(),
        judge.old_workers_are_gone(),
        judge.limits_of_a_worker_hold(),
        judge.operators_are_told_the_truth(),
    ];
    measured.recyclings = judge.recyclings.len();
    measured.recycled = judge.recyclings.iter().filter(|one| one.is_done).count();
    measured.wound_up = judge.wound_up();
    for check in checks {
        broken.extend(check);
    }
    (broken, measured)
}

fn arrived(event: &Event) -> f64 {
    event.arrived_ms.unwrap_or(event.ms)
}

struct Judge<'a> {
    plan: &'a Plan,
    story: &'a Story,
    /// The requests of the init, by arrival.
    requests: Vec<&'a Event>,
    ends: Ends,
    recyclings: Vec<Recycling>,
}

type Verdict = Vec<Broken>;

fn broken(promise: &'static str, how: impl Into<String>) -> Verdict {
    vec![Broken {
        promise,
        how: how.into(),
    }]
}

impl<'a> Judge<'a> {
    fn new(plan: &'a Plan, story: &'a Story) -> Self {
        let mut requests: Vec<&Event> = story.events.iter().filter(|event| !event.request.is_empty()).collect();
        requests.sort_by(|one, other| arrived(one).total_cmp(&arrived(other)));
        Self {
            plan,
            story,
            requests,
            ends: Ends::of(plan, story),
            recyclings: recycles::of(story),
        }
    }

    fn millis(&self, duration: Duration) -> f64 {
        in_millis(duration)
    }

    /// The fate of each job that the init got, and of how often it got it.
    fn hands(&self) -> impl Iterator<Item = Hand<'_>> {
        let story = self.story;
        let jobs = story.jobs.iter().zip(&self.plan.jobs);
        jobs.flat_map(move |(job, plan)| {
            let ours = |delivery: &&Delivery| is_ours(delivery.worker.as_deref());
            let deliveries = job.deliveries.iter().filter(ours);
            deliveries.map(move |delivery| Hand::new(story, job, plan, delivery))
        })
    }

    /// The FETCH that brought it, unless the init never got the answer.
    fn heard_of(&self, hand: &Hand<'_>) -> Option<&Event> {
        let is_its = |event: &&&Event| {
            // The record has a FETCH once its jobs are delivered.
            let later = event.ms - hand.at;
            event.operation == "fetch" && event.jobs.contains(&hand.job.id) && (-SLACK..SAME_FETCH).contains(&later)
        };
        let distance = |event: &Event| (event.ms - hand.at).abs();
        let fetch = self.requests.iter().filter(is_its);
        let fetch = fetch.min_by(|one, other| distance(one).total_cmp(&distance(other)))?;
        // A backend that refuses connections closes those that there are; on one that stops an
        // answer may not get through.
        let is_cut = |event: &Event| {
            ["refusing", "freezing"].contains(&event.operation) && (0.0..NOISE).contains(&(event.ms - fetch.ms))
        };
        let is_heard = is_whole(fetch) && !self.story.events.iter().any(is_cut);
        is_heard.then_some(*fetch)
    }

    /// Whether the shutdown cut it off, as the backend and the worker know it for certain.
    fn is_cut_off(&self, hand: &Hand<'_>) -> bool {
        if self.is_cut_off_by_recycling(hand) {
            return false;
        }
        match hand.end() {
            Some(End::Failed) => hand.is_failed_by_shutdown(),
            // The other jobs of a worker that was ended for one job go back as well. That is no
            // cut-off.
            Some(End::Requeued) => {
                let is_innocent = self.plan.behaviour == Behaviour::Hangs;
                hand.took.is_some() && hand.word(Word::Releasing).is_none() && !is_innocent
            }
            Some(End::Acked | End::VisibilityTimeout | End::WorkerDeath | End::Cancelled) | None => false,
        }
    }

    /// When nobody had to be granted anything any more.
    fn granted(&self) -> f64 {
        self.ends.granted.unwrap_or(f64::MAX)
    }

    /// Somebody did not wait for the deadline, or may not have.
    fn may_be_forced(&self) -> bool {
        self.ends.stops.len() > 1
            || self.ends.are_doubtful_twins
            || self.story.asked.commands.iter().any(|command| command.verb() == "stop")
    }
}

/// How far apart the record of a FETCH and that of its deliveries may be, in milliseconds.
const SAME_FETCH: f64 = 50.0;

/// A job in the hands of the init: one delivery of it, and what was noted until the next one.
struct Hand<'a> {
    job: &'a JobSnapshot,
    plan: &'a JobPlan,
    delivery: &'a Delivery,
    /// Milliseconds, like all others here.
    at: f64,
    /// When a worker began to work on it.
    took: Option<f64>,
    /// The worker that did. A delivery that a worker goes on with has no note of its own, and is
    /// that of the delivery before.
    worker: Option<i32>,
    /// The notes since then.
    notes: Vec<&'a Note>,
}

fn in_millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

impl<'a> Hand<'a> {
    fn new(story: &'a Story, job: &'a JobSnapshot, plan: &'a JobPlan, delivery: &'a Delivery) -> Self {
        let at = in_millis(delivery.at);
        let later = job.deliveries.iter().map(|other| in_millis(other.at));
        let until = later.filter(|other| *other > at).reduce(f64::min).unwrap_or(f64::MAX);
        let is_its = |note: &&Note| note.job == job.id && (at..until).contains(&note.ms);
        let notes: Vec<&Note> = story.notes.iter().filter(is_its).collect();
        let is_taken = |note: &&Note| note.word == Word::Took && note.job == job.id && note.ms < until;
        let worker = story.notes.iter().rev().find(is_taken).and_then(|note| note.worker);
        let took = notes.iter().find(|note| note.word == Word::Took).map(|note| note.ms);
        // A note may be late, and be about the delivery before.
        let notes = notes
            .into_iter()
            .filter(|note| took.is_some_and(|took| note.ms >= took));
        Self {
            job,
            plan,
            delivery,
            at,
            took,
            worker,
            notes: notes.collect(),
        }
    }

    /// When the worker noted that.
    fn word(&self, word: Word) -> Option<f64> {
        self.notes.iter().find(|note| note.word == word).map(|note| note.ms)
    }

    fn end(&self) -> Option<End> {
        self.delivery.end.as_ref().map(|(_, end)| *end)
    }

    fn end_ms(&self) -> Option<f64> {
        self.delivery.end.as_ref().map(|(at, _)| in_millis(*at))
    }

    /// The error that this delivery left.
    fn error(&self) -> Option<&'a str> {
        let leaves = |delivery: &&Delivery| {
            matches!(
                delivery.end,
                Some((_, End::Failed | End::VisibilityTimeout | End::WorkerDeath))
            )
        };
        // The oldest are forgotten first, of both.
        let deliveries = self.job.deliveries.iter().rev().filter(leaves);
        let mut errors = deliveries.zip(self.job.errors.iter().rev());
        let (_, error) = errors.find(|(delivery, _)| std::ptr::eq(*delivery, self.delivery))?;
        Some(error)
    }

    fn is_failed_by_shutdown(&self) -> bool {
        // A backend that is strict has no room for the type.
        let is_of_shutdown = |error: &str| {
            ["ShutdownError", "the worker was shut down", "cut off by the shutdown"]
                .iter()
                .any(|words| error.contains(words))
        };
        self.end() == Some(End::Failed) && self.error().is_some_and(is_of_shutdown)
    }

    /// The worker's own FAIL, as it is told to fail.
    fn is_failed_as_told(&self) -> bool {
        let is_told = |error: &str| ["as told", "exit status 1"].iter().any(|words| error.contains(words));
        self.end() == Some(End::Failed) && self.error().is_some_and(is_told)
    }
}
