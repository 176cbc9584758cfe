//! Threads that wait for somebody else, so that the loop never does.
//!
//! A pool starts a thread when a call comes and none is idle, up to a bound, and lets calls wait up to another bound.
//! Beyond both a call is answered at once: no room. Where the system has no thread for us the calls wait for those that
//! there are. A thread that has nothing to do ends after a while, but for those that the pool keeps.

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::lifecycle::api::ids::CallId;
use crate::lifecycle::api::{Call, Failure, Moment, Reply};
use crate::os::threads;
use crate::wire::backend::request::Words;

/// How long a thread stays without a call. The report threads of one drain live through it.
pub(in crate::daemon) const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// Stack of a lane in bytes. Requests over TLS with certificates of both sides were measured to touch 60 KiB of it in the
/// static release build, and 150 KiB in a debug build.
pub(in crate::daemon) const STACK_BYTES: usize = 256 * 1024;

/// One request on its way.
#[derive(Debug)]
pub(in crate::daemon) struct Ticket {
    /// The number of the request.
    pub(in crate::daemon) id: CallId,
    /// What the backend is asked.
    pub(in crate::daemon) call: Call,
    /// When nobody waits for the answer any more.
    pub(in crate::daemon) give_up: Moment,
}

/// What somebody answered, as far as only people and metrics are concerned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heard {
    /// The HTTP status, where anybody answered.
    pub status: Option<u16>,
    /// What the answer says.
    pub words: Words,
}

/// What a thread does with each of its calls. Made on the thread and never shared, so that it can keep a connection.
pub(in crate::daemon) trait Work {
    /// Does it; returns at `give_up` at the latest.
    fn carry_out(&mut self, job: &Ticket) -> (Reply, Heard);
}

/// Makes the work of one thread.
pub(in crate::daemon) type MakeWork = Arc<dyn Fn() -> Box<dyn Work> + Send + Sync>;

/// Takes each answer, exactly once, on whatever thread. It must not block.
pub(in crate::daemon) type TakeAnswer = Arc<dyn Fn(CallId, Reply, Heard) + Send + Sync>;

/// The bounds of a pool.
#[derive(Debug, Clone, Copy)]
pub(in crate::daemon) struct LanePlan {
    /// What its threads are called.
    pub(in crate::daemon) name: &'static str,
    /// Most threads at once.
    pub(in crate::daemon) most_threads: usize,
    /// Threads that stay when idle.
    pub(in crate::daemon) kept_threads: usize,
    /// Most calls that wait for a thread.
    pub(in crate::daemon) most_waiting: usize,
    /// How long a thread stays without a call.
    pub(in crate::daemon) idle_limit: Duration,
    /// Stack of each, in bytes.
    pub(in crate::daemon) stack_bytes: usize,
}

/// One group of threads.
pub(in crate::daemon) struct Pool {
    lane: LaneThreads,
    /// Threads ever started: each gets another name.
    started: u64,
    /// The last thread could not be had; said once.
    is_short: bool,
}

impl Pool {
    /// A pool without a thread yet.
    pub(in crate::daemon) fn new(plan: LanePlan, make: MakeWork, answer: TakeAnswer) -> Self {
        let shared = Arc::new(PoolShared::default());
        Self {
            lane: LaneThreads {
                plan,
                shared,
                make,
                answer,
            },
            started: 0,
            is_short: false,
        }
    }

    /// Gives the call to a thread, without waiting.
    pub(in crate::daemon) fn send(&mut self, job: Ticket) {
        let plan = self.lane.plan;
        let mut state = self.lane.shared.lock();
        // Idle threads that were woken but have not run yet are spoken for.
        if state.idle > state.waiting.len() {
            state.waiting.push_back(job);
            self.lane.shared.wake.notify_one();
            return;
        }
        let id = job.id;
        if state.threads < plan.most_threads {
            state.waiting.push_back(job);
            drop(state);
            if !self.start() {
                self.leave_to_others(id);
            }
            return;
        }
        // Each idle thread takes one of those that wait.
        if state.waiting.len() < plan.most_waiting.saturating_add(state.idle) {
            state.waiting.push_back(job);
            return;
        }
        drop(state);
        log::debug!("backend: no room for another call on the lane {}", plan.name);
        self.refuse(id);
    }

    /// Starts a thread that is to be kept before there is a call for it: later there may be none to be had.
    pub(in crate::daemon) fn keep_one(&mut self) {
        if self.lane.plan.kept_threads > 0 && self.lane.shared.lock().threads == 0 {
            self.start();
        }
    }

    /// Starts a thread, which takes the next call that waits. Says whether there is one to be had.
    fn start(&mut self) -> bool {
        let plan = self.lane.plan;
        self.started += 1;
        let name = match (self.started, plan.kept_threads) {
            (1, 1..) => plan.name.to_owned(),
            (number, _) => format!("{}-{number}", plan.name),
        };
        let mut state = self.lane.shared.lock();
        state.threads += 1;
        state.idle += 1;
        drop(state);
        let lane = self.lane.clone();
        let result = threads::spawn(name, plan.stack_bytes, move || lane.run());
        let was_short = std::mem::replace(&mut self.is_short, result.is_err());
        if let Err(error) = result {
            if !was_short {
                log::warn!(
                    "no thread for requests to the backend (lane {}), which wait for each other: {error}; raise the limit \
                     of processes (ulimit -u, pids.max) or of memory",
                    plan.name
                );
            }
            let mut state = self.lane.shared.lock();
            state.threads -= 1;
            state.idle -= 1;
            return false;
        }
        true
    }

    /// There is no further thread: the call waits for one that there is, or is refused.
    fn leave_to_others(&self, id: CallId) {
        let mut state = self.lane.shared.lock();
        let is_bearable = state.waiting.len() <= self.lane.plan.most_waiting.saturating_add(state.idle);
        if state.threads > 0 && is_bearable {
            self.lane.shared.wake.notify_one();
            return;
        }
        // Unless a thread has just become free and taken it.
        let before = state.waiting.len();
        state.waiting.retain(|job| job.id != id);
        let is_ours = state.waiting.len() < before;
        drop(state);
        if is_ours {
            self.refuse(id);
        }
    }

    fn refuse(&self, id: CallId) {
        (self.lane.answer)(id, Reply::Failed(Failure::Overloaded), Heard::default());
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
struct PoolShared {
    state: Mutex<PoolState>,
    /// Told when a call waits.
    wake: Condvar,
}

#[derive(Default)]
struct PoolState {
    waiting: VecDeque<Ticket>,
    /// Threads that wait for a call.
    idle: usize,
    /// How many threads there are.
    threads: usize,
    is_closed: bool,
}

impl PoolShared {
    /// A panic elsewhere ends no lane: the state is valid after each statement.
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next call for a thread that is counted as idle; `None`: it shall end, and is no longer counted.
    fn next(&self, plan: LanePlan) -> Option<Ticket> {
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

/// Everything that a thread of a pool needs.
#[derive(Clone)]
struct LaneThreads {
    plan: LanePlan,
    shared: Arc<PoolShared>,
    make: MakeWork,
    answer: TakeAnswer,
}

impl LaneThreads {
    fn run(self) {
        let mut work = None;
        // It is counted as idle already.
        while let Some(job) = self.shared.next(self.plan) {
            let (reply, heard) = self.carry_out(&mut work, &job);
            // Before the answer: who has it may at once send another call, and shall not start another thread for it.
            self.shared.lock().idle += 1;
            if panic::catch_unwind(AssertUnwindSafe(|| (self.answer)(job.id, reply, heard))).is_err() {
                log::error!("internal error while an answer of the backend was passed on");
            }
        }
    }

    /// A panic costs this one answer and the connection.
    fn carry_out(&self, work: &mut Option<Box<dyn Work>>, job: &Ticket) -> (Reply, Heard) {
        let attempt = AssertUnwindSafe(|| work.get_or_insert_with(|| (self.make)()).carry_out(job));
        panic::catch_unwind(attempt).unwrap_or_else(|_| {
            log::error!("internal error in a request to the backend: it counts as unanswered");
            *work = None;
            (Reply::Failed(Failure::Unanswered), Heard::default())
        })
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
