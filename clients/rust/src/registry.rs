//! The handlers of a worker, and what is around them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Once};

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tracing::error;

use crate::error::{Error, Result};
use crate::frame;
use crate::job::Job;
use crate::log::guarded;

pub(crate) const ANY_TYPE: &str = "*";

pub(crate) type Handler = Arc<dyn Fn(&Job) -> Result<Output> + Send + Sync>;
pub(crate) type Middleware = Arc<dyn Fn(&Job, Next<'_>) -> Result<Output> + Send + Sync>;

#[derive(Clone, Default)]
pub(crate) struct Registry {
    /// The most jobs at once; `None` for as many as ojs-init allows.
    pub(crate) concurrency: Option<usize>,
    pub(crate) handlers: BTreeMap<String, Handler>,
    pub(crate) middleware: Vec<Middleware>,
}

impl Registry {
    /// The handler of a job type with the middleware around it.
    pub(crate) fn handler(&self, kind: &str) -> Option<Next<'_>> {
        let handler = self.handlers.get(kind).or_else(|| self.handlers.get(ANY_TYPE))?;
        Some(Next { middleware: &self.middleware, handler })
    }

    pub(crate) fn ready(&self, concurrency: usize) -> Vec<u8> {
        let takes_any = self.handlers.contains_key(ANY_TYPE);
        frame::ready(concurrency, (!takes_any).then(|| self.handlers.keys().collect()))
    }
}

/// The next middleware, or the handler.
pub struct Next<'a> {
    middleware: &'a [Middleware],
    handler: &'a Handler,
}

impl Next<'_> {
    /// Runs it and returns its result.
    ///
    /// # Errors
    /// Those of the handler and of the middleware inside; panics are errors, too.
    pub fn run(self, job: &Job) -> Result<Output> {
        let called = panic::catch_unwind(AssertUnwindSafe(|| match self.middleware.split_first() {
            Some((first, middleware)) => first(job, Next { middleware, handler: self.handler }),
            None => (self.handler)(job),
        }));
        called.unwrap_or_else(|thrown| {
            let text = thrown.downcast_ref::<&str>().copied().or(thrown.downcast_ref::<String>().map(String::as_str));
            let error = Error::panicked(text.unwrap_or("a panic without a message"), PLACE.take());
            // Dropping it might panic again.
            std::mem::forget(thrown);
            Err(error)
        })
    }
}

thread_local! {
    /// Where this thread panicked last: only the panic hook learns that.
    static PLACE: Cell<String> = const { Cell::new(String::new()) };
}

/// Adds a panic hook in front of the one that is there, once.
pub(crate) fn watch_panics() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let _ = PLACE.try_with(|place| place.set(info.location().map(ToString::to_string).unwrap_or_default()));
            before(info);
        }));
    });
}

/// The JSON of a handler's result, as middleware sees it.
#[derive(Clone, Debug)]
pub struct Output(Option<Box<RawValue>>);

impl Output {
    /// The JSON of a value; `()` is no result. NaN is null, as in `serde_json`.
    ///
    /// # Errors
    /// The value is not JSON: a map whose keys are not strings, or an error of its own `Serialize`.
    pub fn of(value: &(impl Serialize + ?Sized)) -> Result<Output> {
        let json = to_raw_value(value)?;
        Ok(Output(Some(json).filter(|json| json.get() != "null")))
    }

    /// The work is done, so a result that is not JSON must not fail the job.
    pub(crate) fn of_result<T: Serialize>(value: &T) -> Output {
        Output::of(value).unwrap_or_else(|_| {
            let class = std::any::type_name::<T>();
            guarded(|| error!("the result ({class}) is not JSON: the job is acknowledged without it"));
            Output(None)
        })
    }

    /// The JSON text; `None` if there is no result.
    pub fn text(&self) -> Option<&str> {
        self.0.as_deref().map(RawValue::get)
    }
}
