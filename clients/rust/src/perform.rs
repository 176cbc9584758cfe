//! Plays ojs-init for one job, in process, for tests of handlers.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use crate::json::quoted;
use crate::session::Session;
use crate::testing::{Delivery, Failed, Outcome, PerformError, Progress, Stop};
use crate::worker::Worker;

/// How long a handler may take to end when it is cancelled.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a handler may take in all, where the test says nothing else.
const TIME_LIMIT: Duration = Duration::from_secs(60);

impl Worker {
    /// Runs a handler as ojs-init would have it, for tests: the same code serves the socket.
    /// Arguments and result go through JSON; middleware, errors, panics and unknown types are as
    /// always. `args` is a tuple or an array.
    ///
    /// ```
    /// # let mut worker = ojs_worker::Worker::new();
    /// # worker.handle_typed("email.send", |_, (to, _): (String, String)| Ok(to));
    /// let outcome = worker.perform("email.send", ("a@b.c", "hello")).unwrap();
    /// assert_eq!(outcome.result::<String>().unwrap(), "a@b.c");
    /// ```
    ///
    /// # Errors
    /// About the test: arguments that are no JSON, a handler that does not end. That of the job is
    /// in the outcome.
    pub fn perform(&self, kind: &str, args: impl serde::Serialize) -> Result<Outcome, PerformError> {
        self.perform_delivery(&Delivery::new(kind, args)?)
    }

    /// [`Worker::perform`] for a job with a timeout, a checkpoint, a cancel or a shutdown.
    ///
    /// # Errors
    /// As for [`Worker::perform`].
    pub fn perform_delivery(&self, delivery: &Delivery) -> Result<Outcome, PerformError> {
        crate::panics::install();
        let system = |error: std::io::Error| PerformError(format!("the system has no socket or thread: {error}"));
        let (ours, theirs) = UnixStream::pair().map_err(system)?;
        let session = Session::new(self.registry(), theirs.try_clone().map_err(system)?, true);
        session.start(theirs).map_err(system)?;
        let served = Arc::clone(&session);
        thread::spawn(move || served.serve());
        let (said, lines) = mpsc::channel();
        let reader = BufReader::new(ours.try_clone().map_err(system)?);
        thread::spawn(move || {
            let _test_is_over = reader.lines().map_while(Result::ok).try_for_each(|line| said.send(line));
        });
        let mut rehearsal = Rehearsal { session, socket: ours, lines, delivery, outcome: Outcome::default() };
        let played = rehearsal.play();
        rehearsal.session.pool.close();
        let _closed = rehearsal.socket.shutdown(std::net::Shutdown::Both);
        played.map(|()| rehearsal.outcome)
    }
}

struct Rehearsal<'a> {
    session: Arc<Session>,
    socket: UnixStream,
    lines: Receiver<String>,
    delivery: &'a Delivery,
    outcome: Outcome,
}

impl Rehearsal<'_> {
    fn say(&mut self, frame: &Value) {
        let _closed = self.socket.write_all(format!("{frame}\n").as_bytes());
    }

    fn play(&mut self) -> Result<(), PerformError> {
        self.say(&json!({
            "type": "hello", "protocol": 1, "worker_id": "test", "state": "running", "concurrency": 1,
            "queues": ["default"], "max_frame": 4_194_304,
        }));
        let closed = || PerformError("the worker closed its connection to the test".to_owned());
        self.lines.recv().map_err(|_| closed())?; // ready
                                                  // The handler begins only when all that comes
                                                  // with its job has come.
        let frame = self.delivery.frame();
        let _closed = self.socket.write_all(frame.as_bytes());
        if let Some(Stop { remaining }) = self.delivery.stop {
            let millis = u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX);
            self.say(&json!({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": millis}));
        }
        self.say(&json!({"type": "ping", "id": 1}));
        loop {
            let line = self.lines.recv().map_err(|_| closed())?;
            match self.take(&line)?.as_str() {
                "pong" => break,
                "ack" | "fail" | "release" => return Ok(()),
                _ => {}
            }
        }
        self.session.pool.let_go();
        self.session.pool.wait_begun(PATIENCE);
        self.until_answered()
    }

    fn until_answered(&mut self) -> Result<(), PerformError> {
        let began = Instant::now();
        let mut coming: Vec<(Instant, String)> = Vec::new();
        coming.extend(self.delivery.timeout.map(|timeout| (began + timeout, "timeout".to_owned())));
        coming.extend(self.delivery.stop.as_ref().map(|stop| (began + stop.remaining, "shutdown".to_owned())));
        coming.extend(self.delivery.cancel.clone().map(|(reason, after)| (began + after, reason)));
        coming.sort();
        let limit = self.delivery.time_limit.unwrap_or(TIME_LIMIT);
        let over_at = began + limit;
        let mut given_up_at = None;
        loop {
            let now = Instant::now();
            if let Some((_, reason)) = coming.first().filter(|(at, _)| *at <= now).cloned() {
                coming.remove(0);
                let id = &self.delivery.id;
                self.say(&json!({"type": "cancel", "job_id": id, "reason": reason, "grace_ms": 1000}));
                given_up_at.get_or_insert(now + self.delivery.patience.unwrap_or(PATIENCE));
                continue;
            }
            if given_up_at.is_some_and(|at| at <= now) {
                let kind = &self.delivery.kind;
                return Err(PerformError(format!("the handler of {kind} has not ended in time after its cancel")));
            }
            if over_at <= now {
                let kind = &self.delivery.kind;
                return Err(PerformError(format!(
                    "the handler of {kind} has not ended after {limit:?}: Delivery::time_limit"
                )));
            }
            let next = coming.first().map(|(at, _)| *at).into_iter().chain(given_up_at).fold(over_at, Instant::min);
            match self.lines.recv_timeout(next - now) {
                Ok(line) => {
                    if matches!(self.take(&line)?.as_str(), "ack" | "fail" | "release") {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PerformError("the worker closed its connection to the test".to_owned()));
                }
            }
        }
    }

    /// Notes what a frame says, and gives its type.
    fn take(&mut self, line: &str) -> Result<String, PerformError> {
        let unreadable = |error| PerformError(format!("a frame of the worker cannot be read: {error}"));
        let frame: Value = serde_json::from_str(line).map_err(unreadable)?;
        let kind = frame["type"].as_str().unwrap_or_default().to_owned();
        let outcome = &mut self.outcome;
        match kind.as_str() {
            "ack" | "fail" | "release" => {
                outcome.outcome.clone_from(&kind);
                outcome.result = frame["result"].clone();
                outcome.error = (kind == "fail").then(|| Failed::read(&frame["error"]));
                outcome.reason = frame["reason"].as_str().unwrap_or_default().to_owned();
            }
            "checkpoint" => outcome.checkpoints.push(frame["state"].clone()),
            "progress" => outcome.progress.push(Progress {
                progress: frame["progress"].as_f64().unwrap_or_default(),
                message: frame["message"].as_str().unwrap_or_default().to_owned(),
                data: frame["data"].clone(),
            }),
            "heartbeat" => outcome.heartbeats += 1,
            _ => {}
        }
        Ok(kind)
    }
}

impl Delivery {
    fn frame(&self) -> String {
        let mut job = format!(
            "{{\"id\":{},\"type\":{},\"queue\":{},\"attempt\":{},\"args\":{}",
            quoted(&self.id),
            quoted(&self.kind),
            quoted(&self.queue),
            self.attempt,
            self.args
        );
        if !self.meta.is_null() {
            job += &format!(",\"meta\":{}", self.meta);
        }
        if let Some(timeout) = self.timeout {
            job += &format!(",\"timeout_ms\":{}", timeout.as_secs_f64() * 1000.0);
        }
        let checkpoint = self.checkpoint.as_ref().map_or_else(String::new, |state| format!(",\"checkpoint\":{state}"));
        format!("{{\"type\":\"job\",\"job\":{job}}}{checkpoint}}}\n")
    }
}
