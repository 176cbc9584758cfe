//! For tests of handlers: what [`Worker::perform`](crate::Worker::perform) takes and gives, and a
//! backend for more.

mod devserver;

use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::{Map, Value};

pub use devserver::{DevServer, DevServerError};

use crate::json::{self, MAX_DEPTH};

/// A job for [`Worker::perform_delivery`](crate::Worker::perform_delivery), and what happens while
/// it runs.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub(crate) kind: String,
    pub(crate) args: String,
    pub(crate) id: String,
    pub(crate) queue: String,
    pub(crate) attempt: u32,
    pub(crate) meta: Value,
    pub(crate) checkpoint: Option<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) stop: Option<Stop>,
    pub(crate) cancel: Option<(String, Duration)>,
    pub(crate) patience: Option<Duration>,
    pub(crate) time_limit: Option<Duration>,
}

#[derive(Clone, Debug)]
pub(crate) struct Stop {
    pub(crate) remaining: Duration,
}

impl Delivery {
    /// A job of that type with those arguments, a tuple or an array: `test-job` of the queue
    /// `default`, at its first attempt.
    ///
    /// # Errors
    /// The arguments are no JSON, or no array.
    pub fn new(kind: &str, args: impl Serialize) -> Result<Delivery, PerformError> {
        let no_json = |why: String| PerformError(format!("the arguments of the job are not JSON: {why}"));
        let args = json::encode(&args, MAX_DEPTH - 2).map_err(no_json)?;
        let args = match args.as_str() {
            "null" => "[]".to_owned(),
            text if text.starts_with('[') => args,
            _ => return Err(PerformError("the arguments of a job are a tuple or an array: (\"a@b.c\",)".to_owned())),
        };
        Ok(Delivery {
            kind: kind.to_owned(),
            args,
            id: "test-job".to_owned(),
            queue: "default".to_owned(),
            attempt: 1,
            meta: Value::Null,
            checkpoint: None,
            timeout: None,
            stop: None,
            cancel: None,
            patience: None,
            time_limit: None,
        })
    }

    /// Another id.
    #[must_use]
    pub fn id(mut self, id: &str) -> Delivery {
        self.id = id.to_owned();
        self
    }

    /// Another queue.
    #[must_use]
    pub fn queue(mut self, queue: &str) -> Delivery {
        self.queue = queue.to_owned();
        self
    }

    /// Another attempt.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Delivery {
        self.attempt = attempt;
        self
    }

    /// Metadata, an object.
    #[must_use]
    pub fn meta(mut self, meta: Map<String, Value>) -> Delivery {
        self.meta = Value::Object(meta);
        self
    }

    /// What an earlier attempt saved, as [`Outcome::checkpoints`] has it.
    #[must_use]
    pub fn checkpoint(mut self, state: Option<&Value>) -> Delivery {
        self.checkpoint = state.map(Value::to_string);
        self
    }

    /// The job's timeout: it is cancelled then.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Delivery {
        self.timeout = Some(timeout);
        self
    }

    /// Lets the worker be shut down as the handler begins, with so much time left. Then the job is
    /// cancelled.
    #[must_use]
    pub fn stop_in(mut self, remaining: Duration) -> Delivery {
        self.stop = Some(Stop { remaining });
        self
    }

    /// Cancels the job, so long after its handler has begun.
    #[must_use]
    pub fn cancel(mut self, reason: &str, after: Duration) -> Delivery {
        self.cancel = Some((reason.to_owned(), after));
        self
    }

    /// How long the handler may take to end after a cancel; 5 s.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Delivery {
        self.patience = Some(patience);
        self
    }

    /// How long the handler may take in all before the test gives up; 60 s.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Delivery {
        self.time_limit = Some(limit);
        self
    }
}

/// What became of a job.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// ack, fail or release.
    pub outcome: String,
    /// The error of a fail.
    pub error: Option<Failed>,
    /// The reason of a release.
    pub reason: String,
    /// All that were saved, in their order.
    pub checkpoints: Vec<Value>,
    /// All that was said.
    pub progress: Vec<Progress>,
    /// How many there were.
    pub heartbeats: usize,
    pub(crate) result: Value,
}

impl Outcome {
    /// The result of an ack as a type of your own; `null` if it has none.
    ///
    /// # Errors
    /// The outcome is another one, or the result does not fit into the type.
    pub fn result<T: DeserializeOwned>(&self) -> Result<T, PerformError> {
        if self.outcome != "ack" {
            return Err(PerformError(format!("the job has no result: its outcome is {self:?}")));
        }
        serde_json::from_value(self.result.clone()).map_err(|error| PerformError(format!("the result: {error}")))
    }

    /// The newest checkpoint, for [`Delivery::checkpoint`] of the next attempt.
    #[must_use]
    pub fn last_checkpoint(&self) -> Option<&Value> {
        self.checkpoints.last()
    }
}

/// What the backend would be told about an error.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failed {
    /// For a person.
    pub message: String,
    /// Short and stable.
    pub code: String,
    /// The error's class.
    pub kind: String,
    /// Whether another attempt may help.
    pub retryable: bool,
    /// Anything more; null if there is nothing.
    pub details: Value,
    /// Where it arose, the innermost call first.
    pub backtrace: Vec<String>,
}

impl Failed {
    pub(crate) fn read(error: &Value) -> Failed {
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        let lines = error["backtrace"].as_array().into_iter().flatten();
        Failed {
            message: text("message"),
            code: text("code"),
            kind: text("type"),
            retryable: error["retryable"].as_bool().unwrap_or(true),
            details: error["details"].clone(),
            backtrace: lines.filter_map(Value::as_str).map(ToOwned::to_owned).collect(),
        }
    }
}

/// One call of [`Job::progress`](crate::Job::progress).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// From 0 to 1.
    pub progress: f64,
    /// In words; empty if there were none.
    pub message: String,
    /// What came with it; null if nothing did.
    pub data: Value,
}

/// What is wrong with a test.
#[derive(Clone, Debug)]
pub struct PerformError(pub(crate) String);

impl fmt::Display for PerformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PerformError {}
