//! The handlers of a worker, and what is around them.

use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tracing::error;

use crate::error::{Error, Result};
use crate::{job::Job, log::guarded};

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

    /// The frame that says what this worker takes.
    pub(crate) fn ready(&self, concurrency: usize) -> Vec<u8> {
        let client = concat!("ojs-worker-rust/", env!("CARGO_PKG_VERSION"));
        let mut ready = json!({"type": "ready", "protocol": 1, "concurrency": concurrency, "client": client});
        // The reader answers pings whatever handlers do, and nothing is done with an `ok`.
        (ready["ping"], ready["ok"]) = (true.into(), false.into());
        if !self.handlers.contains_key(ANY_TYPE) {
            ready["types"] = self.handlers.keys().cloned().collect();
        }
        format!("{ready}\n").into_bytes()
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
            let error = Error::panicked(text.unwrap_or("a panic without a message"));
            // Dropping it might panic again.
            std::mem::forget(thrown);
            Err(error)
        })
    }
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
