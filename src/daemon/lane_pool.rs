//! Threads that wait for somebody else, so that the loop never does.
//!
//! A pool starts a thread when a call comes and none is idle, up to a bound, and lets calls wait up to another bound.
//! Beyond both a call is answered at once: not sent. A thread that has nothing to do ends after a while, but for those
//! that the pool keeps.

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::lifecycle::effect::Call;
use crate::lifecycle::event::{Failure, Reply};
use crate::lifecycle::ids::CallId;
use crate::lifecycle::time::Moment;
use crate::os::signals::{self, SignalSet};

/// How long a thread stays without a call. The report threads of one drain live through it.
pub(super) const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// Stack of a lane in bytes. Requests over TLS with certificates of both sides were measured to touch 60 KiB of it in the
/// static release build, and 150 KiB in a debug build.
pub(super) const STACK_BYTES: usize = 256 * 1024;

/// One request on its way.
#[derive(Debug)]
pub(super) struct Job {
    /// Its number.
    pub(super) id: CallId,
    /// What to ask.
    pub(super) call: Call,
    /// When nobody waits for the answer any more.
    pub(super) give_up: Moment,
}

/// What a thread does with each of its calls. Made on the thread and never shared, so that it can keep a connection.
pub(super) trait Work {
    /// Does it; returns at `give_up` at the latest.
    fn carry_out(&mut self, job: &Job) -> Reply;
}

/// Makes the work of one thread.
pub(super) type MakeWork = Arc<dyn Fn() -> Box<dyn Work> + Send + Sync>;

/// Takes each answer, exactly once, on whatever thread. It must not block.
pub(super) type TakeAnswer = Arc<dyn Fn(CallId, Reply) + Send + Sync>;

/// The bounds of a pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// What its threads are called.
    pub(super) name: &'static str,
    /// Most threads at once.
    pub(super) most_threads: usize,
    /// Threads that stay when idle.
    pub(super) kept_threads: usize,
    /// Most calls that wait for a thread.
    pub(super) most_waiting: usize,
    /// How long a thread stays without a call.
    pub(super) idle_limit: Duration,
    /// Stack of each, in bytes.
    pub(super) stack_bytes: usize,
}

/// One group of threads.
pub(super) struct Pool {
    lane: Lane,
    /// Threads ever started: each gets another name.
    started: u64,
}

impl Pool {
    /// A pool without a thread yet.
    pub(super) fn new(plan: Plan, make: MakeWork, answer: TakeAnswer) -> Self {
        let shared = Arc::new(Shared::default());
        Self {
            lane: Lane {
                plan,
                shared,
                make,
                answer,
            },
            started: 0,
        }
    }

    /// Gives the call to a thread, without waiting.
    pub(super) fn send(&mut self, job: Job) {
        let plan = self.lane.plan;
        let mut state = self.lane.shared.lock();
        // Idle threads that were woken but have not run yet are spoken for.
        if state.idle > state.waiting.len() {
            state.waiting.push_back(job);
            self.lane.shared.wake.notify_one();
            return;
        }
        if state.threads < plan.most_threads {
            state.threads += 1;
            drop(state);
            self.start(job);
            return;
        }
        if state.waiting.len() < plan.most_waiting {
            state.waiting.push_back(job);
            return;
        }
        drop(state);
        log::debug!("backend: no room for another call on the lane {}", plan.name);
        self.refuse(job.id);
    }

    /// Starts a thread that begins with this call; the thread is counted already.
    fn start(&mut self, first: Job) {
        self.started += 1;
        let name = match (self.started, self.lane.plan.kept_threads) {
            (1, 1..) => self.lane.plan.name.to_owned(),
            (number, _) => format!("{}-{number}", self.lane.plan.name),
        };
        let id = first.id;
        let lane = self.lane.clone();
        let thread = thread::Builder::new().name(name).stack_size(self.lane.plan.stack_bytes);
        let started = signals::around_thread_start(|| thread.spawn(move || lane.run(first)));
        if let Err(error) = started {
            log::warn!("no thread for a request to the backend: {error}");
            self.lane.shared.lock().threads -= 1;
            self.refuse(id);
        }
    }

    fn refuse(&self, id: CallId) {
        (self.lane.answer)(id, Reply::Failed(Failure::NotSent));
    }
}

impl Drop for Pool {
    /// Idle threads end now, busy ones after their call; nobody waits for them.
    fn drop(&mut self) {
        let mut state = self.lane.shared.lock();
        state.is_closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.lane.shared.wake.notify_all();
        for job in waiting {
            self.refuse(job.id);
        }
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Told when a call waits.
    wake: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    /// Threads that wait for a call.
    idle: usize,
    /// All threads.
    threads: usize,
    is_closed: bool,
}

impl Shared {
    /// A panic elsewhere ends no lane: the state is valid after each statement.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next call for a thread that is counted as idle; `None`: it shall end, and is no longer counted.
    fn next(&self, plan: Plan) -> Option<Job> {
        let mut state = self.lock();
        let mut is_over = false;
        loop {
            if let Some(job) = state.waiting.pop_front() {
                state.idle -= 1;
                return Some(job);
            }
            if state.is_closed || (is_over && state.threads > plan.kept_threads) {
                state.idle -= 1;
                state.threads -= 1;
                return None;
            }
            // A kept thread waits without a timer: idle costs no wakeups.
            if state.threads <= plan.kept_threads {
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                let waited = self.wake.wait_timeout(state, plan.idle_limit);
                let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                state = guard;
                is_over = timeout.timed_out();
            }
        }
    }
}

/// What each thread of a pool has.
#[derive(Clone)]
struct Lane {
    plan: Plan,
    shared: Arc<Shared>,
    make: MakeWork,
    answer: TakeAnswer,
}

impl Lane {
    fn run(self, first: Job) {
        SignalSet::ALL.set_as_mask();
        let mut work = None;
        let mut next = Some(first);
        while let Some(job) = next {
            let reply = self.carry_out(&mut work, &job);
            // Before the answer: who has it may at once send another call, and shall not start another thread for it.
            self.shared.lock().idle += 1;
            if panic::catch_unwind(AssertUnwindSafe(|| (self.answer)(job.id, reply))).is_err() {
                log::error!("internal error while an answer of the backend was passed on");
            }
            next = self.shared.next(self.plan);
        }
    }

    /// A panic costs this one answer and the connection.
    fn carry_out(&self, work: &mut Option<Box<dyn Work>>, job: &Job) -> Reply {
        let attempt = AssertUnwindSafe(|| work.get_or_insert_with(|| (self.make)()).carry_out(job));
        panic::catch_unwind(attempt).unwrap_or_else(|_| {
            log::error!("internal error in a request to the backend: it counts as unanswered");
            *work = None;
            Reply::Failed(Failure::Unanswered)
        })
    }
}

#[cfg(test)]
#[path = "lane_pool_tests.rs"]
mod tests;
