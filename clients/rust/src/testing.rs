//! Runs a handler in a test, over the path that serves the socket.

use std::io::{self, BufRead, BufReader, Write as _};
use std::mem;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::registry::watch_panics;
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
    pub fn perform(&self, kind: &str, args: impl Serialize) -> Result<Outcome> {
        self.perform_delivery(&Delivery::new(kind, args)?)
    }

    /// [`Worker::perform`] for a job with a timeout, a checkpoint, a cancel or a shutdown.
    ///
    /// # Errors
    /// As for [`Worker::perform`].
    pub fn perform_delivery(&self, delivery: &Delivery) -> Result<Outcome> {
        watch_panics();
        let (mut socket, theirs) = UnixStream::pair()?;
        Session::start(Arc::clone(&self.registry), theirs)?;
        socket.write_all(delivery.frames().as_bytes())?;
        let (mut lines, mut line) = (BufReader::new(socket.try_clone()?), Vec::new());
        let (mut outcome, began) = (Outcome::default(), Instant::now());
        let mut cancel = delivery.cancel.or(delivery.stop_in.map(|stop_in| ("shutdown", stop_in)));
        while outcome.outcome.is_empty() {
            let until = cancel.map_or(delivery.time_limit, |(_, at)| at.min(delivery.time_limit));
            let patience = until.saturating_sub(began.elapsed());
            if patience.is_zero() {
                let late = Error::misuse(format_args!("the handler has not ended after {:?}", delivery.time_limit));
                let (reason, _) = cancel.take().ok_or(late)?;
                let cancel = json!({"type": "cancel", "job_id": delivery.job["id"], "reason": reason});
                socket.write_all(format!("{cancel}\n").as_bytes())?;
                continue;
            }
            socket.set_read_timeout(Some(patience))?;
            match lines.read_until(b'\n', &mut line) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                read => read?,
            };
            outcome.take(serde_json::from_slice(&line)?)?;
            line.clear();
        }
        Ok(outcome)
    }
}

/// A job for [`Worker::perform_delivery`], and what happens while it runs. Set the fields as you
/// need them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Delivery {
    /// The envelope: `id`, `type`, `attempt` and `args`, and what you add, like `max_attempts`,
    /// `timeout_ms` or `meta`.
    pub job: Value,
    /// What an earlier attempt saved: [`Outcome::last_checkpoint`].
    pub checkpoint: Option<Value>,
    /// Shuts the worker down about when the handler begins, with so much time left; then the job is
    /// cancelled.
    pub stop_in: Option<Duration>,
    /// Cancels the job for a reason (`timeout`, `cancelled`, `lost`, `shutdown`) after a time.
    pub cancel: Option<(&'static str, Duration)>,
    /// The time after which the test gives up; 60 s.
    pub time_limit: Duration,
}

impl Delivery {
    /// The first attempt of the job `test-job` with that type and those arguments, a tuple or an
    /// array.
    ///
    /// # Errors
    /// The arguments are no JSON array.
    pub fn new(kind: &str, args: impl Serialize) -> Result<Delivery> {
        let args = match serde_json::to_value(args)? {
            Value::Null => json!([]),
            args @ Value::Array(_) => args,
            _ => return Err(Error::misuse("the arguments are a tuple or an array: (\"a@b.c\",)")),
        };
        let job = json!({"id": "test-job", "type": kind, "attempt": 1, "args": args});
        let time_limit = Duration::from_secs(60);
        Ok(Delivery { job, checkpoint: None, stop_in: None, cancel: None, time_limit })
    }

    fn frames(&self) -> String {
        let hello = json!({"type": "hello", "protocol": 1, "concurrency": 1});
        let job = json!({"type": "job", "job": self.job, "checkpoint": self.checkpoint});
        // The shutdown comes in the same write, as early as it can.
        let terminate = self.stop_in.map(|left| {
            let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            format!(
                "{}\n",
                json!({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": left})
            )
        });
        format!("{hello}\n{job}\n{}", terminate.unwrap_or_default())
    }
}

/// What became of a job.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Outcome {
    /// `ack`, `fail` or `release`.
    #[serde(rename = "type")]
    pub outcome: String,
    /// The `error` of a fail: `message`, `type`, `code`, `retryable`, `details`, `backtrace`.
    pub error: Value,
    /// The reason of a release.
    pub reason: String,
    /// All checkpoints, in their order.
    #[serde(skip)]
    pub checkpoints: Vec<Value>,
    /// All frames of [`Job::progress`](crate::Job::progress): `progress`, `message`.
    #[serde(skip)]
    pub progress: Vec<Value>,
    result: Value,
}

impl Outcome {
    /// The result of an ack; `null` if there is none.
    ///
    /// # Errors
    /// The outcome is another one, or the result does not fit into the type.
    pub fn result<T: DeserializeOwned>(&self) -> Result<T> {
        if self.outcome != "ack" {
            return Err(Error::misuse(format_args!("the job has no result: {self:?}")));
        }
        Ok(T::deserialize(&self.result)?)
    }

    /// The newest checkpoint, for [`Delivery::checkpoint`] of the next attempt.
    pub fn last_checkpoint(&self) -> Option<&Value> {
        self.checkpoints.last()
    }

    fn take(&mut self, mut frame: Value) -> Result<()> {
        match frame["type"].as_str() {
            Some("progress") => self.progress.push(frame),
            Some("checkpoint") => self.checkpoints.push(frame["state"].take()),
            Some("ack" | "fail" | "release") => {
                let (checkpoints, progress) = (mem::take(&mut self.checkpoints), mem::take(&mut self.progress));
                *self = Outcome { checkpoints, progress, ..Outcome::deserialize(frame)? };
            }
            _ => {}
        }
        Ok(())
    }
}
