//! What a handler returns instead of a result.

use std::error::Error as StdError;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

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
#[derive(Debug)]
pub struct Error(pub(crate) Box<Inner>);

#[derive(Clone, Debug)]
pub(crate) struct Inner {
    verdict: Verdict,
    message: String,
    kind: String,
    code: String,
    pub(crate) details: Map<String, Value>,
    /// Where it arose in the program, `file:line:column`; empty if that is not known.
    pub(crate) place: String,
    /// The handler asked for this, so nobody has to look at its stack.
    pub(crate) is_expected: bool,
}

/// What an [`Error`] does with the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The job fails, retryable, with an error that the handler did not expect.
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

impl Inner {
    #[track_caller]
    fn new(verdict: Verdict, message: impl fmt::Display, kind: &str) -> Box<Inner> {
        let (message, kind, code) = (message.to_string(), kind.to_owned(), "handler_error".to_owned());
        let (details, place, is_expected) = (Map::new(), Location::caller().to_string(), verdict != Verdict::Failed);
        Box::new(Inner { verdict, message, kind, code, details, place, is_expected })
    }

    /// Whole milliseconds, rounded up; none for 0.
    fn set_millis(&mut self, name: &str, after: Duration) {
        let millis = u64::try_from(after.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        self.details.extend((millis > 0).then(|| (name.to_owned(), millis.into())));
    }
}

impl Error {
    /// What the error does with the job.
    pub fn verdict(&self) -> Verdict {
        self.0.verdict
    }

    /// The message for people, with those of its sources.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The error's class: the name of its Rust type, or what [`Retry::kind`] and [`Discard::kind`]
    /// set.
    pub fn kind(&self) -> &str {
        &self.0.kind
    }

    /// Converts errors that `?` does not accept: `Box<dyn Error + Send + Sync>`, `anyhow::Error`.
    #[track_caller]
    pub fn from_boxed(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        Error::of(&*error.into(), "error")
    }

    #[track_caller]
    fn of(error: &(dyn StdError + 'static), kind: &str) -> Error {
        let (mut message, mut next) = (error.to_string(), Some(error));
        while let Some(source) = next {
            let retry = source.downcast_ref().map(|Retry(inner)| inner);
            let discard = source.downcast_ref().map(|Discard(inner)| inner);
            let release = source.downcast_ref().map(|Release(inner)| inner);
            let cancelled = source.downcast_ref().map(|Cancelled(inner)| inner);
            if let Some(inner) = retry.or(discard).or(release).or(cancelled) {
                return Error(inner.clone());
            }
            let text = source.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            // An io::Error skips the error that it was made of in `source`.
            let made_of = source.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
            next = made_of.map(|made_of| made_of as _).or_else(|| source.source());
        }
        Error(Inner::new(Verdict::Failed, message, kind))
    }

    /// A failure for good that this library finds.
    pub(crate) fn found(Discard(mut inner): Discard) -> Error {
        inner.is_expected = false;
        Error(inner).without_place()
    }

    /// A call of this library that can never work.
    pub(crate) fn misuse(message: impl fmt::Display) -> Error {
        Error::found(Discard::new(message).kind("WrongUse"))
    }

    pub(crate) fn panicked(message: &str) -> Error {
        Error(Inner::new(Verdict::Failed, message, "panic")).without_place()
    }

    /// For an error that arises in this library: its place tells the program nothing.
    pub(crate) fn without_place(mut self) -> Error {
        self.0.place.clear();
        self
    }

    /// The `error` of a `fail` frame.
    pub(crate) fn to_json(&self) -> String {
        let Inner { verdict, message, kind, code, details, place, .. } = &*self.0;
        let (details, place) = ((!details.is_empty()).then_some(details), (!place.is_empty()).then_some([place]));
        // ojs-init reads the beginning of a line that is too long, so what decides comes first. A
        // `Value` would sort the members by their names.
        let first = format!("\"retryable\":{},\"code\":{}", *verdict != Verdict::Discard, json!(code));
        let then = format!("\"type\":{},\"message\":{}", json!(kind), json!(message));
        format!("{{{first},{then},\"backtrace\":{},\"details\":{}}}", json!(place), json!(details))
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

macro_rules! outcomes {
    ($($(#[$doc:meta])* $name:ident)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name(Box<Inner>);

        impl $name {
            /// With a message for people. Of a [`Release`] and a [`Cancelled`] that is the reason.
            #[track_caller]
            pub fn new(message: impl fmt::Display) -> $name {
                $name(Inner::new(Verdict::$name, message, stringify!($name)))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0.message)
            }
        }

        impl StdError for $name {}
    )* };
}

outcomes! {
    /// Fails the job; the backend's retry policy decides about another attempt.
    Retry
    /// Fails the job for good, because another attempt would not help.
    Discard
    /// Gives the job back to its queue. No attempt is counted where the backend can do that.
    Release
    /// The job is cancelled: [`Job::check`](crate::Job::check) and [`Job::sleep`](crate::Job::sleep)
    /// return this.
    Cancelled
}

macro_rules! failures {
    ($($name:ident)*) => { $(
        impl $name {
            /// Because of another error, whose type and messages it takes over.
            #[track_caller]
            pub fn because<E: StdError + Send + Sync + 'static>(error: E) -> $name {
                let Error(inner) = Error::from(error);
                $name(Box::new(Inner { verdict: Verdict::$name, is_expected: true, ..*inner }))
            }

            /// A short and stable code; your own begin with `x_`. The default is `handler_error`.
            pub fn code(mut self, code: &str) -> $name {
                code.clone_into(&mut self.0.code);
                self
            }

            /// The error's class; the default is the name of this type.
            pub fn kind(mut self, kind: &str) -> $name {
                kind.clone_into(&mut self.0.kind);
                self
            }

            /// More about the failure: a map or a struct. What is no JSON object is left out.
            pub fn details(mut self, details: impl Serialize) -> $name {
                if let Ok(Value::Object(details)) = serde_json::to_value(details) {
                    self.0.details.extend(details);
                }
                self
            }
        }
    )* };
}

failures! { Retry Discard }

impl Retry {
    /// How long the next attempt should wait, in whole milliseconds, rounded up. It is sent as
    /// `details.retry_after_ms`; the backend's retry policy decides whether it counts.
    pub fn after(mut self, after: Duration) -> Retry {
        self.0.set_millis("retry_after_ms", after);
        self
    }
}

impl Release {
    /// How long ojs-init holds the job before it goes back: 30 s at most.
    pub fn after(mut self, after: Duration) -> Release {
        self.0.set_millis("after_ms", after);
        self
    }
}

impl Cancelled {
    /// `shutdown`, `timeout`, `cancelled`, `lost`, or a reason that a later ojs-init has.
    pub fn reason(&self) -> &str {
        &self.0.message
    }
}
