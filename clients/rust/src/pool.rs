//! The threads of the handlers: as many as jobs ran at once.
//!
//! Waking a thread costs more than a short handler does. Therefore one idle thread is woken at a
//! time, and it wakes the next one if another task waits. A long handler holds up nobody, and short
//! ones leave the other threads asleep.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::link::{lock, spawn};

pub(crate) struct Pool<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    work: fn(T),
}

struct State<T> {
    waiting: VecDeque<T>,
    threads: usize,
    idle: usize,
    is_waking: bool,
    is_closed: bool,
}

impl<T: Send + 'static> Pool<T> {
    pub(crate) fn new(work: fn(T)) -> Arc<Pool<T>> {
        let state = State { waiting: VecDeque::new(), threads: 0, idle: 0, is_waking: false, is_closed: false };
        Arc::new(Pool { state: Mutex::new(state), filled: Condvar::new(), work })
    }

    /// Lets threads end when they have nothing to do.
    pub(crate) fn close(&self) {
        lock(&self.state).is_closed = true;
        self.filled.notify_all();
    }

    /// Queues a task; there are at most `size` threads. If the system refuses a thread, the task
    /// waits for one that there is.
    pub(crate) fn submit(self: &Arc<Pool<T>>, task: T, size: usize) {
        let mut state = lock(&self.state);
        state.waiting.push_back(task);
        if state.idle < state.waiting.len() && state.threads < size {
            let pool = Arc::clone(self);
            state.threads += usize::from(spawn("ojs-handler", move || pool.run()).is_ok());
        } else {
            self.wake_one(state);
        }
    }

    fn wake_one(&self, mut state: MutexGuard<'_, State<T>>) {
        if !state.waiting.is_empty() && state.idle > 0 && !state.is_waking {
            state.is_waking = true;
            // The woken thread would have to wait for the lock.
            drop(state);
            self.filled.notify_one();
        }
    }

    fn run(&self) {
        loop {
            let mut state = lock(&self.state);
            let task = loop {
                if let Some(task) = state.waiting.pop_front() {
                    break task;
                }
                if state.is_closed {
                    return;
                }
                state.idle += 1;
                state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                state.is_waking = false;
            };
            self.wake_one(state);
            (self.work)(task);
        }
    }
}
