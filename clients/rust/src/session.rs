//! One connection: what it holds, and when it is over. `Worker::run` and `Worker::perform` both use
//! it.

use std::collections::{HashMap, HashSet};
use std::ops::{Deref, DerefMut};
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
use crate::json;
use crate::lines::{self, Line};
use crate::logging;
use crate::outbox::{Outbox, WRITE_TIMEOUT};
use crate::outgoing::frame;
use crate::pool::Pool;
use crate::registry::Registry;

/// What handlers get to end when ojs-init has closed the connection.
const CLOSED_GRACE: Duration = Duration::from_secs(1);
/// How long ojs-init has to say that no job is on its way, after we said on our own that we take no
/// more.
const SETTLE_TIME: Duration = Duration::from_secs(2);
/// The same after a signal, when there is less time.
const SIGNAL_SETTLE_TIME: Duration = Duration::from_millis(250);
/// A job that nobody has: what ojs-init says about it comes behind the last job that it has sent
/// us.
pub(crate) const NOBODYS_JOB: &str = "ojs-worker-nobody";
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
    /// What is logged once the lock is free: the program's logger may ask a job, or stop the
    /// worker.
    lines: Vec<LogLine>,
    is_notified: bool,
    abandoned: usize,
    settled_at: Option<Instant>,
    cut_off_at: Option<Instant>,
    flush_since: Option<Instant>,
    closed_at: Option<Instant>,
}

type LogLine = (Level, Option<Job>, String);

impl State {
    /// Logs about a job, or about none, as soon as the lock is free.
    pub(crate) fn say(&mut self, level: Level, job: Option<&Job>, message: impl Into<String>) {
        self.lines.push((level, job.cloned(), message.into()));
    }

    /// No job is on its way any more.
    pub(crate) fn settle(&mut self) {
        self.settled_at = self.settled_at.map(|_| Instant::now());
    }

    /// ojs-init has read that we take no more jobs, or has had so long for that.
    fn settle_within(&mut self, time: Duration) {
        let until = Instant::now() + time;
        self.settled_at = self.settled_at.map(|at| at.min(until));
    }
}

/// The state while nobody else has it. What is to be logged is logged when it is free again: fields
/// are dropped in their order.
pub(crate) struct Locked<'a> {
    state: MutexGuard<'a, State>,
    later: Later,
}

struct Later(Vec<LogLine>);

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.later.0 = std::mem::take(&mut self.state.lines);
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        for (level, job, message) in self.0.drain(..) {
            logging::say(level, job.as_ref(), &message, None);
        }
    }
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
            lines: Vec::new(),
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

    pub(crate) fn lock(&self) -> Locked<'_> {
        Locked { state: self.state.lock().unwrap_or_else(PoisonError::into_inner), later: Later(Vec::new()) }
    }

    /// Lets the connection be read and written. Both go on when the session is over, until the
    /// process ends: ojs-init judges a process by its connection, so it is not closed before.
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
            state.say(Level::Error, None, message);
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
                state.say(Level::Error, None, message);
            }
            self.cancel_all(state, "lost");
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
        state.say(Level::Error, None, message);
        Next::End(Err(RunError::ConnectionLost))
    }

    fn on_closed(&self) {
        self.lock().closed_at = Some(Instant::now());
        self.is_ending.store(true, Ordering::SeqCst);
        self.out.close();
        self.bell.ring();
    }

    /// ojs-init sends SIGTERM to those that are idle, and to those that it gives up on.
    pub(crate) fn on_signal(&self) {
        // First of all: no job shall come behind the answer of one that is cancelled.
        self.end(SIGNAL_SETTLE_TIME);
        let mut state = self.lock();
        if let Some(grace) = self.registry.options.stop_grace {
            // One that no clock can hold is for ever.
            state.cut_off_at = state.cut_off_at.or_else(|| Instant::now().checked_add(grace));
        }
        self.cancel_all(&mut state, "shutdown");
        drop(state);
        // Also where it was stopped before: whoever waits for handlers waits no longer than that
        // now.
        self.bell.ring();
    }

    /// Says that we take no more jobs; those that are held are finished.
    pub(crate) fn stop(&self) {
        self.end(SETTLE_TIME);
    }

    fn end(&self, settle_time: Duration) {
        let mut state = self.lock();
        if state.is_stopping {
            state.settle_within(settle_time);
            return;
        }
        state.is_stopping = true;
        self.set_ending(&state);
        if state.is_greeted && state.lifecycle != Lifecycle::Terminate {
            let mut frames = self.registry.ready(0);
            if settle_time > SIGNAL_SETTLE_TIME {
                frames.extend(frame("heartbeat", &json::quoted(NOBODYS_JOB), None));
            }
            let _closed_anyway = self.out.send(frames, false);
            state.settled_at = Some(Instant::now() + settle_time);
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

    pub(crate) fn cancel(&self, state: &mut State, job: &Job, reason: &str) {
        if job.set_cancelled(reason) && !self.is_rehearsal {
            state.say(Level::Info, Some(job), format!("the job is cancelled: {reason}"));
        }
    }

    fn cancel_all(&self, state: &mut State, reason: &str) {
        let held: Vec<Job> = state.held.values().cloned().collect();
        for job in held {
            self.cancel(state, &job, reason);
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
    use std::io::{BufRead, BufReader};
    use std::sync::mpsc;

    use super::*;
    use crate::error::Result;
    use crate::output::Output;
    use crate::worker::Options;

    fn session(handler: crate::registry::Handler, options: Options, ours: UnixStream) -> Arc<Session> {
        let handlers = BTreeMap::from([("t".to_owned(), handler)]);
        let session = Session::new(Arc::new(Registry { options, handlers, middleware: Vec::new() }), ours, false);
        session.on_line(br#"{"type":"hello","protocol":1,"concurrency":1}"#);
        session
    }

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
        let session = session(Arc::new(handler), options, ours);
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
    fn at_a_signal_no_job_is_answered_before_it_is_said_that_none_is_taken() {
        for _ in 0..100 {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let handler = |job: &Job| Ok(job.sleep(Duration::from_secs(20)).map(|()| Output::none())?);
            let session = session(Arc::new(handler), Options::default(), ours);
            session.on_line(br#"{"type":"job","job":{"id":"j","type":"t"}}"#);
            while session.pool.has_waiting() {
                thread::yield_now();
            }
            session.on_signal();
            let mut lines = BufReader::new(theirs).lines().map_while(std::result::Result::ok);
            let kinds: Vec<String> = lines.by_ref().take(3).collect();
            let is_so = kinds[1].contains("\"concurrency\":0") && kinds[2].contains("release");
            assert!(is_so, "{kinds:?}");
        }
    }

    #[test]
    fn after_a_stop_a_job_may_come_until_ojs_init_says_that_it_has_read_that() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let session = session(Arc::new(|_: &Job| Ok(Output::none())), Options::default(), ours);
        session.stop();
        let served = Arc::clone(&session);
        let end = thread::spawn(move || served.serve());
        thread::sleep(SIGNAL_SETTLE_TIME + Duration::from_millis(150));
        assert!(!end.is_finished(), "a job may be on its way");
        session.on_line(br#"{"type":"job","job":{"id":"j","type":"t"}}"#);
        session.on_line(br#"{"type":"error","code":"not_held","message":"no","job_id":"ojs-worker-nobody"}"#);
        end.join().unwrap().unwrap();
        let said: Vec<String> = BufReader::new(theirs).lines().take(4).map_while(std::result::Result::ok).collect();
        assert!(said[1].contains("\"concurrency\":0") && said[2].contains("ojs-worker-nobody"), "{said:?}");
        assert!(said[3].contains("release") && said[3].contains("\"j\""), "{said:?}");
    }

    #[test]
    fn a_signal_waits_no_longer_for_a_job_on_its_way_than_before_also_after_a_stop() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let session = session(Arc::new(|_: &Job| Ok(Output::none())), Options::default(), ours);
        session.stop();
        session.on_signal();
        let until = session.lock().settled_at.unwrap();
        assert!(until <= Instant::now() + SIGNAL_SETTLE_TIME);
    }

    #[test]
    fn a_grace_beyond_all_time_is_for_ever() {
        let (session, _theirs) = hanging(Duration::MAX);
        session.on_signal();
        assert_eq!(session.lock().cut_off_at, None);
        assert!(session.lock().held["j"].is_cancelled());
    }
}
