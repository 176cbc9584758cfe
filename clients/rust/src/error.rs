//! What a handler ends with when it has no result, and what running a worker can end with.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::backtrace;
use crate::text::{clean, MAX_MESSAGE_CHARS};

/// What a handler returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a handler has no result. `?` makes one of any error of the standard kind: the job fails
/// then, retryable, with the error's type, message and place. [`Retry`], [`Discard`] and
/// [`Release`] say it in words of their own.
#[derive(Clone)]
pub struct Error {
    inner: Arc<Inner>,
}

#[derive(Clone, Default)]
struct Inner {
    verdict: Verdict,
    message: String,
    code: Option<String>,
    kind: String,
    details: Option<Value>,
    after: Option<Duration>,
    backtrace: Vec<String>,
    is_panic: bool,
    /// The handler has said itself what is wrong: there is nothing to look up in the log.
    is_in_own_words: bool,
}

/// What becomes of the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It fails and may be tried again; nobody asked for that, so its stack is in the log.
    #[default]
    Failed,
    /// It fails and may be tried again, as the handler wants.
    Retry,
    /// It fails for good.
    Discard,
    /// It goes back to its queue.
    Release,
}

impl Error {
    /// What becomes of the job.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.inner.verdict
    }

    /// What a person is told.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// The error's class: the name of its type in Rust, or what [`Retry::kind`] and
    /// [`Discard::kind`] gave it.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.inner.kind
    }

    /// For a `Box<dyn Error>`, or what can become one, as an error of `anyhow` can: `?` does not
    /// take those. An [`Error`] that went in by [`Error::into_std`] is found in its sources.
    #[track_caller]
    pub fn from_boxed(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        let error: Box<dyn StdError + Send + Sync> = error.into();
        Error::from_dyn(&*error, "error")
    }

    /// The same as an error of the standard kind, to pass it through functions that return their
    /// own: [`Error`] itself is none, so that `?` can make it of all others.
    #[must_use]
    pub fn into_std(self) -> impl StdError + Send + Sync + 'static {
        Wrapped(self)
    }

    #[track_caller]
    fn from_dyn(error: &(dyn StdError + 'static), kind: &str) -> Error {
        let mut next = Some(error);
        while let Some(inner) = next {
            if let Some(wrapped) = inner.downcast_ref::<Wrapped>() {
                return wrapped.0.clone();
            }
            // An io::Error does not count what it was made of as its source.
            let of_io = inner.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
            next = of_io.map(|of_io| of_io as &(dyn StdError + 'static)).or_else(|| inner.source());
        }
        Inner { message: message_of(error), kind: kind.to_owned(), backtrace: backtrace::here(), ..Inner::default() }
            .into()
    }

    /// What a handler panicked with.
    pub(crate) fn panicked(thrown: &(dyn Any + Send), backtrace: Vec<String>) -> Error {
        let message =
            thrown.downcast_ref::<&str>().copied().or_else(|| thrown.downcast_ref::<String>().map(String::as_str));
        let message = clean(message.unwrap_or("a panic without a message"), MAX_MESSAGE_CHARS);
        Inner { message, kind: "panic".to_owned(), backtrace, is_panic: true, ..Inner::default() }.into()
    }

    pub(crate) fn is_in_own_words(&self) -> bool {
        self.inner.is_in_own_words
    }

    pub(crate) fn is_panic(&self) -> bool {
        self.inner.is_panic
    }

    /// Whether it says nothing but that the job is cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.inner.kind == std::any::type_name::<Cancelled>()
    }

    /// Whether it is this very one, or a clone of it.
    pub(crate) fn is_same(&self, other: &Error) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    pub(crate) fn code(&self) -> &str {
        self.inner.code.as_deref().unwrap_or("handler_error")
    }

    pub(crate) fn backtrace(&self) -> &[String] {
        &self.inner.backtrace
    }

    /// The time of a [`Retry`] or [`Release`] in whole milliseconds, where a part of one counts.
    pub(crate) fn after_ms(&self) -> Option<u64> {
        let after = self.inner.after.filter(|after| !after.is_zero())?;
        Some(u64::try_from(after.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }

    /// The details with `retry_after_ms`.
    pub(crate) fn details(&self) -> Option<Map<String, Value>> {
        let mut details = match &self.inner.details {
            Some(Value::Object(details)) => details.clone(),
            _ => Map::new(),
        };
        if let Some(millis) = self.after_ms() {
            details.entry("retry_after_ms").or_insert_with(|| Value::from(millis));
        }
        (!details.is_empty()).then_some(details)
    }
}

impl From<Inner> for Error {
    fn from(inner: Inner) -> Error {
        Error { inner: Arc::new(inner) }
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    #[track_caller]
    fn from(error: E) -> Error {
        Error::from_dyn(&error, std::any::type_name::<E>())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}: {}", self.inner.verdict, self.inner.kind, self.inner.message)
    }
}

/// An [`Error`] on its way through errors of the standard kind.
#[derive(Debug)]
struct Wrapped(Error);

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Wrapped {}

/// The message of an error and of its sources, as far as they do not repeat it.
fn message_of(error: &(dyn StdError + 'static)) -> String {
    let mut message = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let more = source.to_string();
        if !message.contains(&more) && message.len() < MAX_MESSAGE_CHARS {
            message = format!("{message}: {more}");
        }
        next = source.source();
    }
    clean(&message, MAX_MESSAGE_CHARS)
}

macro_rules! worded {
    ($name:ident, $verdict:expr) => {
        impl $name {
            /// With a message for a person.
            #[must_use]
            #[track_caller]
            pub fn new(message: impl fmt::Display) -> $name {
                let message = clean(&message.to_string(), MAX_MESSAGE_CHARS);
                let kind = stringify!($name).to_owned();
                let backtrace = backtrace::place();
                $name(Inner { verdict: $verdict, message, kind, backtrace, is_in_own_words: true, ..Inner::default() })
            }

            /// Because of another error, whose type and message it has.
            #[must_use]
            #[track_caller]
            pub fn because<E: StdError + Send + Sync + 'static>(error: E) -> $name {
                let message = message_of(&error);
                let kind = std::any::type_name::<E>().to_owned();
                $name(Inner { verdict: $verdict, message, kind, backtrace: backtrace::here(), ..Inner::default() })
            }

            /// Short and stable; your own begin with `x_`. Without it: `handler_error`.
            #[must_use]
            pub fn code(mut self, code: &str) -> $name {
                self.0.code = Some(clean(code, 200));
                self
            }

            /// The error's class; without it that of the error behind it, or the name of this type.
            #[must_use]
            pub fn kind(mut self, kind: &str) -> $name {
                self.0.kind = clean(kind, 200);
                self
            }

            /// Anything more: a map or a struct. What is no JSON object is left out.
            #[must_use]
            pub fn details(mut self, details: impl Serialize) -> $name {
                self.0.details = serde_json::to_value(details).ok();
                self
            }
        }

        impl From<$name> for Error {
            fn from(worded: $name) -> Error {
                worded.0.into()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), ": {}"), self.0.message)
            }
        }
    };
}

/// Fails the job in the handler's own words. The backend's retry policy decides about the next
/// attempt.
#[derive(Clone)]
pub struct Retry(Inner);

worded!(Retry, Verdict::Retry);

impl Retry {
    /// How long the next attempt should wait. It goes to the backend as `details.retry_after_ms`,
    /// and the backend's retry policy decides whether it counts.
    #[must_use]
    pub fn after(mut self, after: Duration) -> Retry {
        self.0.after = Some(after);
        self
    }
}

/// Fails the job for good: another attempt would not help.
#[derive(Clone)]
pub struct Discard(Inner);

worded!(Discard, Verdict::Discard);

impl Discard {
    /// What this library finds wrong with a job.
    #[track_caller]
    pub(crate) fn of_library(kind: &str, message: impl fmt::Display) -> Error {
        let mut discard = Discard::new(message).kind(kind);
        discard.0.is_in_own_words = false;
        discard.into()
    }
}

/// Gives the job back unprocessed, with no failure recorded where the backend can do that.
#[derive(Clone, Debug)]
pub struct Release {
    reason: String,
    after: Option<Duration>,
}

impl Release {
    /// With a reason for the log.
    #[must_use]
    pub fn new(reason: impl fmt::Display) -> Release {
        Release { reason: clean(&reason.to_string(), 1000), after: None }
    }

    /// How long ojs-init holds the job before it goes back: 30 s at most.
    #[must_use]
    pub fn after(mut self, after: Duration) -> Release {
        self.after = Some(after);
        self
    }
}

impl From<Release> for Error {
    fn from(release: Release) -> Error {
        Inner {
            verdict: Verdict::Release,
            message: release.reason,
            kind: "Release".to_owned(),
            after: release.after,
            ..Inner::default()
        }
        .into()
    }
}

/// The job is cancelled: what [`Job::check`](crate::Job::check) and
/// [`Job::sleep`](crate::Job::sleep) end with. A handler that returns it, or any other error after
/// a cancel, gets the right answer for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancelled {
    pub(crate) reason: String,
}

impl Cancelled {
    /// shutdown, timeout, cancelled or lost, or one that a later ojs-init knows.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the job is cancelled: {}", self.reason)
    }
}

impl StdError for Cancelled {}

/// What [`Worker::run`](crate::Worker::run) ends with when it is not well.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RunError {
    /// There is no ojs-init to take jobs from.
    NotUnderOjsInit(String),
    /// The worker has no handler.
    NoHandler,
    /// ojs-init has closed the connection. The process must end; nothing reconnects.
    ConnectionLost,
    /// ojs-init speaks another version of the protocol, or refuses what this worker says.
    Protocol(String),
    /// ojs-init has not read for 10 s.
    Stalled,
    /// A signal came, and handlers had not ended within
    /// [`Options::stop_grace`](crate::Options::stop_grace). Their jobs are unanswered.
    CutOff,
    /// The system had no thread.
    System(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::NotUnderOjsInit(what) => write!(f, "not under ojs-init: {what}"),
            RunError::NoHandler => f.write_str("the worker has no handler: register one with `handle` before `run`"),
            RunError::ConnectionLost => f.write_str("ojs-init has closed the connection"),
            RunError::Protocol(what) => write!(f, "ojs-init speaks another protocol: {what}"),
            RunError::Stalled => f.write_str("ojs-init has not read for 10 s; ending with answers that it has not got"),
            RunError::CutOff => f.write_str("jobs were cut off by a signal"),
            RunError::System(what) => f.write_str(what),
        }
    }
}

impl StdError for RunError {}

/// Why something about a job was not said: a [`Job::checkpoint`](crate::Job::checkpoint) that was
/// not saved, for one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SayError {
    /// It is no JSON, or no number from 0 to 1.
    NotJson(String),
    /// More bytes than ojs-init takes at once.
    TooLong {
        /// How many it has.
        bytes: usize,
        /// How many are taken.
        most: usize,
    },
    /// The job has its answer already.
    Answered,
    /// ojs-init has closed the connection.
    ConnectionLost,
    /// ojs-init has not read for 10 s.
    Stalled,
}

impl SayError {
    /// Whether to say it later would not help.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            SayError::NotJson(_) | SayError::TooLong { .. } | SayError::Answered => true,
            SayError::ConnectionLost | SayError::Stalled => false,
        }
    }
}

impl fmt::Display for SayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SayError::NotJson(what) => f.write_str(what),
            SayError::TooLong { bytes, most } => {
                write!(f, "{bytes} bytes are more than ojs-init takes at once ({most})")
            }
            SayError::Answered => f.write_str("the job was answered already"),
            SayError::ConnectionLost => f.write_str("ojs-init has closed the connection: it was not sent"),
            SayError::Stalled => f.write_str("ojs-init has not read for 10 s: it does not have it yet"),
        }
    }
}

impl StdError for SayError {}
