//! One connection: what it holds, and when it is over. `Worker::run` and `Worker::perform` both use it.

use std::collections::{HashMap, HashSet};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use log::Level;

use crate::answers::Answers;
use crate::bell::Bell;
use crate::error::RunError;
use crate::job::Job;
use crate::lines::{self, Line};
use crate::logging;
use crate::outbox::{Outbox, WRITE_TIMEOUT};
use crate::pool::Pool;
use crate::registry::Registry;

/// What handlers get to end when ojs-init has closed the connection.
const CLOSED_GRACE: Duration = Duration::from_secs(1);
/// How long we wait, after we said on our own that we take no more jobs, for one that was on its way.
const SETTLE_TIME: Duration = Duration::from_millis(250);
/// How long we go on reading when nothing can be written any more.
const BROKEN_GRACE: Duration = Duration::from_millis(100);
const DEFAULT_MAX_FRAME: usize = 4 * 1024 * 1024;

/// running, quiet or terminate, as ojs-init says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    Running,
    Quiet,
    Terminate,
}

impl Lifecycle {
    pub(crate) fn named(name: &str) -> Option<Lifecycle> {
        match name {
            "running" => Some(Lifecycle::Running),
            "quiet" => Some(Lifecycle::Quiet),
            "terminate" => Some(Lifecycle::Terminate),
            _ => None,
        }
    }
}

pub(crate) struct Session {
    pub(crate) registry: Arc<Registry>,
    pub(crate) out: Outbox,
    pub(crate) bell: Arc<Bell>,
    pub(crate) pool: Pool,
    /// A test of a handler: what ojs-init would be told is nothing for the log.
    pub(crate) is_rehearsal: bool,
    /// Whoever gives an answer wakes the thread that runs the session.
    is_ending: AtomicBool,
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) held: HashMap<String, Job>,
    pub(crate) answers: Answers,
    pub(crate) is_greeted: bool,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) deadline: Option<Instant>,
    pub(crate) max_frame: usize,
    pub(crate) is_stopping: bool,
    pub(crate) fatal: Option<RunError>,
    /// What the backend does not offer is said once.
    pub(crate) said: HashSet<String>,
    is_notified: bool,
    abandoned: usize,
    settled_at: Option<Instant>,
    cut_off_at: Option<Instant>,
    flush_since: Option<Instant>,
    closed_at: Option<Instant>,
}

/// What is to be done now.
enum Next {
    End(Result<(), RunError>),
    /// Wait for news, at most so long.
    Wait(Option<Duration>),
}

impl Session {
    pub(crate) fn new(registry: Arc<Registry>, socket: UnixStream, is_rehearsal: bool) -> Arc<Session> {
        let bell = Arc::new(Bell::default());
        let state = State {
            held: HashMap::new(),
            answers: Answers::default(),
            is_greeted: false,
            lifecycle: Lifecycle::Running,
            deadline: None,
            max_frame: DEFAULT_MAX_FRAME,
            is_stopping: false,
            fatal: None,
            said: HashSet::new(),
            is_notified: false,
            abandoned: 0,
            settled_at: None,
            cut_off_at: None,
            flush_since: None,
            closed_at: None,
        };
        Arc::new(Session {
            registry,
            out: Outbox::new(socket, Arc::clone(&bell), is_rehearsal),
            bell,
            pool: Pool::new(is_rehearsal),
            is_rehearsal,
            is_ending: AtomicBool::new(false),
            state: Mutex::new(state),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the connection be read and written. Both go on when the session is over, until the process ends: ojs-init judges a
    /// process by its connection, so it is not closed before.
    pub(crate) fn start(self: &Arc<Session>, socket: UnixStream) -> std::io::Result<()> {
        let writer = Arc::clone(self);
        thread::Builder::new().name("ojs-writer".to_owned()).spawn(move || writer.out.run())?;
        let reader = Arc::clone(self);
        thread::Builder::new().name("ojs-reader".to_owned()).spawn(move || {
            // White space around the frame counts as well here, so there is some to spare.
            let limit = || reader.max_frame() + 4096;
            lines::read(socket, limit, |line| match line {
                Line::Whole(line) => reader.on_line(line),
                Line::TooLong(size) => {
                    let message = format!("a frame of {size} bytes from ojs-init is ignored: max_frame is less");
                    logging::say(Level::Warn, None, &message, None);
                }
            });
            reader.on_closed();
        })?;
        Ok(())
    }

    /// Waits until there is nothing left to do. It never waits for a handler longer than it may.
    pub(crate) fn serve(&self) -> Result<(), RunError> {
        loop {
            match self.next(Instant::now()) {
                Next::End(result) => return result,
                Next::Wait(patience) => self.bell.wait(patience),
            }
        }
    }

    fn next(&self, now: Instant) -> Next {
        let mut state = self.lock();
        if let Some(fatal) = &state.fatal {
            return Next::End(Err(fatal.clone()));
        }
        if state.closed_at.is_none() && self.out.failure().is_some() {
            // What the other end wrote before it closed is still to be read.
            state.closed_at = Some(now + BROKEN_GRACE);
        }
        if let Some(closed_at) = state.closed_at {
            return self.next_when_closed(&mut state, closed_at, now);
        }
        if let Some(cut_off_at) = state.cut_off_at.filter(|_| !state.held.is_empty()) {
            if cut_off_at > now {
                return Next::Wait(Some(cut_off_at - now));
            }
            let message = format!("{} handlers have not ended in time after a signal", state.held.len());
            logging::say(Level::Error, None, &message, None);
            return Next::End(Err(RunError::CutOff));
        }
        let is_ending = state.is_stopping || state.lifecycle == Lifecycle::Terminate;
        if !is_ending || !state.held.is_empty() {
            state.flush_since = None;
            return Next::Wait(None);
        }
        if !self.out.is_flushed() {
            let until = *state.flush_since.get_or_insert(now) + WRITE_TIMEOUT;
            return if until > now { Next::Wait(Some(until - now)) } else { Next::End(Err(RunError::Stalled)) };
        }
        state.flush_since = None;
        match state.settled_at {
            Some(settled_at) if state.lifecycle != Lifecycle::Terminate && settled_at > now => {
                Next::Wait(Some(settled_at - now))
            }
            _ => Next::End(Ok(())),
        }
    }

    fn next_when_closed(&self, state: &mut State, closed_at: Instant, now: Instant) -> Next {
        if closed_at > now {
            return Next::Wait(Some(closed_at - now));
        }
        if !state.is_notified {
            state.is_notified = true;
            state.abandoned = state.held.len();
            if state.abandoned > 0 {
                let message = format!("ojs-init has closed the connection: {} jobs are abandoned", state.abandoned);
                logging::say(Level::Error, None, &message, None);
            }
            for job in state.held.values() {
                self.cancel(job, "lost");
            }
        }
        let is_ending = state.is_stopping || state.lifecycle == Lifecycle::Terminate;
        if state.abandoned == 0 && is_ending {
            return Next::End(Ok(()));
        }
        if state.held.is_empty() {
            return Next::End(Err(RunError::ConnectionLost));
        }
        let until = closed_at + CLOSED_GRACE;
        if until > now {
            return Next::Wait(Some(until - now));
        }
        let message = format!("{} handlers have not ended within 1 s of that", state.held.len());
        logging::say(Level::Error, None, &message, None);
        Next::End(Err(RunError::ConnectionLost))
    }

    fn on_closed(&self) {
        self.lock().closed_at = Some(Instant::now());
        self.is_ending.store(true, Ordering::SeqCst);
        self.out.close();
        self.bell.ring();
    }

    /// ojs-init sends SIGTERM to those that are idle, or whose time is over.
    pub(crate) fn on_signal(&self) {
        let mut state = self.lock();
        if let Some(grace) = self.registry.options.stop_grace {
            // One that no clock can hold is for ever.
            state.cut_off_at = state.cut_off_at.or_else(|| Instant::now().checked_add(grace));
        }
        for job in state.held.values() {
            self.cancel(job, "shutdown");
        }
        drop(state);
        self.stop();
        // Also where it was stopped before: whoever waits for handlers waits no longer than that now.
        self.bell.ring();
    }

    /// Says that we take no more jobs; those that are held are finished.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        if state.is_stopping {
            return;
        }
        state.is_stopping = true;
        self.set_ending(&state);
        if state.is_greeted && state.lifecycle != Lifecycle::Terminate {
            let _closed_anyway = self.out.send(self.registry.ready(0), false);
            state.settled_at = Some(Instant::now() + SETTLE_TIME);
        }
    }

    /// The worker is being shut down: those that wait for that are told.
    pub(crate) fn set_ending(&self, state: &State) {
        self.is_ending.store(true, Ordering::SeqCst);
        for job in state.held.values() {
            job.set_stopping();
        }
        self.bell.ring();
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }

    pub(crate) fn cancel(&self, job: &Job, reason: &str) {
        if job.set_cancelled(reason) && !self.is_rehearsal {
            job.log(Level::Info, &format!("the job is cancelled: {reason}"));
        }
    }

    pub(crate) fn remaining(&self) -> Option<Duration> {
        self.lock().deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    pub(crate) fn max_frame(&self) -> usize {
        self.lock().max_frame
    }

    pub(crate) fn set_fatal(&self, state: &mut State, error: RunError) {
        state.fatal.get_or_insert(error);
        self.bell.ring();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::mpsc;

    use super::*;
    use crate::error::Result;
    use crate::output::Output;
    use crate::worker::Options;

    /// A session that holds a job whose handler does not end.
    fn hanging(stop_grace: Duration) -> (Arc<Session>, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (begins, has_begun) = mpsc::sync_channel(1);
        let handler = move |_: &Job| -> Result<Output> {
            begins.send(()).unwrap();
            loop {
                thread::park();
            }
        };
        let options = Options { stop_grace: Some(stop_grace), ..Options::default() };
        let handlers = BTreeMap::from([("t".to_owned(), Arc::new(handler) as crate::registry::Handler)]);
        let session = Session::new(Arc::new(Registry { options, handlers, middleware: Vec::new() }), ours, false);
        session.on_line(br#"{"type":"hello","protocol":1,"concurrency":1}"#);
        session.on_line(br#"{"type":"job","job":{"id":"j","type":"t"}}"#);
        has_begun.recv().unwrap();
        (session, theirs)
    }

    #[test]
    fn a_signal_after_a_stop_cuts_off_a_handler_that_hangs() {
        let (session, _theirs) = hanging(Duration::ZERO);
        let (ends, end) = mpsc::channel();
        let served = Arc::clone(&session);
        thread::spawn(move || ends.send(served.serve()));
        session.stop();
        // It waits for the handler.
        while session.bell.has_rung() {
            thread::sleep(Duration::from_millis(1));
        }
        session.on_signal();
        let end = end.recv_timeout(Duration::from_secs(20)).expect("the signal is not noticed");
        assert!(matches!(end, Err(RunError::CutOff)), "{end:?}");
    }

    #[test]
    fn a_grace_beyond_all_time_is_for_ever() {
        let (session, _theirs) = hanging(Duration::MAX);
        session.on_signal();
        assert_eq!(session.lock().cut_off_at, None);
        assert!(session.lock().held["j"].is_cancelled());
    }
}
