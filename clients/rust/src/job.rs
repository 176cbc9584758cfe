//! A job, as its handler sees it.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tracing::{Span, error_span, field, warn};

use crate::error::{Cancelled, Discard, Error, Result, Verdict};
use crate::frame::{self, Envelope, Frame};
use crate::link::{Link, lock};
use crate::log::{OneLine, guarded};
use crate::{args, resume::Resume};

/// One job, for the time of one attempt. Clones are the same job.
#[derive(Clone)]
pub struct Job(Arc<Inner>);

struct Inner {
    fields: Envelope,
    envelope: Box<RawValue>,
    traceparent: Option<String>,
    deadline: Option<Instant>,
    span: Span,
    link: Arc<Link>,
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
    /// Of a handler that is a future.
    waker: Option<Waker>,
    kept: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl Job {
    pub(crate) fn new(fields: Envelope, envelope: &RawValue, frame: &Frame<'_>, link: Arc<Link>) -> Job {
        let seconds =
            fields.timeout_ms.map(|millis| millis / 1000.0).or(fields.timeout).filter(|seconds| *seconds > 0.0);
        let timeout = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let meta = |name| fields.meta.get(name).and_then(Value::as_str);
        // version-trace-parent-flags, as W3C defines it
        let traceparent = frame.traceparent.as_deref().or(meta("traceparent")).map(str::to_owned);
        let mut trace = traceparent.as_deref().unwrap_or_default().split('-').skip(1);
        let mut span = Span::none();
        guarded(|| {
            span = error_span!(
                target: "ojs_worker",
                "job",
                job_id = %OneLine(&fields.id),
                job_type = %OneLine(&fields.kind),
                queue = %OneLine(fields.queue.as_deref().unwrap_or("default")),
                attempt = fields.attempt,
                trace_id = trace.next().or(meta("trace_id")).map(|id| field::display(OneLine(id))),
                parent_span_id = trace.next().map(|id| field::display(OneLine(id))),
                log_level = meta("log_level").map(|level| field::display(OneLine(level))),
            );
        });
        let (resume, envelope) = (Mutex::new(Resume::load(frame.checkpoint)), envelope.to_owned());
        let (state, changed) = (Mutex::default(), Condvar::new());
        Job(Arc::new(Inner { fields, envelope, traceparent, deadline, span, link, resume, state, changed }))
    }

    /// The job's id, the same in each delivery.
    pub fn id(&self) -> &str {
        &self.0.fields.id
    }

    /// The job's type, which selects the handler.
    pub fn kind(&self) -> &str {
        &self.0.fields.kind
    }

    /// The queue that the job was fetched from; `default` if the backend does not say.
    pub fn queue(&self) -> &str {
        self.0.fields.queue.as_deref().unwrap_or("default")
    }

    /// The number of this attempt. Some backends begin with 0, others with 1.
    pub fn attempt(&self) -> Option<u32> {
        self.0.fields.attempt
    }

    /// Whether a failure of this attempt is final; `false` if the backend does not say how many
    /// attempts there are.
    pub fn is_last_attempt(&self) -> bool {
        self.attempts_left() == Some(0)
    }

    pub(crate) fn attempts_left(&self) -> Option<u32> {
        Some(self.0.fields.max_attempts?.saturating_sub(self.attempt()?))
    }

    /// The arguments as a type of the program, as
    /// [`Worker::handle_typed`](crate::Worker::handle_typed) takes them.
    ///
    /// `Vec<Box<RawValue>>` keeps them byte for byte as the backend sent them.
    ///
    /// # Errors
    /// The arguments do not fit. `?` fails the job for good (`InvalidArgs`).
    pub fn args<A: DeserializeOwned>(&self) -> Result<A> {
        args::read(&self.0.fields.args)
    }

    /// Trace context, tenant and other things that travel with the job.
    pub fn meta(&self) -> &Map<String, Value> {
        &self.0.fields.meta
    }

    /// The W3C context of ojs-init's span of the job, the parent of the handler's own spans; without
    /// one that of the producer ([`Job::meta`]).
    pub fn traceparent(&self) -> Option<&str> {
        self.0.traceparent.as_deref()
    }

    /// The whole envelope, byte for byte as the backend sent it.
    pub fn envelope(&self) -> &RawValue {
        &self.0.envelope
    }

    /// When ojs-init cancels the job because of its timeout; `None` without a timeout.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline
    }

    /// The `tracing` span of the job. Handlers run in it; a thread or task that a handler starts
    /// has to enter it.
    pub fn span(&self) -> &Span {
        &self.0.span
    }

    /// Why the job is cancelled: `shutdown`, `timeout`, `cancelled`, `lost`; `None` while it is
    /// not.
    pub fn cancel_reason(&self) -> Option<String> {
        self.state().cancel_reason.clone()
    }

    /// Whether the job is cancelled, so that the handler has to end.
    pub fn is_cancelled(&self) -> bool {
        self.state().cancel_reason.is_some()
    }

    /// Ends a cancelled handler: call `job.check()?` now and then in a long computation.
    ///
    /// # Errors
    /// The job is cancelled.
    pub fn check(&self) -> Result<(), Cancelled> {
        self.cancel_reason().map_or(Ok(()), |reason| Err(Cancelled::new(reason)))
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
    pub fn is_stopping(&self) -> bool {
        self.state().is_stopping
    }

    /// Waits until the worker shuts down or the job is cancelled, at most so long. Returns whether
    /// the worker is shutting down.
    pub fn wait_stopping(&self, most: Duration) -> bool {
        self.wait(most, |state| state.is_stopping || state.cancel_reason.is_some());
        self.is_stopping()
    }

    fn wait(&self, most: Duration, is_done: impl Fn(&State) -> bool) {
        let waited = self.0.changed.wait_timeout_while(self.state(), most, |state| !is_done(state));
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// The time until ojs-init cancels the jobs that are left; `None` unless the worker is shutting
    /// down.
    pub fn remaining(&self) -> Option<Duration> {
        self.state().stops_at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// The state that [`Job::checkpoint`] saved last, mostly in an earlier attempt.
    ///
    /// # Errors
    /// The state does not fit into the type.
    pub fn last_checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>, serde_json::Error> {
        self.resume().form.state.as_ref().map(|state| serde_json::from_str(state.get())).transpose()
    }

    /// Saves what the next attempt needs. When this returns `Ok`, ojs-init has the state, even if
    /// this process dies the next moment.
    ///
    /// # Errors
    /// The state is not JSON, or longer than `worker.max_frame` (`CheckpointTooLarge`), or the
    /// connection is closed. With steps or loops in the same job, all of the job's state may have
    /// 64 KiB (`CheckpointTooLarge`).
    pub fn checkpoint(&self, state: &impl Serialize) -> Result<()> {
        let state = to_raw_value(state)?;
        let mut resume = self.resume();
        resume.form.state = Some(state);
        self.save(resume)
    }

    /// Sends the checkpoint of the job. The lock is held meanwhile, so that an older one never
    /// follows a newer one.
    pub(crate) fn save(&self, mut resume: MutexGuard<'_, Resume>) -> Result<()> {
        let state = resume.checkpoint()?;
        self.send("checkpoint", &[("state", &state)])
    }

    /// Reports progress from 0 to 1; at most once a second reaches the backend, and the newest
    /// wins. NaN is not reported.
    pub fn progress(&self, progress: f64, message: &str) {
        if !progress.is_nan() {
            let (progress, message) = (progress.clamp(0.0, 1.0).to_string(), json!(message).to_string());
            // A closed connection ends the handler by a cancel.
            if let Err(error) = self.send("progress", &[("progress", &progress), ("message", &message)])
                && error.verdict() == Verdict::Discard
            {
                warn!("a progress is not sent: {}", OneLine(&error.to_string()));
            }
        }
    }

    /// Tells the backend now that the job is alive. ojs-init does that by itself at its interval.
    pub fn heartbeat(&self) {
        let _ = self.send("heartbeat", &[]);
    }

    /// Sends a frame, but none behind the job's answer, and none that is too long: ojs-init closes
    /// the connection after three of these.
    fn send(&self, kind: &str, members: &[(&str, &str)]) -> Result<()> {
        let line = frame::about(kind, self.id(), members);
        let (bytes, most) = (line.len() - 1, self.0.link.max_frame.load(Ordering::Relaxed));
        if bytes > most {
            let message = format!("the frame of a {kind} has {bytes} bytes, ojs-init takes {most} (worker.max_frame)");
            return Err(Error::found(Discard::new(message).kind("CheckpointTooLarge")));
        }
        let state = self.state();
        if state.is_answered {
            return Err(io::Error::other("the job was answered already").into());
        }
        self.0.link.push(line);
        drop(state);
        Ok(self.0.link.flush()?)
    }

    /// Keeps a value with the job until its answer, one of each type: for middleware and the
    /// handlers inside it.
    pub fn keep<T: Send + Sync + 'static>(&self, value: T) {
        // Dropped behind the lock, because its destructor may use the job.
        let _replaced = self.state().kept.insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// The value of that type that [`Job::keep`] got.
    pub fn kept<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.state().kept.get(&TypeId::of::<T>()).cloned()?.downcast().ok()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }

    pub(crate) fn resume(&self) -> MutexGuard<'_, Resume> {
        lock(&self.0.resume)
    }

    /// Whether this is the first cancel of the job.
    pub(crate) fn set_cancelled(&self, reason: &str) -> bool {
        let mut state = self.state();
        let is_first = state.cancel_reason.is_none();
        state.cancel_reason.get_or_insert_with(|| reason.to_owned());
        state.waker.take().into_iter().for_each(Waker::wake);
        self.0.changed.notify_all();
        is_first
    }

    /// [`Job::check`], and wakes the task when the job is cancelled later.
    #[cfg(feature = "async")]
    pub(crate) fn poll_cancelled(&self, waker: &Waker) -> Result<(), Cancelled> {
        self.state().waker = Some(waker.clone());
        self.check()
    }

    pub(crate) fn set_stopping(&self, stops_at: Option<Instant>) {
        let mut state = self.state();
        (state.is_stopping, state.stops_at) = (true, stops_at);
        self.0.changed.notify_all();
    }

    /// No frame about the job follows. Drops what was kept, which may hold the job itself.
    pub(crate) fn set_answered(&self) {
        let mut state = self.state();
        state.is_answered = true;
        let kept = std::mem::take(&mut state.kept);
        drop(state);
        guarded(|| drop(kept));
    }
}
