//! What every trial is held to, judged from outside: the backend's record, what the workers noted, signals and the wait
//! status.

use std::fmt;

use ojs_devserver::{Delivery, End, Event, JobSnapshot};

use super::course::{Story, WITNESS};
use super::journal::Word;
use super::plan::{HEARTBEAT, INTERRUPTED, Occasion, Plan};
use crate::support::sys::Ended;

/// How long before the limit it has to be gone, in milliseconds.
const EARLY: f64 = 250.0;

/// What a busy machine may add to anything, in milliseconds.
const NOISE: f64 = 250.0;

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
    ];
    for check in checks {
        broken.extend(check);
    }
    (broken, measured)
}

/// The signals that ask for the end.
fn is_stop(signal: i32) -> bool {
    [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT].contains(&signal)
}

fn arrived(event: &Event) -> f64 {
    event.arrived_ms.unwrap_or(event.ms)
}

/// Whether the answer was one, and arrived whole.
fn is_whole(event: &Event) -> bool {
    event.status == Some(200) && event.fault.is_none_or(|fault| fault == "delay")
}

struct Judge<'a> {
    plan: &'a Plan,
    story: &'a Story,
    /// The requests of the init, by arrival.
    requests: Vec<&'a Event>,
    /// When the end was asked for: the first stop signal, or when the backend's word was heard.
    t0: Option<f64>,
    /// The stop signals that came before the end.
    stops: Vec<f64>,
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
        let end = story.ended.map_or(f64::MAX, |(ms, _)| ms);
        let stops: Vec<f64> = story
            .sent
            .iter()
            .filter(|sent| is_stop(sent.signal) && sent.ms < end)
            .map(|sent| sent.ms)
            .collect();
        let heard = story.directed.and_then(|directed| {
            requests
                .iter()
                .find(|event| event.operation == "heartbeat" && event.ms > directed && is_whole(event))
                .map(|event| event.ms)
        });
        let t0 = stops.first().copied().into_iter().chain(heard).reduce(f64::min);
        Self {
            plan,
            story,
            requests,
            t0,
            stops,
        }
    }

    fn millis(&self, duration: std::time::Duration) -> f64 {
        duration.as_secs_f64() * 1000.0
    }

    /// The third stop signal; a terminate of the backend is none.
    fn is_abandoned(&self) -> bool {
        self.stops.len() >= 3
    }

    fn gone_before_the_limit(&self, measured: &mut Measured) -> Verdict {
        const PROMISE: &str = "gone before the limit";
        let Some((end, _)) = self.story.ended else {
            return broken(PROMISE, "it hangs");
        };
        let margin = self.millis(self.plan.margin);
        let mut verdict = Vec::new();
        if let Some(&first) = self.stops.first() {
            let hook = self.story.sent.iter().find(|sent| sent.signal == libc::SIGTSTP);
            let clock = hook.filter(|_| self.plan.kubernetes).map_or(first, |hook| hook.ms);
            let left = clock + self.millis(self.plan.limit) - end;
            measured.left = Some(left);
            if left < EARLY {
                verdict.extend(broken(PROMISE, format!("{left:.0} ms before it")));
            }
        }
        // Without the orchestrator's clock, and when it is forced, the margin still counts.
        if let Some(t0) = self.t0 {
            let drain = self.plan.grace.min(self.plan.limit - self.plan.margin);
            let late = end - t0 - self.millis(drain) - margin;
            if late > 0.0 {
                verdict.extend(broken(PROMISE, format!("{late:.0} ms after drain and margin")));
            }
        }
        let was_directed = self.story.directed.is_some();
        let force = self.stops.get(1).filter(|_| !was_directed);
        if let Some(force) = force {
            let late = end - force - margin;
            if late > 0.0 {
                verdict.extend(broken(
                    PROMISE,
                    format!("{late:.0} ms after the margin of a forced end"),
                ));
            }
        }
        if let Some(third) = self.stops.get(2) {
            let late = end - third;
            if late > NOISE {
                verdict.extend(broken(PROMISE, format!("{late:.0} ms after the third signal")));
            }
        }
        verdict
    }

    fn no_fetch_after_t0(&self) -> Verdict {
        const PROMISE: &str = "no FETCH after t0";
        // Where it was quiet before, that counts; unless it went back to running.
        let was_resumed = self.story.sent.iter().any(|sent| sent.signal == libc::SIGCONT);
        let quiet = self
            .story
            .sent
            .iter()
            .find(|sent| sent.signal == libc::SIGTSTP && !was_resumed);
        let Some(t0) = quiet.map(|sent| sent.ms).or(self.t0) else {
            return Vec::new();
        };
        let late: Vec<f64> = self
            .requests
            .iter()
            .filter(|event| event.operation == "fetch")
            .map(|event| arrived(event) - t0)
            .filter(|after| *after > 1.0)
            .collect();
        // One may have been ordered before and be sent after.
        match late.as_slice() {
            [] => Vec::new(),
            [one] if *one <= NOISE => Vec::new(),
            late => broken(PROMISE, format!("{late:.0?} ms after it")),
        }
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

    fn noted(&self, job: &JobSnapshot, word: Word) -> bool {
        self.story
            .notes
            .iter()
            .any(|note| note.word == word && note.job == job.id)
    }

    fn outcome(&self, job: &JobSnapshot, delivery: &Delivery, measured: &mut Measured) -> Verdict {
        let id = &job.id;
        match &delivery.end {
            // Only the worker knows what its result is.
            Some((_, End::Acked)) if job.result.as_deref() != Some(&format!("\"{id}\"")) => {
                broken("no ACK without the worker's", format!("{id}: {:?}", job.result))
            }
            Some((_, End::Failed)) if self.noted(job, Word::Acked) => {
                broken("nothing finished is reported failed", format!("{id}: {:?}", job.errors))
            }
            Some((_, End::Requeued)) if self.noted(job, Word::Acked) => {
                broken("nothing finished is given back", id.clone())
            }
            Some((_, End::Requeued))
                if !self.plan.requeues && self.noted(job, Word::Took) && !self.noted(job, Word::Releasing) =>
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
        if self.is_abandoned() || is_unheard || came_after_the_end {
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
        let last = end.filter(|_| self.t0.is_some() && !self.is_abandoned());
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
                is_known && self.plan.weather.is_reliable() && !self.is_abandoned() && self.story.ended.is_some();
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
        if self.is_abandoned() && status == 128 + self.plan.signal {
            return Vec::new();
        }
        // A signal that comes while it ends anyway may come too late to count.
        let is_too_late = self.stops.last().is_some_and(|last| end - last < NOISE);
        if self.is_abandoned() && !is_too_late {
            return broken(PROMISE, format!("{status} after the third signal"));
        }
        let may_have_ended_first = self.plan.behaviour.may_end_first();
        if may_have_ended_first && [3, 128 + libc::SIGKILL, 128 + libc::SIGSEGV, 128 + libc::SIGTERM].contains(&status)
        {
            return Vec::new();
        }
        if self.t0.is_none() {
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
