//! The handlers of a worker, and what is around them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::error::Result;
use crate::job::Job;
use crate::output::Output;
use crate::resume::Mark;
use crate::worker::Options;

pub(crate) const PROTOCOL: i64 = 1;
pub(crate) const MOST_CONCURRENCY: usize = 10_000;
pub(crate) const MOST_TYPES: usize = 10_000;
pub(crate) const ANY_TYPE: &str = "*";

pub(crate) type Handler = Arc<dyn Fn(&Job) -> Result<Output> + Send + Sync>;
pub(crate) type Middleware = Arc<dyn Fn(&Job, Next<'_>) -> Result<Output> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Registry {
    pub(crate) options: Options,
    pub(crate) handlers: BTreeMap<String, Handler>,
    pub(crate) middleware: Vec<Middleware>,
}

/// What is further inside: the next middleware, or the handler.
pub struct Next<'a> {
    middleware: &'a [Middleware],
    handler: &'a Handler,
    /// Where the first call began.
    mark: OnceLock<Mark>,
}

impl<'a> Next<'a> {
    fn new(middleware: &'a [Middleware], handler: &'a Handler) -> Next<'a> {
        Next { middleware, handler, mark: OnceLock::new() }
    }
}

impl Next<'_> {
    /// Runs it, and gives its result. It may be called again when it has failed: steps and rows
    /// that are finished by then are not done again.
    ///
    /// # Errors
    /// Those of the handler, and of the middleware further inside.
    pub fn run(&self, job: &Job) -> Result<Output> {
        match self.mark.get() {
            Some(mark) => job.rewind(mark),
            None => drop(self.mark.set(job.mark())),
        }
        match self.middleware.split_first() {
            Some((first, rest)) => first(job, Next::new(rest, self.handler)),
            None => (self.handler)(job),
        }
    }
}

impl Registry {
    pub(crate) fn handler(&self, kind: &str) -> Option<&Handler> {
        self.handlers.get(kind).or_else(|| self.handlers.get(ANY_TYPE))
    }

    pub(crate) fn perform(&self, job: &Job) -> Result<Output> {
        match self.handler(job.kind()) {
            Some(handler) => Next::new(&self.middleware, handler).run(job),
            None => Err(crate::error::Retry::new("this worker has no handler for the job").into()),
        }
    }

    /// The frame that says what we take.
    pub(crate) fn ready(&self, concurrency: usize) -> Vec<u8> {
        let mut ready = serde_json::json!({
            "type": "ready",
            "protocol": PROTOCOL,
            "concurrency": concurrency,
            "ping": true,
            // Nothing is done at one.
            "ok": false,
            "client": concat!("ojs-worker-rust/", env!("CARGO_PKG_VERSION")),
        });
        if !self.handlers.contains_key(ANY_TYPE) {
            ready["types"] = self.handlers.keys().cloned().collect();
        }
        format!("{ready}\n").into_bytes()
    }
}
