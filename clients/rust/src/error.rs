//! What a handler returns instead of a result.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::error::Error as StdError;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

/// What a handler returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a handler has no result.
///
/// The operator `?` makes an `Error` of any standard error: the job then fails, retryable, with the
/// name of the error's type, its message, the messages of its sources and the place of the `?`.
/// Four errors mean something else, also as the source of another error: [`Retry`], [`Discard`],
/// [`Release`] and [`Cancelled`].
///
/// `Error` is not a standard error itself, as `anyhow::Error` is not.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug, Default)]
struct Inner {
    verdict: Verdict,
    message: String,
    kind: String,
    code: Option<String>,
    details: Option<Value>,
    after: Option<Duration>,
    backtrace: Vec<String>,
    origin: Origin,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Origin {
    #[default]
    Handler,
    Panic,
    Library,
}

/// What an [`Error`] does with the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The job fails, retryable, with an error that the handler did not expect.
    #[default]
    Failed,
    /// The job fails, retryable, as the handler wants it.
    Retry,
    /// The job fails for good.
    Discard,
    /// The job goes back to its queue.
    Release,
    /// The handler obeyed a cancel: the job goes back, or fails if it exceeded its timeout.
    Cancelled,
}

impl Error {
    /// What the error does with the job.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.0.verdict
    }

    /// The message for people, with those of its sources.
    #[must_use]
    pub fn message(&self) -> &str {
        if self.0.message.is_empty() { &self.0.kind } else { &self.0.message }
    }

    /// The error's class: the name of its Rust type, or what [`Retry::kind`] and [`Discard::kind`]
    /// set.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.0.kind
    }

    /// The short and stable code; `handler_error` unless [`Retry::code`] or [`Discard::code`] set
    /// another one.
    #[must_use]
    pub fn code(&self) -> &str {
        self.0.code.as_deref().unwrap_or("handler_error")
    }

    /// Where the error became an `Error`; with `RUST_BACKTRACE=1` also the stack there.
    #[must_use]
    pub fn backtrace(&self) -> &[String] {
        &self.0.backtrace
    }

    /// Converts errors that `?` does not accept: `Box<dyn Error + Send + Sync>`, `anyhow::Error`.
    #[track_caller]
    pub fn from_boxed(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        let error: Box<dyn StdError + Send + Sync> = error.into();
        Error::of(&*error, "error")
    }

    /// The same as a standard error, to pass it through functions that return their own errors. `?`
    /// in the handler finds it again among the sources.
    #[must_use]
    pub fn into_std(self) -> impl StdError + Send + Sync + 'static {
        Wrapped(self)
    }

    #[track_caller]
    fn of(error: &(dyn StdError + 'static), kind: &str) -> Error {
        let mut next = Some(error);
        while let Some(source) = next {
            if let Some(known) = known(source) {
                return known;
            }
            next = cause(source);
        }
        let backtrace = here(&Location::caller().to_string(), &Backtrace::capture());
        Inner { message: message_of(error), kind: kind.to_owned(), backtrace, ..Inner::default() }.into()
    }

    /// A failure for good that this library finds.
    pub(crate) fn found(kind: &str, code: &str, message: String) -> Error {
        let (kind, code) = (kind.to_owned(), Some(code.to_owned()));
        let origin = Origin::Library;
        Inner { verdict: Verdict::Discard, message, kind, code, origin, ..Inner::default() }.into()
    }

    /// A call of this library that can never work.
    pub(crate) fn misuse(message: &str) -> Error {
        Error::found("WrongUse", "handler_error", message.to_owned())
    }

    pub(crate) fn timed_out(&self) -> Error {
        let message = format!("the job took longer than its timeout: {}", self.message());
        Retry::new(message).code("timeout").kind("Timeout").0.into()
    }

    pub(crate) fn panicked(thrown: &(dyn Any + Send), backtrace: Vec<String>) -> Error {
        let text = thrown.downcast_ref::<&str>().copied().or(thrown.downcast_ref::<String>().map(String::as_str));
        let message = text.unwrap_or("a panic without a message").to_owned();
        Inner { message, kind: "panic".to_owned(), backtrace, origin: Origin::Panic, ..Inner::default() }.into()
    }

    pub(crate) fn is_panic(&self) -> bool {
        self.0.origin == Origin::Panic
    }

    /// Whether nobody asked for the failure, so that its stack belongs into the log.
    pub(crate) fn is_unexpected(&self) -> bool {
        self.0.verdict == Verdict::Failed || self.0.origin == Origin::Library
    }

    /// Whole milliseconds, rounded up.
    pub(crate) fn after_ms(&self) -> Option<u64> {
        let after = self.0.after.filter(|after| !after.is_zero())?;
        Some(u64::try_from(after.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }

    pub(crate) fn details(&self) -> Option<Value> {
        let mut details = self.0.details.clone();
        if let Some(after) = self.after_ms() {
            let members = details.get_or_insert_with(|| Value::Object(serde_json::Map::new()));
            if let Value::Object(members) = members {
                members.entry("retry_after_ms").or_insert_with(|| after.into());
            }
        }
        details
    }
}

impl From<Inner> for Error {
    fn from(inner: Inner) -> Error {
        Error(Box::new(inner))
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    #[track_caller]
    fn from(error: E) -> Error {
        Error::of(&error, std::any::type_name::<E>())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}: {}", self.0.verdict, self.0.kind, self.0.message)
    }
}

#[derive(Debug)]
struct Wrapped(Error);

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Wrapped {}

/// The error that a standard error stands for, if it is one of this library's.
fn known(error: &(dyn StdError + 'static)) -> Option<Error> {
    let inner = if let Some(Wrapped(error)) = error.downcast_ref() {
        return Some(error.clone());
    } else if let Some(Retry(inner)) = error.downcast_ref() {
        inner.clone()
    } else if let Some(Discard(inner)) = error.downcast_ref() {
        inner.clone()
    } else if let Some(Release(inner)) = error.downcast_ref() {
        inner.clone()
    } else {
        let message = error.downcast_ref::<Cancelled>()?.to_string();
        Inner { verdict: Verdict::Cancelled, message, kind: "Cancelled".to_owned(), ..Inner::default() }
    };
    Some(inner.into())
}

fn cause<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    // An io::Error skips the error that it was made of in `source`.
    let made_of = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    made_of.map(|made_of| made_of as &(dyn StdError + 'static)).or_else(|| error.source())
}

/// The messages of an error and of its sources, each once.
fn message_of(error: &(dyn StdError + 'static)) -> String {
    let mut message = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let text = source.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        next = source.source();
    }
    message
}

/// The lines of a backtrace: the place, and the stack if it was captured.
pub(crate) fn here(place: &str, stack: &Backtrace) -> Vec<String> {
    let mut lines = vec![place.to_owned()];
    if stack.status() == BacktraceStatus::Captured {
        lines.extend(stack.to_string().lines().map(|line| line.trim().to_owned()));
    }
    lines
}

macro_rules! outcome {
    ($name:ident) => {
        impl $name {
            /// With a message for people. For a [`Release`] that is the reason in the log.
            #[must_use]
            #[track_caller]
            pub fn new(message: impl fmt::Display) -> $name {
                $name(Inner {
                    verdict: Verdict::$name,
                    message: message.to_string(),
                    kind: stringify!($name).to_owned(),
                    backtrace: vec![Location::caller().to_string()],
                    ..Inner::default()
                })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0.message)
            }
        }

        impl StdError for $name {}
    };
}

macro_rules! failure {
    ($name:ident) => {
        impl $name {
            /// Because of another error, whose type and messages it takes over.
            #[must_use]
            #[track_caller]
            pub fn because<E: StdError + Send + Sync + 'static>(error: E) -> $name {
                let kind = std::any::type_name::<E>().to_owned();
                $name(Inner { verdict: Verdict::$name, kind, ..*Error::from(error).0 })
            }

            /// A short and stable code; your own begin with `x_`. The default is `handler_error`.
            #[must_use]
            pub fn code(mut self, code: &str) -> $name {
                self.0.code = Some(code.to_owned());
                self
            }

            /// The error's class; the default is the name of this type.
            #[must_use]
            pub fn kind(mut self, kind: &str) -> $name {
                self.0.kind = kind.to_owned();
                self
            }

            /// More about the failure: a map or a struct. What is not JSON is left out.
            #[must_use]
            pub fn details(mut self, details: impl Serialize) -> $name {
                self.0.details = serde_json::to_value(details).ok();
                self
            }
        }
    };
}

/// Fails the job; the backend's retry policy decides about another attempt.
#[derive(Clone, Debug)]
pub struct Retry(Inner);

/// Fails the job for good, because another attempt would not help.
#[derive(Clone, Debug)]
pub struct Discard(Inner);

/// Gives the job back to its queue. No attempt is counted where the backend can do that.
#[derive(Clone, Debug)]
pub struct Release(Inner);

outcome!(Retry);
outcome!(Discard);
outcome!(Release);
failure!(Retry);
failure!(Discard);

impl Retry {
    /// How long the next attempt should wait, in whole milliseconds, rounded up. It is sent as
    /// `details.retry_after_ms`; the backend's retry policy decides whether it counts.
    #[must_use]
    pub fn after(mut self, after: Duration) -> Retry {
        self.0.after = Some(after);
        self
    }
}

impl Release {
    /// How long ojs-init holds the job before it goes back: 30 s at most.
    #[must_use]
    pub fn after(mut self, after: Duration) -> Release {
        self.0.after = Some(after);
        self
    }
}

/// The job is cancelled: [`Job::check`](crate::Job::check) and [`Job::sleep`](crate::Job::sleep)
/// return this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancelled {
    pub(crate) reason: String,
}

impl Cancelled {
    /// `shutdown`, `timeout`, `cancelled`, `lost`, or a reason that a later ojs-init has.
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

/// What [`Worker::run`](crate::Worker::run) returns when it did not end well.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RunError {
    /// There is no ojs-init to take jobs from.
    NotUnderOjsInit(String),
    /// The worker has no handler.
    NoHandler,
    /// ojs-init closed the connection while this many jobs were held. The process must end; never
    /// connect again.
    ConnectionLost(usize),
    /// ojs-init speaks another version of the protocol.
    Protocol(String),
    /// The system refused a thread or a signal handler.
    System(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::NotUnderOjsInit(text) | RunError::Protocol(text) | RunError::System(text) => f.write_str(text),
            RunError::NoHandler => f.write_str("the worker has no handler: register one with `handle` before `run`"),
            RunError::ConnectionLost(jobs) => {
                write!(f, "ojs-init closed the connection while {jobs} jobs were held")
            }
        }
    }
}

impl StdError for RunError {}
