//! Recyclings of the worker: when one may begin, what is forbidden until the next worker runs, and
//! when the old worker has to be gone.

use std::time::Duration;

use ojs_lifecycle::api::{
    Call, Effect, EndCause, Event, FromWorker, NotStarted, Notice, OperatorRequest, Options, RecycleLimits,
    RecycleReason, Snapshot, ToWorker, WorkerId, WorkerNotice, WorkerState,
};
use ojs_values::signal::Signal;

use super::chance::Chance;
use super::plan::{Stubbornness, Twist, ms};
use super::promise::{Kept, promise};

/// Separates the chance of recyclings from that of the plan, so the worlds without any stay
/// unchanged.
const APART: u64 = 0x9EC7_C1E5;

/// Each life gets at most a fifth less of a limit.
const LEAST_PART: u32 = 5;

/// Longest time from the SIGKILL until the machine has to have noticed the end. The shell of these
/// worlds stalls now and then.
const NOTICED_WITHIN: Duration = ms(1_500);

/// The limits of the worker in this run: none in three of four.
pub fn limits(seed: u64) -> RecycleLimits {
    let mut chance = Chance::new(seed ^ APART);
    if !chance.one_in(4) {
        return RecycleLimits::default();
    }
    RecycleLimits {
        max_jobs: chance.one_in(2).then(|| *chance.pick(&[1, 2, 3, 6])),
        max_memory: chance.one_in(2).then_some(1_000),
        overlap: chance.one_in(2),
        max_age: chance.one_in(2).then(|| ms(*chance.pick(&[1_000, 1_500, 6_000]))),
    }
}

/// Whether the kernel holds a process, which is a limit of two workers at a time
/// (docs/recycling.md).
pub fn is_held_by_kernel(twists: &[Twist]) -> bool {
    let is_held = |twist: &Twist| matches!(twist, Twist::Stubborn(_, Stubbornness::HeldByKernel));
    twists.iter().any(is_held)
}

/// An event of a run with limits.
#[derive(Debug, Clone, Copy)]
pub enum Cause {
    /// The worker uses so many bytes.
    Memory(u64),
    /// An operator asks for a recycling.
    Operator,
}

/// The memory of the worker and the requests of operators, at their times.
pub fn course(seed: u64, horizon: u64) -> Vec<(u64, Cause)> {
    if limits(seed) == RecycleLimits::default() {
        return Vec::new();
    }
    let mut chance = Chance::new(seed ^ APART.rotate_left(7));
    let mut one = |_| {
        let cause = if chance.one_in(3) {
            Cause::Operator
        } else {
            Cause::Memory(chance.below(2_000))
        };
        (chance.below(horizon), cause)
    };
    let mut course: Vec<(u64, Cause)> = (0..6).map(&mut one).collect();
    course.sort_unstable_by_key(|(at, _)| *at);
    course
}

/// Whether this order asks the worker to end.
pub fn asks_to_end(effect: &Effect) -> bool {
    if let Effect::Notify(Notice::Worker(WorkerNotice::EndingProcess { cause, .. })) = effect {
        return *cause == EndCause::Recycled;
    }
    matches!(effect, Effect::SignalWorker(Signal::TERM) | Effect::KillEverything)
}

/// Facts and orders about recyclings.
#[derive(Debug)]
pub struct Recycles {
    options: Options,
    name: Option<WorkerId>,
    started_at: Duration,
    /// The present worker was ready for the first time.
    ready_at: Option<Duration>,
    /// Jobs of the present worker.
    jobs: u64,
    memory: u64,
    is_asked_for: bool,
    /// When the present recycling began, until the next worker is started.
    began: Option<Duration>,
    /// The next worker was ordered under the same name.
    keeps_name: bool,
    is_killed_at: Option<Duration>,
    /// The next worker process starts or runs beside the old one.
    is_beside: bool,
}

impl Recycles {
    pub fn new(options: Options) -> Self {
        Self {
            options,
            name: None,
            started_at: Duration::ZERO,
            ready_at: None,
            jobs: 0,
            memory: 0,
            is_asked_for: false,
            began: None,
            keeps_name: false,
            is_killed_at: None,
            is_beside: false,
        }
    }

    pub fn event(&mut self, event: &Event, now: Duration) -> Kept {
        if let Event::WorkerStarted { worker, .. } = event {
            let is_same = self.name.as_ref() == Some(worker);
            promise!(
                "a recycled worker keeps its name",
                is_same == self.keeps_name,
                "{self:?}"
            );
            self.name = Some(worker.clone());
            (self.started_at, self.jobs, self.memory) = (now, 0, 0);
            (self.began, self.is_beside, self.ready_at) = (None, false, None);
        } else if let Event::Said(_, FromWorker::Ready(_) | FromWorker::Wants(_)) = event {
            self.ready_at.get_or_insert(now);
        } else if let Event::NextNotStarted(NotStarted::Shortage) = event {
            self.is_beside = false;
        } else if let Event::WorkerMemory(bytes) = event {
            self.memory = *bytes;
        } else if let Event::OperatorAsked(_, OperatorRequest::Recycle) = event {
            self.is_asked_for = true;
        } else if let Event::WorkerEnded(_) = event {
            // From here on the rules of a worker that ended apply.
            self.is_killed_at = None;
        }
        Ok(())
    }

    pub fn effect(&mut self, effect: &Effect, state: WorkerState, now: Duration) -> Kept {
        if let Effect::StartWorker { .. } | Effect::StartNext = effect {
            let may_start = state != WorkerState::Terminate;
            promise!("terminate is irreversible", may_start, "a worker is started");
        }
        if let Effect::Tell(_, ToWorker::Job(_)) = effect {
            self.jobs += 1;
        } else if let Effect::AnswerPull { jobs, .. } = effect {
            self.jobs += u64::try_from(jobs.len()).unwrap();
        } else if let Effect::CallBackend { call, .. } = effect {
            let is_fetch = matches!(call, Call::Fetch { .. });
            let may_fetch = self.began.is_none() || self.is_beside;
            promise!(
                "no FETCH for a worker that is recycled",
                !is_fetch || may_fetch,
                "{self:?}"
            );
        } else if let Effect::StartWorker { keeps_name } = effect {
            let may_keep = self.began.is_some() || self.keeps_name;
            promise!(
                "the name stays after a recycling alone",
                !*keeps_name || may_keep,
                "{self:?}"
            );
            self.keeps_name = *keeps_name;
        } else if let Effect::StartNext = effect {
            self.is_beside = true;
        } else if let Effect::TakeOver(_) = effect {
            (self.jobs, self.started_at, self.ready_at) = (0, now, Some(now));
        } else if let Effect::Notify(Notice::Worker(WorkerNotice::Recycled { .. })) = effect {
            (self.began, self.is_beside) = (None, false);
        } else if let Effect::Notify(Notice::Worker(WorkerNotice::Recycling { reason, .. })) = effect {
            self.begins(*reason, state, now)?;
        }
        Ok(())
    }

    fn begins(&mut self, reason: RecycleReason, state: WorkerState, now: Duration) -> Kept {
        let limits = &self.options.recycle;
        let age = now.saturating_sub(self.started_at);
        let is_due = match reason {
            RecycleReason::Jobs(jobs) => {
                let least = limits.max_jobs.map(|most| u64::from(most - most / LEAST_PART));
                jobs == self.jobs && least.is_some_and(|least| jobs >= least)
            }
            RecycleReason::Memory(bytes) => {
                let counts = self.jobs >= 10 || age >= Duration::from_secs(60);
                counts && bytes == self.memory && limits.max_memory.is_some_and(|most| bytes > most)
            }
            RecycleReason::Age(_) => limits.max_age.zip(self.ready_at).is_some_and(|(most, ready)| {
                let age = now.saturating_sub(ready);
                age >= most - most / LEAST_PART
            }),
            RecycleReason::Operator => std::mem::take(&mut self.is_asked_for),
        };
        promise!(
            "a worker is recycled when it is due",
            is_due,
            "{reason:?} {self:?} at {now:?}"
        );
        promise!(
            "a worker is recycled once at a time",
            self.began.is_none() && state != WorkerState::Terminate,
            "{self:?}"
        );
        self.began = Some(now);
        let latest = now + self.options.times.grace_period + 2 * self.options.cancel_grace;
        self.is_killed_at = Some(latest).filter(|_| !self.options.recycle.overlap);
        Ok(())
    }

    /// Whether a worker is being recycled, until the next one runs.
    pub fn is_under_way(&self) -> bool {
        self.began.is_some()
    }

    /// After each fact.
    pub fn after(&mut self, snapshot: &Snapshot, is_held_by_kernel: bool, now: Duration) -> Kept {
        if snapshot.phase.is_terminating() || !snapshot.worker_is_alive {
            self.is_killed_at = None;
            if snapshot.phase.is_terminating() {
                self.began = None;
            }
        }
        let is_late = self.is_killed_at.is_some_and(|at| now > at + NOTICED_WITHIN);
        promise!(
            "a recycled worker is gone in time",
            !is_late || is_held_by_kernel,
            "{self:?} at {now:?}"
        );
        Ok(())
    }
}
