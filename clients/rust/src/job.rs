//! A job, as its handler sees it.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use tracing::{Span, error_span, field, warn};

use crate::args;
use crate::error::{Cancelled, Result};
use crate::frame::{self, Envelope, quoted};
use crate::link::{Link, lock};
use crate::log::{OneLine, guarded};
use crate::resume::{Resume, StepTimes};

/// One job, for the time of one attempt. Clones are the same job.
#[derive(Clone)]
pub struct Job(Arc<Inner>);

struct Inner {
    id: String,
    kind: String,
    queue: String,
    attempt: Option<u32>,
    max_attempts: Option<u32>,
    args: Box<RawValue>,
    meta: Map<String, Value>,
    envelope: Box<RawValue>,
    deadline: Option<(Instant, SystemTime)>,
    span: Span,
    link: Arc<Link>,
    step_times: Arc<StepTimes>,
    resume: Mutex<Resume>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    cancel_reason: Option<String>,
    is_stopping: bool,
    /// When the jobs that are left are cancelled.
    stops_at: Option<Instant>,
    is_answered: bool,
    waker: Option<Waker>,
    kept: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl Job {
    pub(crate) fn new(
        envelope: &Envelope<'_>,
        kind: &str,
        raw: &RawValue,
        checkpoint: Option<&RawValue>,
        link: Arc<Link>,
        step_times: Arc<StepTimes>,
    ) -> Job {
        let meta = envelope.meta();
        let deadline = envelope
            .timeout()
            .and_then(|timeout| Some((Instant::now().checked_add(timeout)?, SystemTime::now().checked_add(timeout)?)));
        let span = error_span!(
            target: "ojs_worker",
            "job",
            job_id = %OneLine(&envelope.id),
            job_type = %OneLine(kind),
            queue = %OneLine(envelope.queue()),
            attempt = envelope.attempt(),
            trace_id = field::Empty,
            parent_span_id = field::Empty,
            log_level = field::Empty,
        );
        if !span.is_disabled() {
            record_meta(&span, &meta);
        }
        Job(Arc::new(Inner {
            id: envelope.id.clone(),
            kind: kind.to_owned(),
            queue: envelope.queue().to_owned(),
            attempt: envelope.attempt(),
            max_attempts: envelope.max_attempts(),
            args: envelope.args(),
            meta,
            envelope: raw.to_owned(),
            deadline,
            span,
            link,
            step_times,
            resume: Mutex::new(Resume::load(checkpoint)),
            state: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    /// The job's id, the same in each delivery.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The job's type, which selects the handler.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.0.kind
    }

    /// The queue that the job was fetched from; `default` if the backend does not say.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.0.queue
    }

    /// The number of this attempt. Some backends begin with 0, others with 1.
    #[must_use]
    pub fn attempt(&self) -> Option<u32> {
        self.0.attempt
    }

    /// Whether a failure of this attempt is final; `false` if the backend does not say how many
    /// attempts there are.
    #[must_use]
    pub fn is_last_attempt(&self) -> bool {
        matches!((self.0.attempt, self.0.max_attempts), (Some(attempt), Some(most)) if attempt >= most)
    }

    pub(crate) fn has_attempts_left(&self) -> bool {
        matches!((self.0.attempt, self.0.max_attempts), (Some(attempt), Some(most)) if attempt < most)
    }

    /// The arguments as a type of the program, as
    /// [`Worker::handle_typed`](crate::Worker::handle_typed) takes them.
    ///
    /// # Errors
    /// The arguments do not fit. `?` fails the job for good (`InvalidArgs`).
    pub fn args<A: DeserializeOwned>(&self) -> Result<A> {
        args::read(&self.0.args)
    }

    /// The JSON array of the arguments, byte for byte as the backend sent it.
    #[must_use]
    pub fn raw_args(&self) -> &RawValue {
        &self.0.args
    }

    /// Trace context, tenant and other things that travel with the job.
    #[must_use]
    pub fn meta(&self) -> &Map<String, Value> {
        &self.0.meta
    }

    /// The whole envelope, byte for byte as the backend sent it.
    #[must_use]
    pub fn envelope(&self) -> &RawValue {
        &self.0.envelope
    }

    /// When ojs-init cancels the job because of its timeout; `None` without a timeout.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline.map(|(instant, _)| instant)
    }

    /// [`Job::deadline`] as a time of the clock, for other programs.
    #[must_use]
    pub fn deadline_time(&self) -> Option<SystemTime> {
        self.0.deadline.map(|(_, time)| time)
    }

    /// The `tracing` span of the job. Handlers run in it; a thread or task that a handler starts
    /// has to enter it.
    #[must_use]
    pub fn span(&self) -> &Span {
        &self.0.span
    }

    /// Why the job is cancelled: `shutdown`, `timeout`, `cancelled`, `lost`; `None` while it is
    /// not.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<String> {
        lock(&self.0.state).cancel_reason.clone()
    }

    /// Whether the job is cancelled, so that the handler has to end.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        lock(&self.0.state).cancel_reason.is_some()
    }

    /// Ends a cancelled handler: call `job.check()?` now and then in a long computation.
    ///
    /// # Errors
    /// The job is cancelled.
    pub fn check(&self) -> Result<(), Cancelled> {
        self.cancel_reason().map_or(Ok(()), |reason| Err(Cancelled { reason }))
    }

    /// Sleeps, or returns the error at once when the job is cancelled. `std::thread::sleep` cannot
    /// be interrupted.
    ///
    /// # Errors
    /// The job is cancelled.
    pub fn sleep(&self, time: Duration) -> Result<(), Cancelled> {
        self.wait(time, |state| state.cancel_reason.is_some());
        self.check()
    }

    /// Whether the worker is shutting down. The handler may go on until the job is cancelled.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        lock(&self.0.state).is_stopping
    }

    /// Waits until the worker shuts down or the job is cancelled, at most so long. Returns whether
    /// the worker is shutting down.
    #[must_use]
    pub fn wait_stopping(&self, most: Duration) -> bool {
        self.wait(most, |state| state.is_stopping || state.cancel_reason.is_some());
        self.is_stopping()
    }

    fn wait(&self, most: Duration, is_done: impl Fn(&State) -> bool) {
        let waited = self.0.changed.wait_timeout_while(lock(&self.0.state), most, |state| !is_done(state));
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// The time until ojs-init cancels the jobs that are left; `None` unless the worker is shutting
    /// down.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        lock(&self.0.state).stops_at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// The state that an earlier attempt saved with [`Job::checkpoint`].
    ///
    /// # Errors
    /// The state does not fit into the type.
    pub fn last_checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>, serde_json::Error> {
        self.resume().loaded_state().map(|state| serde_json::from_str(state.get())).transpose()
    }

    /// Saves what the next attempt needs. When this returns `Ok`, ojs-init has the state, even if
    /// this process dies the next moment.
    ///
    /// # Errors
    /// The state is not JSON, or the connection is closed. With steps or loops in the same job, all
    /// of the job's state may have 64 KiB (`CheckpointTooLarge`).
    pub fn checkpoint(&self, state: &impl Serialize) -> Result<()> {
        let state = to_raw_value(state)?;
        let mut resume = self.resume();
        resume.set_state(state);
        self.save(resume)
    }

    /// Sends the checkpoint of the job. The lock is held until it is queued, so that an older one
    /// never follows a newer one.
    pub(crate) fn save(&self, mut resume: MutexGuard<'_, Resume>) -> Result<()> {
        let state = resume.checkpoint()?;
        self.push("checkpoint", &[("state", &state)]);
        drop(resume);
        Ok(self.0.link.flush()?)
    }

    /// Reports progress from 0 to 1; at most once a second reaches the backend, and the newest
    /// wins. Nothing is reported for NaN.
    pub fn progress(&self, progress: f64, message: &str) {
        self.progress_with(progress, message, &());
    }

    /// [`Job::progress`] with data that is JSON.
    pub fn progress_with(&self, progress: f64, message: &str, data: &impl Serialize) {
        let data = serde_json::to_string(data).ok().filter(|_| !progress.is_nan());
        let Some(data) = data else {
            guarded(|| warn!("a progress is not sent: it is NaN, or its data is not JSON"));
            return;
        };
        let (progress, message) = (progress.clamp(0.0, 1.0).to_string(), quoted(message));
        self.push("progress", &[("progress", &progress), ("message", &message), ("data", &data)]);
        // A closed connection ends the handler by a cancel.
        let _ = self.0.link.flush();
    }

    /// Tells the backend now that the job is alive. ojs-init does that by itself at its interval.
    pub fn heartbeat(&self) {
        self.push("heartbeat", &[]);
        let _ = self.0.link.flush();
    }

    /// Queues a frame, but none behind the job's answer.
    fn push(&self, kind: &str, members: &[(&str, &str)]) {
        let state = lock(&self.0.state);
        if !state.is_answered {
            self.0.link.push(frame::about(kind, self.id(), members));
        }
    }

    /// Keeps a value with the job until its answer, one of each type: for middleware and the
    /// handlers inside it.
    pub fn keep<T: Send + Sync + 'static>(&self, value: T) {
        let replaced = lock(&self.0.state).kept.insert(TypeId::of::<T>(), Arc::new(value));
        // Its destructor may use the job.
        drop(replaced);
    }

    /// The value of that type that [`Job::keep`] got.
    #[must_use]
    pub fn kept<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        lock(&self.0.state).kept.get(&TypeId::of::<T>()).cloned()?.downcast().ok()
    }

    pub(crate) fn resume(&self) -> MutexGuard<'_, Resume> {
        lock(&self.0.resume)
    }

    pub(crate) fn step_times(&self) -> &StepTimes {
        &self.0.step_times
    }

    /// Whether this is the first cancel of the job.
    pub(crate) fn set_cancelled(&self, reason: &str) -> bool {
        let mut state = lock(&self.0.state);
        let is_first = state.cancel_reason.is_none();
        state.cancel_reason.get_or_insert_with(|| reason.to_owned());
        self.0.changed.notify_all();
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        is_first
    }

    /// [`Job::check`], and wakes the task when the job is cancelled later.
    #[cfg(feature = "async")]
    pub(crate) fn poll_cancelled(&self, waker: &Waker) -> Result<(), Cancelled> {
        lock(&self.0.state).waker = Some(waker.clone());
        self.check()
    }

    pub(crate) fn set_stopping(&self, stops_at: Option<Instant>) {
        let mut state = lock(&self.0.state);
        (state.is_stopping, state.stops_at) = (true, stops_at);
        self.0.changed.notify_all();
    }

    /// No frame about the job follows from here on.
    pub(crate) fn set_answered(&self) {
        lock(&self.0.state).is_answered = true;
    }

    /// Drops what was kept, which may hold the job itself.
    pub(crate) fn drop_kept(&self) {
        let kept = std::mem::take(&mut lock(&self.0.state).kept);
        guarded(|| drop(kept));
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {} ({})", self.0.id, self.0.kind)
    }
}

/// The W3C trace context and the log level of the job.
fn record_meta(span: &Span, meta: &Map<String, Value>) {
    let text = |name: &str| meta.get(name).and_then(Value::as_str);
    let parts: Vec<&str> = text("traceparent").unwrap_or_default().split('-').collect();
    if let [_, trace, parent, _, ..] = parts.as_slice() {
        span.record("trace_id", field::display(OneLine(trace)))
            .record("parent_span_id", field::display(OneLine(parent)));
    } else if let Some(trace) = text("trace_id") {
        span.record("trace_id", field::display(OneLine(trace)));
    }
    if let Some(level) = text("log_level") {
        span.record("log_level", field::display(OneLine(level)));
    }
}
