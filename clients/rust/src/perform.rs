//! Runs a handler in a test, over the path that serves the socket.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::panics;
use crate::session::Session;
use crate::worker::Worker;

impl Worker {
    /// Runs a handler as for a job from ojs-init, with middleware, errors and panics; arguments and
    /// result go through JSON. `args` is a tuple or an array.
    ///
    /// ```
    /// # let mut worker = ojs_worker::Worker::new();
    /// # worker.handle_typed("email.send", |_, (to, _): (String, String)| Ok(to));
    /// let outcome = worker.perform("email.send", ("a@b.c", "hello")).unwrap();
    /// assert_eq!(outcome.result::<String>().unwrap(), "a@b.c");
    /// ```
    ///
    /// # Errors
    /// The arguments are no JSON array, or the handler does not end within 60 s. An error of the
    /// handler is in the outcome.
    pub fn perform(&self, kind: &str, args: impl Serialize) -> Result<Outcome, PerformError> {
        self.perform_delivery(&Delivery::new(kind, args)?)
    }

    /// [`Worker::perform`] for a job with a timeout, a checkpoint, a cancel or a shutdown.
    ///
    /// # Errors
    /// As for [`Worker::perform`].
    pub fn perform_delivery(&self, delivery: &Delivery) -> Result<Outcome, PerformError> {
        panics::install();
        let (ours, theirs) = UnixStream::pair()?;
        let session = Session::start(Arc::clone(&self.registry), theirs)?;
        let played = Player { socket: BufReader::new(ours), line: Vec::new() }.play(delivery);
        drop(session);
        played
    }
}

/// Plays ojs-init for one job.
struct Player {
    socket: BufReader<UnixStream>,
    line: Vec<u8>,
}

impl Player {
    fn play(&mut self, delivery: &Delivery) -> Result<Outcome, PerformError> {
        self.send(&[json!({"type": "hello", "protocol": 1, "state": "running", "concurrency": 1})])?;
        // The shutdown follows the job in the same write, to come as early as it can.
        let terminate = delivery.stop_in.map(|stop_in| {
            json!({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": millis(stop_in)})
        });
        let frames: Vec<Value> = std::iter::once(delivery.frame()).chain(terminate).collect();
        self.send(&frames)?;
        let began = Instant::now();
        let mut cancels = delivery.cancels();
        let mut outcome = Outcome::default();
        while outcome.outcome.is_empty() {
            if began.elapsed() >= delivery.time_limit {
                let (kind, limit) = (&delivery.kind, delivery.time_limit);
                return Err(PerformError(format!("the handler of {kind} has not ended after {limit:?}")));
            }
            match cancels.first() {
                Some((at, reason)) if began.elapsed() >= *at => {
                    self.send(&[json!({"type": "cancel", "job_id": delivery.id, "reason": reason, "grace_ms": 1000})])?;
                    cancels.remove(0);
                }
                next => {
                    let until = next.map_or(delivery.time_limit, |(at, _)| delivery.time_limit.min(*at));
                    self.receive(until.saturating_sub(began.elapsed()), &mut outcome)?;
                }
            }
        }
        Ok(outcome)
    }

    fn send(&mut self, frames: &[Value]) -> io::Result<()> {
        let lines: String = frames.iter().map(|frame| format!("{frame}\n")).collect();
        self.socket.get_mut().write_all(lines.as_bytes())
    }

    /// Takes the next frame, if one comes in that time.
    fn receive(&mut self, most: Duration, outcome: &mut Outcome) -> Result<(), PerformError> {
        self.socket.get_ref().set_read_timeout(Some(most.max(Duration::from_millis(1))))?;
        match self.socket.read_until(b'\n', &mut self.line) {
            Ok(0) => return Err(PerformError("the worker closed the connection to the test".to_owned())),
            Ok(_) => outcome.take(serde_json::from_slice(&self.line)?),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        self.line.clear();
        Ok(())
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A job for [`Worker::perform_delivery`], and what happens while it runs.
#[derive(Clone, Debug)]
pub struct Delivery {
    id: String,
    kind: String,
    envelope: Map<String, Value>,
    checkpoint: Value,
    timeout: Option<Duration>,
    stop_in: Option<Duration>,
    cancel: Option<(String, Duration)>,
    time_limit: Duration,
}

impl Delivery {
    /// The first attempt of the job `test-job` with that type and those arguments, a tuple or an
    /// array.
    ///
    /// # Errors
    /// The arguments are no JSON array.
    pub fn new(kind: &str, args: impl Serialize) -> Result<Delivery, PerformError> {
        let args = match serde_json::to_value(args)? {
            Value::Null => json!([]),
            args @ Value::Array(_) => args,
            _ => return Err(PerformError("the arguments are a tuple or an array: (\"a@b.c\",)".to_owned())),
        };
        let delivery = Delivery {
            id: "test-job".to_owned(),
            kind: kind.to_owned(),
            envelope: Map::new(),
            checkpoint: Value::Null,
            timeout: None,
            stop_in: None,
            cancel: None,
            time_limit: Duration::from_secs(60),
        };
        Ok(delivery.field("type", kind).field("args", args).field("attempt", 1).id("test-job"))
    }

    /// Another id.
    #[must_use]
    pub fn id(mut self, id: &str) -> Delivery {
        id.clone_into(&mut self.id);
        self.field("id", id)
    }

    /// Any field of the envelope: `queue`, `attempt`, `max_attempts`, `meta`.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl Into<Value>) -> Delivery {
        self.envelope.insert(name.to_owned(), value.into());
        self
    }

    /// What an earlier attempt saved: [`Outcome::last_checkpoint`].
    #[must_use]
    pub fn checkpoint(mut self, state: Option<&Value>) -> Delivery {
        self.checkpoint = state.cloned().unwrap_or_default();
        self
    }

    /// The timeout of the job: it is cancelled then.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Delivery {
        self.timeout = Some(timeout);
        self.field("timeout_ms", millis(timeout))
    }

    /// Shuts the worker down about when the handler begins, with so much time left; then the job is
    /// cancelled.
    #[must_use]
    pub fn stop_in(mut self, remaining: Duration) -> Delivery {
        self.stop_in = Some(remaining);
        self
    }

    /// Cancels the job after that time.
    #[must_use]
    pub fn cancel(mut self, reason: &str, after: Duration) -> Delivery {
        self.cancel = Some((reason.to_owned(), after));
        self
    }

    /// The time after which the test gives up; 60 s unless it is set.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Delivery {
        self.time_limit = limit;
        self
    }

    fn frame(&self) -> Value {
        json!({"type": "job", "job": self.envelope, "checkpoint": self.checkpoint})
    }

    /// The cancels, the earliest first.
    fn cancels(&self) -> Vec<(Duration, String)> {
        let timeout = self.timeout.map(|at| (at, "timeout".to_owned()));
        let shutdown = self.stop_in.map(|at| (at, "shutdown".to_owned()));
        let cancel = self.cancel.clone().map(|(reason, at)| (at, reason));
        let mut cancels: Vec<_> = [timeout, shutdown, cancel].into_iter().flatten().collect();
        cancels.sort();
        cancels
    }
}

/// What became of a job.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// `ack`, `fail` or `release`.
    pub outcome: String,
    /// The error of a fail.
    pub error: Option<Failed>,
    /// The reason of a release.
    pub reason: String,
    /// All checkpoints, in their order.
    pub checkpoints: Vec<Value>,
    /// All calls of [`Job::progress`](crate::Job::progress).
    pub progress: Vec<Progress>,
    /// The number of heartbeats.
    pub heartbeats: usize,
    result: Value,
}

impl Outcome {
    /// The result of an ack; `null` if there is none.
    ///
    /// # Errors
    /// The outcome is another one, or the result does not fit into the type.
    pub fn result<T: DeserializeOwned>(&self) -> Result<T, PerformError> {
        if self.outcome != "ack" {
            return Err(PerformError(format!("the job has no result: {self:?}")));
        }
        Ok(T::deserialize(&self.result)?)
    }

    /// The newest checkpoint, for [`Delivery::checkpoint`] of the next attempt.
    #[must_use]
    pub fn last_checkpoint(&self) -> Option<&Value> {
        self.checkpoints.last()
    }

    fn take(&mut self, mut frame: Value) {
        let text = |name: &str| frame[name].as_str().unwrap_or_default().to_owned();
        match text("type").as_str() {
            "progress" => self.progress.extend(Progress::deserialize(&frame)),
            "checkpoint" => self.checkpoints.push(frame["state"].take()),
            "heartbeat" => self.heartbeats += 1,
            kind @ ("ack" | "fail" | "release") => {
                kind.clone_into(&mut self.outcome);
                self.reason = text("reason");
                self.error = Failed::deserialize(&frame["error"]).ok();
                self.result = frame["result"].take();
            }
            _ => {}
        }
    }
}

/// The error of a job that failed, as ojs-init gets it.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Failed {
    /// For people.
    pub message: String,
    /// Short and stable.
    pub code: String,
    /// The error's class.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// Whether another attempt may help.
    pub retryable: bool,
    /// More about it; null if there is nothing.
    #[serde(default)]
    pub details: Value,
    /// Where it arose.
    #[serde(default)]
    pub backtrace: Vec<String>,
}

/// One call of [`Job::progress`](crate::Job::progress).
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Progress {
    /// From 0 to 1.
    pub progress: f64,
    /// For people.
    pub message: String,
    /// What came with it; null if there is nothing.
    #[serde(default)]
    pub data: Value,
}

/// What is wrong with a test.
#[derive(Clone, Debug)]
pub struct PerformError(String);

impl fmt::Display for PerformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PerformError {}

impl From<io::Error> for PerformError {
    fn from(error: io::Error) -> PerformError {
        PerformError(format!("the test has no socket or thread: {error}"))
    }
}

impl From<serde_json::Error> for PerformError {
    fn from(error: serde_json::Error) -> PerformError {
        PerformError(format!("JSON: {error}"))
    }
}
