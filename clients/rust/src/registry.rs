//! The handlers of a worker, and what is around them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use tracing::error;

use crate::error::{Error, Result};
use crate::frame;
use crate::job::Job;
use crate::log::guarded;
use crate::resume::StepTimes;

pub(crate) const ANY_TYPE: &str = "*";

pub(crate) type Handler = Arc<dyn Fn(&Job) -> Result<Output> + Send + Sync>;
pub(crate) type Middleware = Arc<dyn Fn(&Job, Next<'_>) -> Result<Output> + Send + Sync>;
pub(crate) type FailureHook = Arc<dyn Fn(&Job, &Error) + Send + Sync>;

#[derive(Clone, Default)]
pub(crate) struct Registry {
    /// The most jobs at once; `None` for as many as ojs-init allows.
    pub(crate) concurrency: Option<usize>,
    pub(crate) handlers: BTreeMap<String, Handler>,
    pub(crate) middleware: Vec<Middleware>,
    pub(crate) failure_hooks: Vec<FailureHook>,
    pub(crate) step_times: Arc<StepTimes>,
}

impl Registry {
    pub(crate) fn handler(&self, kind: &str) -> Option<&Handler> {
        self.handlers.get(kind).or_else(|| self.handlers.get(ANY_TYPE))
    }

    pub(crate) fn call(&self, job: &Job) -> Result<Output> {
        match self.handler(job.kind()) {
            Some(handler) => Next { middleware: &self.middleware, handler }.run(job),
            None => Err(Error::misuse("the job has no handler")),
        }
    }

    pub(crate) fn ready(&self, concurrency: usize) -> Vec<u8> {
        let takes_any = self.handlers.contains_key(ANY_TYPE);
        frame::ready(concurrency, (!takes_any).then(|| self.handlers.keys().map(String::as_str).collect()))
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
    /// Those of the handler and of the middleware inside.
    pub fn run(self, job: &Job) -> Result<Output> {
        match self.middleware.split_first() {
            Some((first, middleware)) => first(job, Next { middleware, handler: self.handler }),
            None => (self.handler)(job),
        }
    }
}

/// The JSON of a handler's result, as middleware sees it.
#[derive(Clone, Debug, Default)]
pub struct Output(Option<Box<RawValue>>);

impl Output {
    /// No result.
    #[must_use]
    pub fn none() -> Output {
        Output(None)
    }

    /// The JSON of a value. As in `serde_json`, NaN is null.
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
            Output::none()
        })
    }

    /// The result as a type of the program; `null` if there is none.
    ///
    /// # Errors
    /// The result does not fit into the type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.text().unwrap_or("null"))
    }

    /// The JSON text; `None` if there is no result.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.0.as_deref().map(RawValue::get)
    }
}
