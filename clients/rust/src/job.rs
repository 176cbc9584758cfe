//! What a handler is given.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::args;
use crate::current;
use crate::error::{Cancelled, Result, SayError};
use crate::json::{self, Members, MAX_DEPTH};
use crate::logging;
use crate::outbox::Ticket;
use crate::panics;
use crate::resume::Resume;
use crate::session::Session;
use crate::text::{clean, MAX_MESSAGE_CHARS};

/// A job, and what can be said about it while its handler runs. A clone is the same job; any thread
/// may use it.
#[derive(Clone)]
pub struct Job(Arc<Inner>);

struct Inner {
    id: String,
    /// As ojs-init spells it.
    raw_id: Box<RawValue>,
    kind: String,
    queue: String,
    attempt: Option<u32>,
    max_attempts: Option<u32>,
    args: Box<RawValue>,
    meta: Map<String, Value>,
    raw: Box<RawValue>,
    limit: Option<(Instant, SystemTime)>,
    log_level: Option<log::LevelFilter>,
    session: Weak<Session>,
    resume: Mutex<Resume>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    cancel_reason: Option<String>,
    is_stopping: bool,
    /// The answer is given.
    is_over: bool,
    /// The newest of each that may still wait to be written.
    waiting: [Option<Ticket>; 3],
    kept: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

/// What is said about a job before its answer; of each kind the newest takes the place of one that
/// still waits.
#[derive(Clone, Copy)]
enum Saying {
    Progress = 0,
    Checkpoint = 1,
    Heartbeat = 2,
}

/// Why an envelope is no job.
pub(crate) enum Unfit {
    /// Not even its id can be read.
    NoId,
    /// It has no type, or one that is no text.
    NoType { id: String, raw_id: Box<RawValue> },
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Job {
    /// Reads an envelope.
    pub(crate) fn read(raw: &RawValue, checkpoint: Option<&RawValue>, session: Weak<Session>) -> Result<Job, Unfit> {
        let members: Members<'_> = serde_json::from_str(raw.get()).map_err(|_| Unfit::NoId)?;
        let (Some(raw_id), Some(id)) = (members.get("id"), json::string_in(members.get("id"))) else {
            return Err(Unfit::NoId);
        };
        let raw_id = (*raw_id).to_owned();
        let Some(kind) = json::string_in(members.get("type")) else { return Err(Unfit::NoType { id, raw_id }) };
        let of = |name: &str, first: char| members.get(name).copied().filter(|raw| raw.get().starts_with(first));
        let meta: Map<String, Value> = of("meta", '{').and_then(|raw| json::decode(raw.get()).ok()).unwrap_or_default();
        let timeout =
            json::millis_in(members.get("timeout_ms"), 1.0).or_else(|| json::millis_in(members.get("timeout"), 1000.0));
        let limit = timeout.and_then(|t| Some((Instant::now().checked_add(t)?, SystemTime::now().checked_add(t)?)));
        let log_level = meta.get("log_level").and_then(Value::as_str).and_then(logging::parse_level);
        Ok(Job(Arc::new(Inner {
            id,
            raw_id,
            kind,
            queue: json::string_in(members.get("queue")).unwrap_or_else(|| "default".to_owned()),
            attempt: json::integer_in(members.get("attempt")).and_then(|attempt| u32::try_from(attempt).ok()),
            max_attempts: json::integer_in(members.get("max_attempts")).and_then(|most| u32::try_from(most).ok()),
            args: of("args", '[').map_or_else(empty_array, ToOwned::to_owned),
            meta,
            raw: raw.to_owned(),
            limit,
            log_level,
            session,
            resume: Mutex::new(Resume::load(checkpoint)),
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
        })))
    }

    /// The same in each delivery of the job.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.id
    }

    pub(crate) fn raw_id(&self) -> &str {
        self.0.raw_id.get()
    }

    /// The job's type, which decides which handler takes it.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.0.kind
    }

    /// Where it came from; `default` if the backend does not say.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.0.queue
    }

    /// The number of this attempt, as the backend counts: some begin with 0. Never compute with it.
    #[must_use]
    pub fn attempt(&self) -> Option<u32> {
        self.0.attempt
    }

    /// Whether the backend tries the job again; false if that is unknown.
    pub(crate) fn has_more_attempts(&self) -> bool {
        matches!((self.0.attempt, self.0.max_attempts), (Some(attempt), Some(most)) if attempt < most)
    }

    /// The arguments as types of your own, as in
    /// [`Worker::handle_typed`](crate::Worker::handle_typed).
    ///
    /// # Errors
    /// They do not fit: `InvalidArgs`, which fails the job for good. The message quotes no value.
    pub fn args<A: DeserializeOwned>(&self) -> Result<A> {
        args::read(self.0.args.get())
    }

    /// The text of the arguments, a JSON array, byte for byte as the backend sent it.
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
        &self.0.raw
    }

    /// The same as [`Job::envelope`].
    #[must_use]
    pub fn raw(&self) -> &RawValue {
        &self.0.raw
    }

    /// When the job's timeout will be over, and ojs-init cancels it; nothing if it has none.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.0.limit.map(|(instant, _)| instant)
    }

    /// [`Job::deadline`] as a time of the day, for others than this process.
    #[must_use]
    pub fn deadline_time(&self) -> Option<SystemTime> {
        self.0.limit.map(|(_, time)| time)
    }

    /// The trace that the job was enqueued in, and the span: of a W3C `meta.traceparent`, else
    /// `meta.trace_id` without a span.
    #[must_use]
    pub fn trace(&self) -> Option<(String, Option<String>)> {
        let text = |name: &str| self.0.meta.get(name).and_then(Value::as_str);
        if let Some(parts) = text("traceparent").map(|parent| parent.split('-').collect::<Vec<_>>()) {
            let is_hex = |part: &str, length| {
                part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
            };
            let lengths = [2, 32, 16, 2];
            let is_well = parts.len() >= 4 && parts.iter().zip(lengths).all(|(part, length)| is_hex(part, length));
            if is_well && parts[0] != "ff" && [parts[1], parts[2]].iter().all(|id| id.bytes().any(|byte| byte != b'0'))
            {
                return Some((parts[1].to_owned(), Some(parts[2].to_owned())));
            }
        }
        text("trace_id").filter(|id| !id.is_empty()).map(|id| (clean(id, 200), None))
    }

    pub(crate) fn log_level(&self) -> Option<log::LevelFilter> {
        self.0.log_level
    }

    /// Why the job is cancelled: shutdown, timeout, cancelled or lost; nothing as long as it is
    /// not.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<String> {
        lock(&self.0.state).cancel_reason.clone()
    }

    /// Whether the job is cancelled: the handler has to end.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        lock(&self.0.state).cancel_reason.is_some()
    }

    /// For a handler that takes long, now and then: `job.check()?`.
    ///
    /// # Errors
    /// The job is cancelled.
    pub fn check(&self) -> Result<(), Cancelled> {
        self.cancel_reason().map_or(Ok(()), |reason| Err(Cancelled { reason }))
    }

    /// Waits so long, or until the job is cancelled.
    ///
    /// # Errors
    /// The job is cancelled.
    pub fn sleep(&self, time: Duration) -> Result<(), Cancelled> {
        self.wait(time, |state| state.cancel_reason.is_some());
        self.check()
    }

    /// Whether the worker is being shut down. The job may go on until it is cancelled.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        lock(&self.0.state).is_stopping
    }

    /// Waits until the worker is being shut down or the job is cancelled, at most so long; says
    /// whether the worker is being shut down.
    #[must_use]
    pub fn wait_stopping(&self, most: Duration) -> bool {
        self.wait(most, |state| state.is_stopping || state.cancel_reason.is_some());
        self.is_stopping()
    }

    fn wait(&self, most: Duration, is_done: impl Fn(&State) -> bool) {
        let state = lock(&self.0.state);
        drop(self.0.changed.wait_timeout_while(state, most, |state| !is_done(state)));
    }

    /// The time until what is left is cancelled; nothing while nothing shuts down.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.0.session.upgrade()?.remaining()
    }

    /// What an earlier attempt saved with [`Job::checkpoint`]; nothing if there is nothing.
    ///
    /// # Errors
    /// It does not fit into the type.
    pub fn last_checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>, serde_json::Error> {
        self.user_state().map(|state| json::decode(state.get())).transpose()
    }

    /// Tells the backend now that this job is alive. ojs-init does that by itself at its interval.
    ///
    /// # Errors
    /// It was not said.
    pub fn heartbeat(&self) -> Result<(), SayError> {
        self.say(Saying::Heartbeat, format!("{{\"type\":\"heartbeat\",\"job_id\":{}}}\n", self.raw_id())).map(|_| ())
    }

    /// Says how far the job is, from 0 to 1. Send as often as you like: it waits for nothing, at
    /// most one a second reaches the backend, and the newest wins.
    ///
    /// # Errors
    /// It was not said; NaN is no number.
    pub fn progress(&self, progress: f64, message: &str) -> Result<(), SayError> {
        self.progress_with(progress, message, &())
    }

    /// [`Job::progress`] with data that is JSON.
    ///
    /// # Errors
    /// It was not said; NaN is no number.
    pub fn progress_with(&self, progress: f64, message: &str, data: &impl Serialize) -> Result<(), SayError> {
        if progress.is_nan() {
            return Err(SayError::NotJson("progress is a number from 0 to 1, not NaN".to_owned()));
        }
        let mut frame =
            format!("{{\"type\":\"progress\",\"job_id\":{},\"progress\":{}", self.raw_id(), progress.clamp(0.0, 1.0));
        if !message.is_empty() {
            frame += &format!(",\"message\":{}", json::quoted(&clean(message, MAX_MESSAGE_CHARS)));
        }
        let data = json::encode(data, MAX_DEPTH - 1)
            .map_err(|why| SayError::NotJson(format!("the data of a progress is not JSON: {why}")))?;
        if data != "null" {
            frame += &format!(",\"data\":{data}");
        }
        self.say(Saying::Progress, frame + "}\n").map(|_| ())
    }

    /// Saves where the next attempt shall go on; it gets it by [`Job::last_checkpoint`]. Once this
    /// returns, ojs-init has it and delivers it to the backend, even if this process crashes the
    /// next moment.
    ///
    /// # Errors
    /// It was not saved.
    pub fn checkpoint(&self, state: &impl Serialize) -> Result<()> {
        let not_json = |why: String| SayError::NotJson(format!("the state of a checkpoint is not JSON: {why}"));
        let text = json::encode(state, MAX_DEPTH - 1).map_err(not_json)?;
        self.save_user_state(RawValue::from_string(text).map_err(|error| not_json(error.to_string()))?)
    }

    /// Queues it, in the place of one that waits.
    pub(crate) fn say_checkpoint(&self, state: &str) -> Result<Ticket, SayError> {
        let frame = format!("{{\"type\":\"checkpoint\",\"job_id\":{},\"state\":{state}}}\n", self.raw_id());
        self.say(Saying::Checkpoint, frame)
    }

    /// Waits until it is written.
    pub(crate) fn await_checkpoint(&self, ticket: Ticket) -> Result<(), SayError> {
        self.0.session.upgrade().ok_or(SayError::ConnectionLost)?.out.wait_written(ticket)
    }

    fn say(&self, what: Saying, frame: String) -> Result<Ticket, SayError> {
        let session = self.0.session.upgrade().ok_or(SayError::ConnectionLost)?;
        let most = session.max_frame();
        if frame.len() - 1 > most {
            return Err(SayError::TooLong { bytes: frame.len() - 1, most });
        }
        let mut state = lock(&self.0.state);
        if state.is_over {
            return Err(SayError::Answered);
        }
        let waiting = &mut state.waiting[what as usize];
        if let Some(ticket) = waiting.filter(|ticket| session.out.replace(*ticket, frame.clone().into_bytes())) {
            return Ok(ticket);
        }
        let ticket = session.out.send(frame.into_bytes(), false)?;
        *waiting = Some(ticket);
        Ok(ticket)
    }

    /// Nothing more is said about the job from here on. A progress that still waits is not worth
    /// its way.
    pub(crate) fn set_over(&self, session: &Session) {
        let mut state = lock(&self.0.state);
        state.is_over = true;
        if let Some(ticket) = state.waiting[Saying::Progress as usize] {
            session.out.drop_waiting(ticket);
        }
    }

    /// Whether this was the first reason.
    pub(crate) fn set_cancelled(&self, reason: &str) -> bool {
        let mut state = lock(&self.0.state);
        let is_first = state.cancel_reason.is_none();
        state.cancel_reason.get_or_insert_with(|| reason.to_owned());
        self.0.changed.notify_all();
        is_first
    }

    pub(crate) fn set_stopping(&self) {
        lock(&self.0.state).is_stopping = true;
        self.0.changed.notify_all();
    }

    pub(crate) fn resume(&self) -> MutexGuard<'_, Resume> {
        lock(&self.0.resume)
    }

    /// Keeps something of yours with the job until its answer, one of each type, for middleware and
    /// handlers further inside.
    pub fn keep<T: Send + Sync + 'static>(&self, value: T) {
        // What was there before is dropped outside of the lock.
        let _before = lock(&self.0.state).kept.insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// Drops what was kept: it may have the job, which would then have itself for ever.
    pub(crate) fn let_go(&self) {
        let kept = std::mem::take(&mut lock(&self.0.state).kept);
        for value in kept.into_values() {
            if panics::drop_quietly(value) {
                self.log(log::Level::Error, "something that was kept with the job has panicked where it was dropped");
            }
        }
    }

    /// What was kept of this type.
    #[must_use]
    pub fn kept<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        lock(&self.0.state).kept.get(&TypeId::of::<T>()).cloned()?.downcast().ok()
    }

    /// Lets what this thread logs be about the job until the guard is dropped. A handler's own
    /// thread needs none; one that a handler has started does.
    pub fn log_here(&self) -> current::Guard {
        current::enter(self)
    }

    pub(crate) fn log(&self, level: log::Level, message: &str) {
        logging::say(level, Some(self), message, None);
    }
}

fn empty_array() -> Box<RawValue> {
    RawValue::from_string("[]".to_owned()).unwrap_or_default()
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {} ({})", self.0.id, self.0.kind)
    }
}
