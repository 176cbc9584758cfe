//! The threads of the handlers: as many as jobs run at once, at most as many as `hello` allows.
//! Each lives on for a while when it has nothing to do.
//!
//! To wake a thread costs more than a short handler. So one is woken at a time, and wakes the next
//! one if there is still a job for it when it takes its own: a handler that takes long holds nobody
//! up, and short ones leave the others asleep.

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
    /// An idle thread is woken and has not looked yet.
    is_waking: bool,
    size: usize,
    /// Nothing is begun: a test of a handler has more to say before.
    is_held: bool,
    has_begun: bool,
    /// No job comes any more: threads end when they have nothing to do.
    is_closed: bool,
}

impl Pool {
    pub(crate) fn new(is_held: bool) -> Pool {
        let state = State {
            waiting: VecDeque::new(),
            threads: 0,
            idle: 0,
            is_waking: false,
            size: 1,
            is_held,
            has_begun: false,
            is_closed: false,
        };
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

    /// Whether a job waits for a thread.
    #[cfg(test)]
    pub(crate) fn has_waiting(&self) -> bool {
        !self.lock().waiting.is_empty()
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
            self.wake_one(state);
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

    /// Lets an idle thread look for a job, if there is one for it and no other is about to.
    fn wake_one(&self, mut state: MutexGuard<'_, State>) {
        if state.waiting.is_empty() || state.idle == 0 || state.is_waking {
            return;
        }
        state.is_waking = true;
        // It would have to wait for us.
        drop(state);
        self.filled.notify_one();
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if !state.is_held {
                if let Some(job) = state.waiting.pop_front() {
                    self.wake_one(state);
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
            state.is_waking = false;
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;

    use super::*;
    use crate::error::Result;
    use crate::output::Output;
    use crate::registry::Registry;
    use crate::worker::Options;

    const AT_ONCE: usize = 8;

    #[test]
    fn jobs_that_come_together_run_at_once_also_where_threads_are_idle() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let (begins, begun) = mpsc::channel();
        let gate = Arc::new((Mutex::new(0), Condvar::new()));
        let held = Arc::clone(&gate);
        let handler = move |job: &Job| -> Result<Output> {
            let round: i32 = job.args()?;
            begins.send(()).unwrap();
            drop(held.1.wait_while(held.0.lock().unwrap(), |opened| *opened <= round).unwrap());
            Ok(Output::none())
        };
        let handlers = BTreeMap::from([("t".to_owned(), Arc::new(handler) as crate::registry::Handler)]);
        let registry = Registry { options: Options::default(), handlers, middleware: Vec::new() };
        let session = Session::new(Arc::new(registry), ours, false);
        session.on_line(format!(r#"{{"type":"hello","protocol":1,"concurrency":{AT_ONCE}}}"#).as_bytes());
        for round in 0..50 {
            for number in 0..AT_ONCE {
                let job = format!(r#"{{"type":"job","job":{{"id":"{number}","type":"t","args":[{round}]}}}}"#);
                session.on_line(job.as_bytes());
            }
            for number in 0..AT_ONCE {
                let began = begun.recv_timeout(Duration::from_secs(20));
                assert!(began.is_ok(), "{number} of {AT_ONCE} run, in round {round}");
            }
            *gate.0.lock().unwrap() += 1;
            gate.1.notify_all();
            while session.pool.lock().idle < AT_ONCE {
                thread::sleep(Duration::from_micros(100));
            }
        }
    }
}
