//! One connection: the jobs that it holds, and when it is over.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use serde_json::value::RawValue;
use tracing::{debug, error, info, warn};

use crate::answer;
use crate::error::{Release, RunError};
use crate::frame::{self, Envelope, Failure, Frame, PROTOCOL};
use crate::job::Job;
use crate::link::{Link, lock, read_lines, spawn};
use crate::log::{OneLine, guarded};
use crate::panics;
use crate::pool::Pool;
use crate::registry::Registry;

/// Time for handlers to clean up after ojs-init closed the connection.
const CLOSED_GRACE: Duration = Duration::from_millis(250);
/// Different messages about what the backend does not offer, each of which is logged once.
const MOST_NOT_OFFERED: usize = 100;

pub(crate) struct Session {
    registry: Arc<Registry>,
    link: Arc<Link>,
    pool: Arc<Pool<Task>>,
    state: Mutex<State>,
    changed: Condvar,
}

type Task = (Arc<Session>, Job);

#[derive(Default)]
struct State {
    held: HashMap<String, Job>,
    is_greeted: bool,
    is_terminating: bool,
    has_signal: bool,
    stops_at: Option<Instant>,
    /// When the connection closed, and how many jobs were held then.
    closed: Option<(Instant, usize)>,
    fatal: Option<RunError>,
    not_offered: Vec<String>,
}

impl State {
    fn is_ending(&self) -> bool {
        self.is_terminating || self.has_signal || self.closed.is_some()
    }

    fn set_stopping(&self) {
        for job in self.held.values() {
            job.set_stopping(self.stops_at);
        }
    }
}

impl Session {
    /// Begins to read. The connection stays open until the process ends, because ojs-init judges
    /// the process by it.
    pub(crate) fn start(registry: Arc<Registry>, socket: UnixStream) -> io::Result<Arc<Session>> {
        let session = Arc::new(Session {
            registry,
            link: Link::new(socket.try_clone()?)?,
            pool: Pool::new(|(session, job): Task| session.process(&job)),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let reader = Arc::clone(&session);
        spawn("ojs-reader", move || {
            // A panic, which only the program's subscriber can cause, must not end the reader.
            read_lines(socket, |line| guarded(|| reader.on_line(line)));
            reader.on_closed();
        })?;
        Ok(session)
    }

    /// Waits until nothing is left to do.
    pub(crate) fn serve(&self) -> Result<(), RunError> {
        let mut state = lock(&self.state);
        loop {
            if let Some(fatal) = state.fatal.take() {
                return Err(fatal);
            }
            if let Some((at, held)) = state.closed {
                let left = CLOSED_GRACE.saturating_sub(at.elapsed());
                if state.held.is_empty() || left.is_zero() {
                    return if held == 0 { Ok(()) } else { Err(RunError::ConnectionLost(held)) };
                }
                state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            } else if state.is_ending() && state.held.is_empty() {
                drop(state);
                // Each answer was queued before its job was forgotten. A broken connection has
                // nobody to answer.
                let _ = self.link.flush();
                return Ok(());
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// SIGTERM: take no more jobs, finish those that are held. Only a `cancel` ends a handler.
    pub(crate) fn on_signal(&self) {
        let mut state = lock(&self.state);
        if !state.has_signal {
            state.has_signal = true;
            if state.is_greeted && !state.is_terminating {
                self.link.push_from_reader(self.registry.ready(0));
            }
            state.set_stopping();
            self.changed.notify_all();
        }
    }

    fn on_closed(&self) {
        let mut state = lock(&self.state);
        let held: Vec<Job> = state.held.values().cloned().collect();
        state.closed = Some((Instant::now(), held.len()));
        self.changed.notify_all();
        drop(state);
        self.pool.close();
        for job in held {
            job.set_cancelled("lost");
        }
    }

    fn on_line(self: &Arc<Session>, line: &[u8]) {
        // The error is logged without its text, which quotes the frame.
        let Ok(frame) = serde_json::from_slice::<Frame<'_>>(line) else {
            warn!("a line from ojs-init is ignored: it cannot be read as a frame");
            return;
        };
        match frame.kind.as_str() {
            "job" => self.on_job(&frame),
            "ping" => self.link.push_from_reader(frame::pong(frame.id.unwrap_or_default())),
            "cancel" => self.on_cancel(&frame),
            "lifecycle" => self.on_lifecycle(&frame),
            "hello" => self.on_hello(&frame),
            "error" => self.on_error(&frame),
            "ok" => {}
            other => debug!("a frame of the unknown type {} is ignored", OneLine(other)),
        }
    }

    fn on_hello(&self, frame: &Frame<'_>) {
        let mut state = lock(&self.state);
        if frame.protocol.as_f64() != Some(1.0) {
            let text = format!("ojs-init speaks version {} of the protocol, this library {PROTOCOL}", frame.protocol);
            self.fail(&mut state, RunError::Protocol(text));
            return;
        }
        let offered = frame.concurrency.unwrap_or(1).max(1);
        let concurrency = self.registry.concurrency.map_or(offered, |wanted| wanted.min(offered));
        self.pool.set_size(concurrency);
        state.is_greeted = true;
        state.is_terminating |= frame.state.as_deref() == Some("terminate");
        self.link.push_from_reader(self.registry.ready(if state.is_ending() { 0 } else { concurrency }));
        self.changed.notify_all();
    }

    fn fail(&self, state: &mut State, error: RunError) {
        state.fatal = Some(error);
        self.changed.notify_all();
    }

    fn on_lifecycle(&self, frame: &Frame<'_>) {
        let name = frame.state.as_deref().unwrap_or_default();
        let mut state = lock(&self.state);
        if name == "terminate" && !state.is_terminating {
            state.is_terminating = true;
            let remaining = frame.remaining_ms.map(Duration::from_millis);
            state.stops_at = remaining.and_then(|remaining| Instant::now().checked_add(remaining));
            state.set_stopping();
            self.changed.notify_all();
        }
        drop(state);
        info!("ojs-init: {} ({})", OneLine(name), OneLine(frame.reason.as_deref().unwrap_or_default()));
    }

    fn on_job(self: &Arc<Session>, frame: &Frame<'_>) {
        let Some(raw) = frame.job else { return };
        let envelope: Envelope<'_> = match serde_json::from_str(raw.get()) {
            Ok(envelope) => envelope,
            Err(_) => return self.refuse_unreadable(raw),
        };
        let kind = match envelope.kind.as_str() {
            Some(kind) if self.registry.handler(kind).is_some() => kind,
            kind => {
                let text = kind.map_or("a job without a type".to_owned(), |kind| format!("no handler for {kind}"));
                return self.refuse(&envelope.id, "handler_not_found", &text);
            }
        };
        let times = Arc::clone(&self.registry.step_times);
        let job = Job::new(&envelope, kind, raw, frame.checkpoint, Arc::clone(&self.link), times);
        let mut state = lock(&self.state);
        if state.has_signal || state.is_terminating {
            job.set_stopping(state.stops_at);
        }
        state.held.insert(envelope.id, job.clone());
        drop(state);
        if let Err(refused) = self.pool.submit((Arc::clone(self), job.clone())) {
            let result = Err(Release::new(format!("the system has no thread: {refused}")).into());
            self.answer(&job, answer::to(&job, result, &self.registry));
        }
    }

    fn refuse_unreadable(&self, raw: &RawValue) {
        let id =
            serde_json::from_str::<Value>(raw.get()).ok().and_then(|job| job["id"].as_str().map(ToOwned::to_owned));
        match id {
            Some(id) => self.refuse(&id, "handler_error", "the envelope of the job cannot be read"),
            None => warn!("a job from ojs-init is ignored: its envelope cannot be read"),
        }
    }

    /// Fails a job that no handler gets.
    fn refuse(&self, id: &str, code: &str, message: &str) {
        let failure = Failure { message, code, kind: "", retryable: true, details: None, backtrace: &[] };
        self.link.push_from_reader(frame::fail(id, &failure));
        error!(job_id = %OneLine(id), "a job is refused: {}", OneLine(message));
    }

    fn on_cancel(&self, frame: &Frame<'_>) {
        let held = frame.job_id.as_ref().and_then(|id| lock(&self.state).held.get(id).cloned());
        let reason = frame.reason.as_deref().unwrap_or("cancelled");
        if let Some(job) = held.filter(|job| job.set_cancelled(reason)) {
            let _entered = job.span().enter();
            info!("the job is cancelled: {}", OneLine(reason));
        }
    }

    fn on_error(&self, frame: &Frame<'_>) {
        let [code, message, id] =
            [&frame.code, &frame.message, &frame.job_id].map(|text| text.as_deref().unwrap_or_default());
        let mut state = lock(&self.state);
        if code == "unsupported_protocol" {
            self.fail(
                &mut state,
                RunError::Protocol(format!("ojs-init does not speak protocol {PROTOCOL}: {message}")),
            );
        }
        if code == "not_offered" {
            if state.not_offered.len() >= MOST_NOT_OFFERED || state.not_offered.iter().any(|known| known == message) {
                return;
            }
            state.not_offered.push(message.to_owned());
        }
        drop(state);
        let (code, message, job_id) = (OneLine(code), OneLine(message), OneLine(id));
        match frame.code.as_deref() {
            // The backend has other plans with the job.
            Some("lost" | "not_held") => debug!(%job_id, "ojs-init: {code}: {message}"),
            _ => warn!(%job_id, "ojs-init: {code}: {message}"),
        }
    }

    /// Runs the handler and answers, whatever the handler does.
    fn process(&self, job: &Job) {
        let line = job.span().in_scope(|| {
            let result = panics::catch(|| job.check().map_err(Into::into).and_then(|()| self.registry.call(job)));
            answer::to(job, result, &self.registry)
        });
        job.drop_kept();
        self.answer(job, line);
    }

    /// Forgets the job before its answer is written, because the same id may come again right after
    /// the answer.
    fn answer(&self, job: &Job, line: Vec<u8>) {
        job.set_answered();
        let mut state = lock(&self.state);
        state.held.remove(job.id());
        self.link.push(line);
        if state.is_ending() && state.held.is_empty() {
            self.changed.notify_all();
        }
        drop(state);
        // A broken connection has nobody to answer.
        let _ = self.link.flush();
    }
}
