//! The threads of the handlers: as many as jobs run at once, at most as many as `hello` allows. Each lives on for a while
//! when it has nothing to do.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::job::Job;
use crate::session::Session;

/// How long a thread waits for its next job before it ends.
const IDLE_TIME: Duration = Duration::from_secs(60);

pub(crate) struct Pool {
    state: Mutex<State>,
    filled: Condvar,
    begun: Condvar,
}

struct State {
    waiting: VecDeque<Job>,
    threads: usize,
    idle: usize,
    size: usize,
    /// Nothing is begun: a test of a handler has more to say before.
    is_held: bool,
    has_begun: bool,
    /// No job comes any more: threads end when they have nothing to do.
    is_closed: bool,
}

impl Pool {
    pub(crate) fn new(is_held: bool) -> Pool {
        let waiting = VecDeque::new();
        let state = State { waiting, threads: 0, idle: 0, size: 1, is_held, has_begun: false, is_closed: false };
        Pool { state: Mutex::new(state), filled: Condvar::new(), begun: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_size(&self, size: usize) {
        self.lock().size = size;
    }

    pub(crate) fn let_go(&self) {
        self.lock().is_held = false;
        self.filled.notify_all();
    }

    /// Lets threads without a job end now.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        (state.is_closed, state.is_held) = (true, false);
        self.filled.notify_all();
    }

    pub(crate) fn set_begun(&self) {
        self.lock().has_begun = true;
        self.begun.notify_all();
    }

    /// Whether a handler has begun within that time.
    pub(crate) fn wait_begun(&self, most: Duration) -> bool {
        let waited = self.begun.wait_timeout_while(self.lock(), most, |state| !state.has_begun);
        waited.unwrap_or_else(PoisonError::into_inner).0.has_begun
    }

    /// Queues a job, and gives back those for which there will be no thread.
    pub(crate) fn submit(&self, session: &Arc<Session>, job: Job) -> VecDeque<Job> {
        let mut state = self.lock();
        state.waiting.push_back(job);
        if state.idle >= state.waiting.len() || state.threads >= state.size {
            self.filled.notify_one();
            return VecDeque::new();
        }
        state.threads += 1;
        let session = Arc::clone(session);
        let started = thread::Builder::new().name("ojs-handler".to_owned()).spawn(move || run(&session));
        if started.is_ok() {
            return VecDeque::new();
        }
        state.threads -= 1;
        // The others will come to it; if there is none, nobody will.
        if state.threads > 0 {
            VecDeque::new()
        } else {
            std::mem::take(&mut state.waiting)
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if !state.is_held {
                if let Some(job) = state.waiting.pop_front() {
                    return Some(job);
                }
            }
            if state.is_closed {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            let (guard, waited) = self.filled.wait_timeout(state, IDLE_TIME).unwrap_or_else(PoisonError::into_inner);
            state = guard;
            state.idle -= 1;
            if waited.timed_out() && (state.waiting.is_empty() || state.is_held) {
                state.threads -= 1;
                return None;
            }
        }
    }
}

fn run(session: &Arc<Session>) {
    while let Some(job) = session.pool.next() {
        session.process(&job);
    }
}
