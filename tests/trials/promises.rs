//! What every trial is held to, judged from outside: the backend's record, what the workers noted, signals and the wait
//! status.

use std::fmt;

use ojs_devserver::{Delivery, End, Event, JobSnapshot};

use super::course::{Commanded, Story, WITNESS};
use super::ends::{Ends, NOISE, is_whole};
use super::journal::Word;
use super::kinds::{Occasion, Weather};
use super::plan::{HEARTBEAT, INTERRUPTED, Plan};
use crate::support::sys::Ended;

/// How long before the limit it has to be gone, in milliseconds.
const EARLY: f64 = 250.0;

/// How long a control command may take to say what is said at once, in milliseconds.
const ANSWER: f64 = 1000.0;

/// A promise that was broken.
#[derive(Debug)]
pub struct Broken {
    pub promise: &'static str,
    pub how: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.how)
    }
}

/// What figures are made of.
#[derive(Debug, Clone, Copy, Default)]
pub struct Measured {
    /// Milliseconds from the end to the limit.
    pub left: Option<f64>,
    /// Milliseconds from the answer to the last outcome to the exit, in a drain that was over early and with a worker
    /// that ends at once.
    pub wound_up: Option<f64>,
    /// Deliveries left to their visibility timeout.
    pub left_to_lapse: usize,
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
        judge.no_blind_repeat(),
        judge.nothing_runs_twice(),
        judge.heartbeats_go_on(),
        judge.last_words(),
        judge.exit_status(),
        judge.never_too_many(),
        judge.calm_log(),
        judge.operators_are_answered(),
    ];
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
        }
    }

    fn millis(&self, duration: std::time::Duration) -> f64 {
        duration.as_secs_f64() * 1000.0
    }

    fn gone_before_the_limit(&self, measured: &mut Measured) -> Verdict {
        const PROMISE: &str = "gone before the limit";
        let Some((end, _)) = self.story.ended else {
            return broken(PROMISE, "it hangs");
        };
        let margin = self.millis(self.plan.margin);
        let ends = &self.ends;
        let mut verdict = Vec::new();
        measured.left = ends.limit.map(|limit| limit - end);
        if let Some(left) = measured.left.filter(|left| *left < EARLY) {
            verdict.extend(broken(PROMISE, format!("{left:.0} ms before it")));
        }
        // Without the orchestrator's clock, and when it is forced, the margin still counts.
        let latest = [
            (ends.deadline.map(|end| end + margin), 0.0, "drain and margin"),
            (ends.forced.map(|end| end + margin), 0.0, "the margin of a forced end"),
            (ends.stops.get(2).copied(), NOISE, "the third signal"),
        ];
        for (latest, noise, what) in latest {
            if let Some(late) = latest.map(|latest| end - latest).filter(|late| *late > noise) {
                verdict.extend(broken(PROMISE, format!("{late:.0} ms after {what}")));
            }
        }
        verdict
    }

    fn no_fetch_after_t0(&self) -> Verdict {
        const PROMISE: &str = "no FETCH after t0";
        let Some(quiet) = self.ends.quiet else {
            return Vec::new();
        };
        let late: Vec<f64> = self
            .requests
            .iter()
            .filter(|event| event.operation == "fetch")
            .map(|event| arrived(event) - quiet)
            .filter(|after| *after > 1.0)
            .collect();
        // One may have been ordered before and be sent after.
        match late.as_slice() {
            [] => Vec::new(),
            [one] if *one <= NOISE => Vec::new(),
            late => broken(PROMISE, format!("{late:.0?} ms after it")),
        }
    }

    /// See [`Measured::wound_up`].
    fn wound_up(&self) -> Option<f64> {
        let ends = &self.ends;
        let (end, Ended::Code(0)) = self.story.ended? else {
            return None;
        };
        let answered = |names: &[&str]| {
            let of_names = self.requests.iter().filter(|event| names.contains(&event.operation));
            of_names.map(|event| event.ms).reduce(f64::max)
        };
        let last = answered(&["ack", "nack"])?;
        let is_in_the_drain = last > ends.t0? + self.millis(self.plan.term_delay) && last < ends.deadline?;
        let is_the_last = answered(&["fetch"]).is_none_or(|fetch| fetch < last);
        let is_left_alone = ends.stops.len() < 2 && self.story.asked.commands.is_empty();
        // From then on the backend was there, and answered at once.
        let mut later = self.requests.iter().filter(|event| event.ms >= last);
        let is_fine = later.all(|event| is_whole(event) && event.fault.is_none())
            && !matches!(self.plan.weather, Weather::Refuses | Weather::Silent | Weather::Gone);
        let is_measured = is_in_the_drain && is_the_last && is_left_alone && is_fine;
        (is_measured && self.plan.behaviour.ends_at_once()).then_some(end - last)
    }

    fn one_outcome_each(&self, measured: &mut Measured) -> Verdict {
        let mut verdict = Vec::new();
        for job in &self.story.jobs {
            if job.times_acked > 1 {
                verdict.extend(broken(
                    "one outcome each",
                    format!("{} ACKs of {}", job.times_acked, job.id),
                ));
            }
            let ours = job
                .deliveries
                .iter()
                .filter(|delivery| delivery.worker.as_deref() != Some(WITNESS));
            for delivery in ours {
                verdict.extend(self.outcome(job, delivery, measured));
            }
        }
        verdict
    }

    /// Whether the worker noted that of this delivery: the same job may come again.
    fn noted(&self, job: &JobSnapshot, delivery: &Delivery, word: Word) -> bool {
        let later = job
            .deliveries
            .iter()
            .map(|other| other.at)
            .filter(|at| *at > delivery.at);
        let until = later.min().map_or(f64::MAX, |at| self.millis(at));
        let time = self.millis(delivery.at)..until;
        let mut notes = self.story.notes.iter().filter(|note| note.job == job.id);
        notes.any(|note| note.word == word && time.contains(&note.ms))
    }

    fn outcome(&self, job: &JobSnapshot, delivery: &Delivery, measured: &mut Measured) -> Verdict {
        let id = &job.id;
        match &delivery.end {
            // Only the worker knows what its result is.
            Some((_, End::Acked)) if job.result.as_deref() != Some(&format!("\"{id}\"")) => {
                broken("no ACK without the worker's", format!("{id}: {:?}", job.result))
            }
            Some((_, End::Failed)) if self.noted(job, delivery, Word::Acked) => {
                broken("nothing finished is reported failed", format!("{id}: {:?}", job.errors))
            }
            Some((_, End::Requeued)) if self.noted(job, delivery, Word::Acked) => {
                broken("nothing finished is given back", id.clone())
            }
            Some((_, End::Requeued))
                if !self.plan.requeues
                    && self.noted(job, delivery, Word::Took)
                    && !self.noted(job, delivery, Word::Releasing) =>
            {
                broken("only what was not begun is given back", id.clone())
            }
            Some((_, End::Acked | End::Failed | End::Requeued | End::Cancelled)) => Vec::new(),
            Some((_, other)) => broken("one outcome each", format!("{id}: {other:?}")),
            None => self.left_to_lapse(job, delivery, measured),
        }
    }

    /// Nobody told the backend what became of it.
    fn left_to_lapse(&self, job: &JobSnapshot, delivery: &Delivery, measured: &mut Measured) -> Verdict {
        let at = delivery.at.as_secs_f64() * 1000.0;
        let fetch = self
            .requests
            .iter()
            .find(|event| event.operation == "fetch" && event.jobs.contains(&job.id) && (event.ms - at).abs() < 50.0);
        // The init never heard that it has it.
        let is_unheard = fetch.is_none_or(|event| event.fault.is_some_and(|fault| fault != "delay"));
        let came_after_the_end = self.story.ended.is_some_and(|(end, _)| at > end - 5.0);
        if self.ends.is_abandoned() || is_unheard || came_after_the_end {
            return Vec::new();
        }
        measured.left_to_lapse += 1;
        if self.plan.weather.is_reliable() {
            return broken(
                "one outcome each",
                format!("{} has none though the backend answers", job.id),
            );
        }
        let says = |text: &str| self.story.log.contains(text);
        let name = format!("[job {}, ", job.id);
        let names_it = |line: &str| line.contains("Job left to its visibility timeout") && line.contains(&name);
        let is_named = self.story.log.lines().any(names_it);
        let is_of_a_fetch = says("a FETCH was not answered");
        if is_named || is_of_a_fetch {
            Vec::new()
        } else {
            broken("what has no outcome is in the log", job.id.clone())
        }
    }

    /// A FAIL or a requeue whose answer was lost is sent again only after a look at the job.
    fn no_blind_repeat(&self) -> Verdict {
        let mut verdict = Vec::new();
        for job in &self.story.jobs {
            let mut unclear = false;
            for event in self
                .requests
                .iter()
                .filter(|event| event.jobs.contains(&job.id) || event.request.contains(&job.id))
            {
                match event.operation {
                    "info" => unclear = false,
                    "nack" => {
                        if unclear {
                            verdict.extend(broken("no blind repeat of a FAIL", job.id.clone()));
                        }
                        let is_clear = event.took_ms.is_some()
                            && event.fault != Some("truncate")
                            && event.status.is_some_and(|status| status < 500 || status == 503);
                        unclear = !is_clear;
                    }
                    _ => {}
                }
            }
        }
        verdict
    }

    fn nothing_runs_twice(&self) -> Verdict {
        let mut verdict = Vec::new();
        for job in &self.story.overlaps {
            verdict.extend(broken(
                "nothing runs in two places",
                format!("{job} was given away too early"),
            ));
        }
        for note in self.story.notes.iter().filter(|note| note.word == Word::Overlap) {
            verdict.extend(broken(
                "nothing runs in two places",
                format!("{} was taken too early", note.job),
            ));
        }
        if self.story.left_behind {
            verdict.extend(broken(
                "no process is left",
                "a process of the worker outlived the init",
            ));
        }
        verdict
    }

    fn heartbeats_go_on(&self) -> Verdict {
        let beats: Vec<f64> = self
            .requests
            .iter()
            .filter(|event| event.operation == "heartbeat")
            .map(|event| arrived(event))
            .collect();
        // Nobody could be reached.
        let gates: Vec<f64> = self
            .story
            .events
            .iter()
            .filter(|event| ["refusing", "listening"].contains(&event.operation))
            .map(|event| event.ms)
            .collect();
        let most = 2.0 * self.millis(HEARTBEAT) + NOISE;
        let end = self.last_of("deregister").or(self.story.ended.map(|(end, _)| end));
        // Until the last words, which have times of their own.
        let last = end.filter(|_| self.ends.t0.is_some() && !self.ends.is_abandoned());
        let last = last.map(|end| end - 2.0 * self.millis(self.plan.margin) / 9.0);
        let ends = beats.iter().copied().skip(1).chain(last);
        let gaps = beats.iter().copied().zip(ends);
        let is_gap =
            |&(from, to): &(f64, f64)| to - from > most && !gates.iter().any(|gate| from <= *gate && *gate <= to);
        match gaps.into_iter().find(is_gap) {
            Some((from, to)) if !beats.is_empty() => {
                broken("heartbeats go on", format!("none from {from:.0} to {to:.0} ms"))
            }
            _ => Vec::new(),
        }
    }

    fn last_of(&self, operation: &str) -> Option<f64> {
        let mut found = self.requests.iter().rev().filter(|event| event.operation == operation);
        found.next().map(|event| arrived(event))
    }

    fn last_words(&self) -> Verdict {
        const PROMISE: &str = "final heartbeat and deregister last";
        let first = self.requests.iter().position(|event| event.operation == "deregister");
        let is_known = self
            .requests
            .iter()
            .any(|event| ["heartbeat", "register"].contains(&event.operation) && is_whole(event));
        let Some(first) = first else {
            let is_expected =
                is_known && self.plan.weather.is_reliable() && !self.ends.is_abandoned() && self.story.ended.is_some();
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
        let beats: Vec<_> = before.iter().filter(|event| event.operation == "heartbeat").collect();
        match beats.last() {
            None if self.plan.occasion == Occasion::Start => {}
            None => verdict.extend(broken(PROMISE, "no heartbeat before deregister")),
            Some(last) if last.state.as_deref() != Some("terminate") || !last.jobs.is_empty() => {
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

    fn exit_status(&self) -> Verdict {
        const PROMISE: &str = "the exit status tells the end";
        let Some((end, ended)) = self.story.ended else {
            return Vec::new();
        };
        let Ended::Code(status) = ended else {
            return broken(PROMISE, format!("{ended:?}"));
        };
        if self.ends.is_abandoned() && status == 128 + self.plan.signal {
            return Vec::new();
        }
        // A signal that comes while it ends anyway may come too late to count.
        let is_too_late = self.ends.stops.last().is_some_and(|last| end - last < NOISE);
        if self.ends.is_abandoned() && !is_too_late {
            return broken(PROMISE, format!("{status} after the third signal"));
        }
        let may_have_ended_first = self.plan.behaviour.may_end_first();
        if may_have_ended_first && [3, 128 + libc::SIGKILL, 128 + libc::SIGSEGV, 128 + libc::SIGTERM].contains(&status)
        {
            return Vec::new();
        }
        if self.ends.t0.is_none() {
            return broken(PROMISE, format!("{status}, and nobody asked for the end"));
        }
        let was_cut_off = self
            .story
            .log
            .lines()
            .any(|line| line.contains("cut off, ") && !line.contains("; 0 jobs cut off"));
        let by_shutdown = self
            .story
            .jobs
            .iter()
            .any(|job| job.errors.iter().any(|error| error.contains("ShutdownError")));
        match status {
            0 if by_shutdown => broken(PROMISE, "0 though a job was failed because of the shutdown"),
            0 => Vec::new(),
            INTERRUPTED if was_cut_off => Vec::new(),
            INTERRUPTED => broken(PROMISE, "jobs were cut off, and the log does not say so"),
            other => broken(PROMISE, format!("{other}")),
        }
    }

    fn never_too_many(&self) -> Verdict {
        let most = usize::try_from(self.plan.concurrency).unwrap();
        // Where it hears of all that it claims, the backend can count; else it says itself what it has.
        let claimed = self.story.most_active;
        let said = self.requests.iter().filter(|event| event.operation == "heartbeat");
        let said = said.map(|event| event.jobs.len()).max().unwrap_or(0);
        let hears_all = self.plan.weather.is_reliable();
        if said > most || (hears_all && claimed > most) {
            return broken(
                "never more jobs than the concurrency",
                format!("{said} said, {claimed} claimed"),
            );
        }
        Vec::new()
    }

    /// Whoever asks gets an answer, also when the SIGKILL to everybody comes right after it.
    fn operators_are_answered(&self) -> Verdict {
        const PROMISE: &str = "operators are answered";
        let end = self.story.ended.map_or(f64::MAX, |(ms, _)| ms);
        let drain = self.millis(self.plan.grace.min(self.plan.limit - self.plan.margin));
        let was_heard = self.story.log.contains("stop phase: forced") && self.ends.stops.len() < 2;
        // Nobody can be asked who is about to go for another reason, and a third signal waits for nobody.
        let is_owed = |command: &&Commanded| {
            let is_first = self.story.asked.is_nothing_asked_before(command.began);
            let is_heard_stop = command.verb() == "stop" && was_heard;
            (is_first || is_heard_stop || command.began < end - NOISE)
                && !self.ends.is_abandoned()
                && !self.plan.behaviour.may_end_first()
        };
        let mut verdict = Vec::new();
        for command in self.story.asked.commands.iter().filter(is_owed) {
            let most = match command.words {
                ["prestop", "--until-idle"] => drain,
                ["prestop", ..] => drain.min(300.0),
                _ => 0.0,
            };
            let took = command.ended - command.began;
            if !command.is_taken() || command.came.said.lines().count() != 1 || took > most + ANSWER {
                verdict.extend(broken(PROMISE, format!("{command:?}")));
            }
        }
        verdict
    }

    fn calm_log(&self) -> Verdict {
        match self
            .story
            .log
            .lines()
            .find(|line| line.contains("panicked") || line.contains("a bug"))
        {
            Some(line) => broken("it never panics", line),
            None => Vec::new(),
        }
    }
}
