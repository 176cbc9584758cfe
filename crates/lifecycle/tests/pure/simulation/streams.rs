//! Streams of events: their news, true or not, their ends, and their allowed cost.

use std::collections::BTreeSet;
use std::time::Duration;

use ojs_lifecycle::api::{Call, CallId, Event, Failure, JobId, Reply, StreamNews, Text, WorkerState};

use super::chance::Chance;
use super::plan::{Fate, JobPlan, ms};
use super::promise::{Kept, promise};
use super::world::{Exchange, Item, World};

/// Separates the chance of streams from that of the plan, so the worlds without streams stay
/// unchanged.
const APART: u64 = 0x5EED_57EA;

/// Least time in which two more FETCHes are brought forward while no job arrives.
const BETWEEN_WAKE_UPS: Duration = ms(200);

/// The queues whose events this run receives: none in two of three.
pub fn queues(seed: u64) -> Vec<Text> {
    let mut chance = Chance::new(seed ^ APART);
    let count = if chance.one_in(3) { 1 + chance.index(3) } else { 0 };
    ["default", "mail", "slow"]
        .into_iter()
        .take(count)
        .map(Text::from)
        .collect()
}

/// The open streams.
#[derive(Debug, Default)]
pub struct Streams {
    /// Asked for, and not over.
    there: BTreeSet<CallId>,
    /// When the last two FETCHes were brought forward, since the last job arrived.
    woken: [Option<Duration>; 2],
}

impl Streams {
    /// A stream is asked for.
    pub fn asked(&mut self, id: CallId, state: WorkerState) -> Kept {
        self.there.insert(id);
        promise!("streams in running only", state == WorkerState::Running, "in {state:?}");
        Ok(())
    }

    /// The stream has ended, or is not wanted any more.
    pub fn over(&mut self, id: CallId) {
        self.there.remove(&id);
    }

    /// A FETCH is brought forward, once more for an idle end that is due.
    pub fn wakes(&mut self, state: WorkerState, has_idle_end: bool, now: Duration) -> Kept {
        let [before, last] = self.woken;
        self.woken = [last, Some(now)];
        promise!(
            "nobody is woken outside running",
            state == WorkerState::Running,
            "in {state:?}"
        );
        promise!(
            "at most five FETCHes a second are brought forward in vain",
            has_idle_end || before.is_none_or(|before| now >= before + BETWEEN_WAKE_UPS),
            "at {before:?}, {last:?} and {now:?}"
        );
        Ok(())
    }

    /// A FETCH brought jobs.
    pub fn jobs_came(&mut self) {
        self.woken = [None, None];
    }

    /// After each fact.
    pub fn after(&self, state: WorkerState) -> Kept {
        let is_fine = state == WorkerState::Running || self.there.is_empty();
        promise!("streams in running only", is_fine, "{:?} in {state:?}", self.there);
        Ok(())
    }

    /// The streams that the shell has.
    pub fn there(&self) -> impl Iterator<Item = CallId> {
        self.there.iter().copied()
    }
}

impl World {
    /// The machine requests a stream: decides whether there is one, its own news, and its end.
    pub fn listen(&mut self, id: CallId, call: Call, give_up: Duration) {
        let exchange = Exchange {
            call,
            meant: None,
            fault: None,
            answer: None,
        };
        self.requests.insert(id, exchange);
        let mut chance = Chance::new(self.plan.options.seed ^ APART.wrapping_mul(id.0));
        let failures = [
            Failure::NotFound,
            Failure::Unsupported,
            Failure::Unauthorized,
            Failure::NotFromBackend,
            Failure::Unanswered,
            Failure::NotSent,
            Failure::Overloaded,
            Failure::RetryLater { retry_after: None },
        ];
        let failure = *chance.pick(&failures);
        let delay = self.plan.backend.delay;
        if chance.one_in(12) {
            // The shell never answers, and has no stream.
            return self.streams.over(id);
        }
        if chance.one_in(3) {
            return self.soon(delay, Item::Reply(id, Some(Reply::Failed(failure))));
        }
        self.later((self.now + ms(delay)).min(give_up), Item::News(id, StreamNews::Opened));
        for _ in 0..chance.below(8) {
            let at = delay + chance.below(10_000);
            let job = JobId(format!("j{}", chance.below(12)).into());
            match chance.below(7) {
                4 => self.soon(at, Item::News(id, StreamNews::BackendLeaves)),
                5 => self.soon(at, Item::News(id, StreamNews::JobTaken(job))),
                6 => self.soon(at, Item::News(id, StreamNews::JobComesLater)),
                0 => self.soon(at, Item::News(id, StreamNews::JobCancelled(job))),
                1 => self.soon(at, Item::News(id, available(Some(job)))),
                // A flood.
                2 => {
                    for one in 0..60 {
                        self.soon(at + one * 10, Item::News(id, available(None)));
                        self.soon(at + one * 10, Item::News(id, StreamNews::JobCancelled(job.clone())));
                    }
                }
                _ => self.soon(at, Item::Reply(id, Some(Reply::Failed(failure)))),
            }
        }
    }

    /// A job is there to be fetched.
    pub fn offer(&mut self, job: JobPlan) {
        let id = JobId(format!("j{}", job.id).into());
        self.backend.offer(job, self.now);
        self.tell_streams(&available(Some(id)));
    }

    /// A job changes without an act of the worker.
    pub fn befalls(&mut self, job: u64, fate: Fate) {
        self.note(&format!("   behind our back: j{job} {fate:?}"));
        self.backend.fate(job, fate, self.now);
        if fate == Fate::Cancelled {
            self.tell_streams(&StreamNews::JobCancelled(JobId(format!("j{job}").into())));
        }
    }

    /// Every stream announces this, unless it lies.
    fn tell_streams(&mut self, news: &StreamNews) {
        for id in self.streams.there().collect::<Vec<_>>() {
            self.soon(1, Item::News(id, news.clone()));
        }
    }

    /// The shell reports news of a stream that has not ended.
    pub fn news(&mut self, id: CallId, news: StreamNews) -> Kept {
        if !self.requests.contains_key(&id) {
            return Ok(());
        }
        self.tell(Event::StreamSaid(id, news))
    }
}

fn available(job: Option<JobId>) -> StreamNews {
    StreamNews::JobAvailable { job, came_due: false }
}
