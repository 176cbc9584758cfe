//! One connection: the jobs that it holds, and when it is over.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, mem};

use serde_json::value::RawValue;
use tracing::{debug, error, info, warn};

use crate::frame::{self, Envelope, Frame};
use crate::link::{Link, lock, read_lines, spawn};
use crate::log::{OneLine, guarded};
use crate::{answer, error::Error, job::Job, registry::Registry};

/// The id of no job. ojs-init answers a heartbeat for it once it has read what came before.
const NO_JOB: &str = "ojs-worker-stop";

/// Time for handlers to clean up after ojs-init closed the connection.
const CLOSED_GRACE: Duration = Duration::from_millis(250);

/// Most lines of the reader that wait for a log.
const MOST_LINES: usize = 100;

type Line = Box<dyn FnOnce() + Send>;

pub(crate) struct Session {
    registry: Arc<Registry>,
    link: Arc<Link>,
    /// What the reader logs. A thread for that does so, because nobody may read the log.
    lines: SyncSender<Line>,
    state: Mutex<State>,
    changed: Condvar,
    has_task: Condvar,
}

#[derive(Default)]
struct State {
    held: HashMap<String, Job>,
    /// Held jobs that no thread has taken yet.
    waiting: VecDeque<Job>,
    threads: usize,
    idle_threads: usize,
    is_waking: bool,
    /// What this connection said in `ready`; 0 before.
    concurrency: usize,
    /// After SIGTERM: ojs-init is asked for no more jobs, and some may be on their way.
    is_draining: bool,
    /// No more jobs come: after `terminate`, or after SIGTERM.
    is_ending: bool,
    stops_at: Option<Instant>,
    /// When the connection closed, and how many jobs were held then.
    closed: Option<(Instant, usize)>,
    /// Why the worker cannot go on: ojs-init speaks another protocol, for example.
    refusal: Option<String>,
    /// What the backend does not offer, which is logged once.
    not_offered: HashSet<String>,
}

impl Session {
    /// Begins to read. The connection stays open until the process ends, because ojs-init judges
    /// the process by it.
    pub(crate) fn start(registry: Arc<Registry>, socket: UnixStream) -> io::Result<Arc<Session>> {
        let link = Link::new(socket.try_clone()?)?;
        let (state, changed, has_task) = (Mutex::default(), Condvar::new(), Condvar::new());
        let (lines, logged) = mpsc::sync_channel::<Line>(MOST_LINES);
        spawn("ojs-log", move || logged.into_iter().for_each(guarded))?;
        let session = Arc::new(Session { registry, link, lines, state, changed, has_task });
        let reader = Arc::clone(&session);
        spawn("ojs-reader", move || {
            // A panic, which only the program's subscriber can cause, must not end the reader.
            read_lines(socket, |line| guarded(|| reader.on_line(line)));
            reader.on_closed();
        })?;
        Ok(session)
    }

    /// Waits until nothing is left to do.
    ///
    /// # Errors
    /// `ConnectionAborted` if the connection closed while jobs were held.
    pub(crate) fn serve(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        loop {
            if let Some(refusal) = state.refusal.take() {
                return Err(io::Error::other(refusal));
            }
            let mut patience = Duration::MAX;
            if let Some((at, held)) = state.closed {
                patience = CLOSED_GRACE.saturating_sub(at.elapsed());
                if state.held.is_empty() || patience.is_zero() {
                    let text = format!("ojs-init closed the connection while {held} jobs were held");
                    let lost = io::Error::new(io::ErrorKind::ConnectionAborted, text);
                    return if held == 0 { Ok(()) } else { Err(lost) };
                }
            } else if state.is_ending && state.held.is_empty() {
                drop(state);
                // Each answer was queued before its job was forgotten. If the connection is broken,
                // nobody is there to read it.
                let _ = self.link.flush();
                self.flush_log();
                return Ok(());
            }
            state = self.changed.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// SIGTERM: take no more jobs, finish those that are held. Only a `cancel` ends a handler.
    pub(crate) fn on_signal(&self) {
        let mut state = lock(&self.state);
        if mem::take(&mut state.concurrency) > 0 {
            state.is_draining = true;
            self.link.send_later(self.registry.ready(0));
            self.link.send_later(frame::about("heartbeat", NO_JOB, &[]));
        }
        state.is_ending |= !state.is_draining;
        self.changed.notify_all();
    }

    /// Logs a line soon, unless too many wait.
    fn log_later(&self, line: impl FnOnce() + Send + 'static) {
        let _ = self.lines.try_send(Box::new(line));
    }

    /// Waits for the lines that are left, but not for ever.
    fn flush_log(&self) {
        let (done, is_done) = mpsc::channel();
        self.log_later(move || _ = done.send(()));
        let _ = is_done.recv_timeout(CLOSED_GRACE);
    }

    fn on_closed(&self) {
        let mut state = lock(&self.state);
        state.closed = Some((Instant::now(), state.held.len()));
        state.held.values().for_each(|job| _ = job.set_cancelled("lost"));
        self.has_task.notify_all();
        self.changed.notify_all();
    }

    fn on_line(self: &Arc<Session>, line: &[u8]) {
        // The error is logged without its text, which quotes the frame.
        let Ok(frame) = serde_json::from_slice::<Frame<'_>>(line) else {
            return self.log_later(|| warn!("a line from ojs-init is ignored: it cannot be read as a frame"));
        };
        match frame.kind.as_str() {
            "job" => frame.job.into_iter().for_each(|raw| self.on_job(raw, &frame)),
            "ping" => self.link.send_later(format!("{{\"type\":\"pong\",\"id\":{}}}\n", frame.id).into_bytes()),
            "cancel" => self.on_cancel(&frame),
            "lifecycle" => self.on_lifecycle(&frame),
            "hello" => self.on_hello(&frame),
            "error" => self.on_error(&frame),
            other => {
                let other = other.to_owned();
                self.log_later(move || debug!("a frame of the type {} is ignored", OneLine(&other)));
            }
        }
    }

    fn on_hello(&self, frame: &Frame<'_>) {
        let mut state = lock(&self.state);
        if frame.protocol.as_f64() == Some(1.0) {
            self.link.max_frame.store(frame.longest.unwrap_or(usize::MAX), Ordering::Relaxed);
            state.is_ending |= frame.state == "terminate";
            if !state.is_ending {
                let concurrency = self.registry.concurrency.unwrap_or(usize::MAX).min(frame.concurrency.max(1));
                self.become_ready(&mut state, concurrency, frame.longest.unwrap_or(usize::MAX));
            }
        } else {
            state.refusal = Some(format!("ojs-init speaks protocol {}, this library speaks 1", frame.protocol));
        }
        self.changed.notify_all();
    }

    fn become_ready(&self, state: &mut State, concurrency: usize, longest: usize) {
        let ready = self.registry.ready(concurrency);
        let size = ready.len().saturating_sub(1);
        if size > longest {
            let most = format!("ojs-init takes {longest} (worker.max_frame)");
            state.refusal = Some(format!("`ready` with its job types has {size} bytes, and {most}"));
        } else {
            state.concurrency = concurrency;
            self.link.send_later(ready);
        }
    }

    fn on_lifecycle(&self, frame: &Frame<'_>) {
        let mut state = lock(&self.state);
        if frame.state == "terminate" {
            state.is_ending = true;
            state.stops_at = Instant::now().checked_add(Duration::from_millis(frame.remaining_ms));
            state.held.values().for_each(|job| job.set_stopping(state.stops_at));
            self.changed.notify_all();
        }
        drop(state);
        let (state, reason) = (frame.state.clone(), frame.reason.clone());
        self.log_later(move || info!("ojs-init: {} ({})", OneLine(&state), OneLine(&reason)));
    }

    fn on_job(self: &Arc<Session>, raw: &RawValue, frame: &Frame<'_>) {
        let Ok(envelope) = Envelope::read(raw) else {
            return self.refuse(&frame.job_id, "invalid_job", "the job cannot be read");
        };
        if self.registry.handler(&envelope.kind).is_none() {
            return self.refuse(&envelope.id, "handler_not_found", &format!("no handler for `{}`", envelope.kind));
        }
        let job = Job::new(envelope, raw, frame, Arc::clone(&self.link));
        let mut state = lock(&self.state);
        if state.stops_at.is_some() {
            job.set_stopping(state.stops_at);
        }
        state.held.insert(job.id().to_owned(), job.clone());
        state.waiting.push_back(job);
        // More than that only for a job that was on its way when `ready` said less.
        if state.idle_threads < state.waiting.len() && state.threads < state.concurrency.max(state.held.len()) {
            let session = Arc::clone(self);
            // If the system refuses a thread, the job waits for one that there is.
            state.threads += usize::from(spawn("ojs-handler", move || session.run_handlers()).is_ok());
        } else {
            self.wake_one(state);
        }
    }

    /// Fails a job that no handler gets.
    fn refuse(&self, id: &str, code: &str, message: &str) {
        let (is_retryable, text) = (code == "handler_not_found", serde_json::json!(message));
        let error = format!("{{\"retryable\":{is_retryable},\"code\":\"{code}\",\"message\":{text}}}");
        if !id.is_empty() {
            self.link.send_later(frame::about("fail", id, &[("error", &error)]));
        }
        let (id, message) = (id.to_owned(), message.to_owned());
        self.log_later(move || error!(job_id = %OneLine(&id), "a job is refused: {}", OneLine(&message)));
    }

    fn on_cancel(&self, frame: &Frame<'_>) {
        let job = lock(&self.state).held.get(&frame.job_id).cloned();
        if let Some(job) = job.filter(|job| job.set_cancelled(&frame.reason)) {
            let reason = frame.reason.clone();
            self.log_later(move || job.span().in_scope(|| info!("the job is cancelled: {}", OneLine(&reason))));
        }
    }

    fn on_error(&self, frame: &Frame<'_>) {
        let [id, code, message] = [&frame.job_id, &frame.code, &frame.message].map(|text| OneLine(text).to_string());
        let mut state = lock(&self.state);
        match frame.code.as_str() {
            _ if frame.job_id == NO_JOB => {
                state.is_ending = true;
                return self.changed.notify_all();
            }
            "unsupported_protocol" => {
                state.refusal = Some(format!("ojs-init does not speak protocol 1: {message}"));
                self.changed.notify_all();
            }
            "not_offered" if !state.not_offered.insert(frame.message.clone()) => return,
            // The backend has other plans with the job, and nothing is left to do.
            "lost" | "not_held" => return self.log_later(move || debug!(job_id = %id, "ojs-init: {code}: {message}")),
            _ => {}
        }
        self.log_later(move || warn!(job_id = %id, "ojs-init: {code}: {message}"));
    }

    /// Waking a thread costs more than a short handler does. Therefore one idle thread is woken at a
    /// time, and it wakes the next one if another job waits. A long handler holds up nobody, and
    /// short ones leave the other threads asleep.
    fn wake_one(&self, mut state: MutexGuard<'_, State>) {
        if !state.waiting.is_empty() && state.idle_threads > 0 && !state.is_waking {
            state.is_waking = true;
            // The woken thread would have to wait for the lock.
            drop(state);
            self.has_task.notify_one();
        }
    }

    /// The life of a handler's thread.
    fn run_handlers(&self) {
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.waiting.pop_front() {
                self.wake_one(state);
                // The end of its span may be an event of the program's subscriber.
                guarded(move || self.process(&{ job }));
                state = lock(&self.state);
            } else if state.closed.is_some() {
                return;
            } else {
                state.idle_threads += 1;
                state = self.has_task.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle_threads -= 1;
                state.is_waking = false;
            }
        }
    }

    /// Runs the handler and answers, whatever the handler does.
    fn process(&self, job: &Job) {
        let run = || {
            let handler = self.registry.handler(job.kind()).ok_or_else(|| Error::misuse("the job has no handler"));
            answer::to(job, handler.and_then(|handler| handler.run(job)))
        };
        let mut line = None;
        // A subscriber that panics, as `fmt` does when nobody reads its log, must not cost the job.
        guarded(|| job.span().in_scope(|| line = Some(run())));
        let line = line.unwrap_or_else(run);
        job.set_answered();
        let mut state = lock(&self.state);
        // The job is forgotten before its answer is written, because the same id may come again
        // right after the answer.
        state.held.remove(job.id());
        self.link.push(line);
        if state.held.is_empty() && (state.is_ending || state.closed.is_some()) {
            self.changed.notify_all();
        }
        drop(state);
        let _ = self.link.flush();
    }
}
