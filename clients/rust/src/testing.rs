//! Runs a handler in a test, over the path that serves the socket.

use std::io::{self, BufRead, BufReader, Write as _};
use std::mem;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::{session::Session, worker::Worker};

impl Worker {
    /// Runs a handler as for a job from ojs-init, with middleware, errors and panics; arguments and
    /// result go through JSON. `args` is a tuple or an array.
    ///
    /// ```
    /// # let mut worker = ojs_worker::Worker::new();
    /// # worker.handle_typed("email.send", |_, (to, _): (String, String)| Ok(to));
    /// let outcome = worker.perform("email.send", ("a@b.c", "hello")).unwrap();
    /// assert_eq!(outcome.result, "a@b.c");
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
            let mut frame: Value = serde_json::from_slice(&mem::take(&mut line))?;
            match frame["type"].as_str().unwrap_or_default() {
                "progress" => outcome.progress.push(frame),
                "checkpoint" => outcome.checkpoints.push(frame["state"].take()),
                kind @ ("ack" | "fail" | "release") => {
                    kind.clone_into(&mut outcome.outcome);
                    [outcome.result, outcome.error, outcome.reason] =
                        ["result", "error", "reason"].map(|name| frame[name].take());
                }
                _ => {}
            }
        }
        Ok(outcome)
    }
}

/// A job for [`Worker::perform_delivery`], and what happens while it runs. Set the fields as you
/// need them.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The envelope: `id`, `type`, `attempt` and `args`, and what you add, like `max_attempts`,
    /// `timeout_ms` or `meta`.
    pub job: Value,
    /// What an earlier attempt saved last, of [`Outcome::checkpoints`].
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
        let args = serde_json::to_value(args)?;
        if !args.is_array() && !args.is_null() {
            return Err(Error::misuse("the arguments are a tuple or an array: (\"a@b.c\",)"));
        }
        let job = json!({"id": "test-job", "type": kind, "attempt": 1, "args": args});
        Ok(Delivery { job, checkpoint: None, stop_in: None, cancel: None, time_limit: Duration::from_secs(60) })
    }

    fn frames(&self) -> String {
        let hello = json!({"type": "hello", "protocol": 1, "concurrency": 1});
        let job = json!({"type": "job", "job": self.job, "checkpoint": self.checkpoint});
        // The shutdown comes in the same write, as early as it can.
        let terminate = self.stop_in.map(|left| {
            let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            json!({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": left})
        });
        format!("{hello}\n{job}\n{}", terminate.map_or_else(String::new, |frame| format!("{frame}\n")))
    }
}

/// What became of a job.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// `ack`, `fail` or `release`.
    pub outcome: String,
    /// The result of an ack; null if there is none.
    pub result: Value,
    /// The `error` of a fail: `message`, `type`, `code`, `retryable`, `details`, `backtrace`.
    pub error: Value,
    /// The reason of a release.
    pub reason: Value,
    /// All checkpoints, in their order. The last one is for [`Delivery::checkpoint`].
    pub checkpoints: Vec<Value>,
    /// All frames of [`Job::progress`](crate::Job::progress): `progress`, `message`.
    pub progress: Vec<Value>,
}
