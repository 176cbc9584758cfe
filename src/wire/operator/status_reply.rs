//! What `status` and `health` are answered on the control socket, as those who ask read it. What this version does not
//! know is ignored, and what another version leaves out is nothing.

use serde::Serialize;
use serde_json::Value;

use crate::wire::text::{escape, is_terminal_control};

/// What `status` is answered. A name that is missing is `None`, 0 or empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// It is an answer and no refusal.
    pub ok: bool,
    /// The version of ojs-init.
    pub version: String,
    /// Its pid, as it sees it.
    pub pid: u32,
    /// Since its start.
    pub up_ms: u64,
    /// What the worker and the backend are told: running, quiet, terminate.
    pub state: String,
    /// running, quiet, delay, drain, end_game, stop, exited.
    pub phase: String,
    /// Why it is not running. In quiet: operator, server, prestop, each of which has to be taken back. In terminate the one
    /// of the lifecycle frame.
    pub reasons: Vec<String>,
    /// Since terminate began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_for_ms: Option<u64>,
    /// As in the other answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<u64>,
    /// The whole of which that is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_of_ms: Option<u64>,
    /// What comes right after this answer: kill or exit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<String>,
    /// With which status, where that is exit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<u8>,
    /// Most jobs at the same time.
    pub concurrency: u32,
    /// Jobs that count against it.
    pub active: u64,
    /// Of these, in the buffer.
    pub waiting: u64,
    /// Of these, with the worker.
    pub held: u64,
    /// Of these, on their way to the backend.
    pub reporting: u64,
    /// Jobs that the stop phase cut off so far.
    pub cut_off: u64,
    /// The oldest first.
    pub jobs: Vec<JobReport>,
    /// Jobs that are not among these.
    pub jobs_not_shown: u64,
    /// Queues that jobs are taken from.
    pub queues: Vec<String>,
    /// What the backend is told of this worker.
    pub labels: Vec<String>,
    /// The worker's process.
    pub worker: WorkerReport,
    /// The conversation with the backend.
    pub backend: BackendReport,
    /// Records of the log that standard error was too slow for.
    pub log_records_dropped: u64,
}

/// One job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct JobReport {
    /// Its id.
    pub id: String,
    /// What kind of work it is.
    #[serde(rename = "type")]
    pub kind: String,
    /// The queue that it came from.
    pub queue: String,
    /// Which attempt it is, where the backend says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u64>,
    /// Since it was claimed.
    pub age_ms: u64,
    /// waiting, held or reporting.
    pub place: String,
    /// The number of the connection that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<u64>,
    /// The worker was told to stop working on it, or its reservation is lost.
    pub cancelled: bool,
}

/// The worker's process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WorkerReport {
    /// What it runs, without arguments.
    pub program: String,
    /// Its pid; none while it does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Since its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_ms: Option<u64>,
    /// How the one before it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_end: Option<String>,
    /// Starts again within the last 10 minutes.
    pub restarts: u64,
    /// Until the next start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts_in_ms: Option<u64>,
    /// Open connections.
    pub connections: u64,
    /// Of these, ready ones.
    pub ready: u64,
    /// Jobs that they take at a time, together.
    pub capacity: u64,
}

/// The conversation with the backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BackendReport {
    /// Where it is.
    pub url: String,
    /// Our name there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    /// The last request had an answer.
    pub reachable: bool,
    /// Since it last accepted a heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_age_ms: Option<u64>,
    /// Time between two.
    pub heartbeat_interval_ms: u64,
    /// Requests without an answer yet.
    pub requests: u64,
}

/// What `health` is answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HealthReport {
    /// The answer is yes.
    pub healthy: bool,
    /// Why it is no, each in a sentence.
    pub messages: Vec<String>,
}

/// A report in this line, given without its `\n`; `None` when it is none, or a refusal.
#[must_use]
pub fn decode_report(line: &[u8]) -> Option<Report> {
    let read = Object::read(line)?;
    Some(Report {
        ok: true,
        version: read.text("version"),
        pid: read.small("pid"),
        up_ms: read.number("up_ms"),
        state: read.text("state"),
        phase: read.text("phase"),
        reasons: read.texts("reasons"),
        terminating_for_ms: read.maybe("terminating_for_ms"),
        left_ms: read.maybe("left_ms"),
        left_of_ms: read.maybe("left_of_ms"),
        ending: read.maybe_text("ending"),
        exit_status: read.maybe("exit_status").and_then(|status| u8::try_from(status).ok()),
        concurrency: read.small("concurrency"),
        active: read.number("active"),
        waiting: read.number("waiting"),
        held: read.number("held"),
        reporting: read.number("reporting"),
        cut_off: read.number("cut_off"),
        jobs: read.all("jobs").map(|job| decode_job(&Object(job))).collect(),
        jobs_not_shown: read.number("jobs_not_shown"),
        queues: read.texts("queues"),
        labels: read.texts("labels"),
        worker: decode_worker(&read.inner("worker")),
        backend: decode_backend(&read.inner("backend")),
        log_records_dropped: read.number("log_records_dropped"),
    })
}

/// The answer to a probe in this line, given without its `\n`; `None` when it is none, or a refusal.
#[must_use]
pub fn decode_health(line: &[u8]) -> Option<HealthReport> {
    let read = Object::read(line)?;
    Some(HealthReport {
        healthy: read.is_true("healthy"),
        messages: read
            .all("reasons")
            .map(|reason| Object(reason).text("message"))
            .collect(),
    })
}

fn decode_job(read: &Object<&Value>) -> JobReport {
    JobReport {
        id: read.text("id"),
        kind: read.text("type"),
        queue: read.text("queue"),
        attempt: read.maybe("attempt"),
        age_ms: read.number("age_ms"),
        place: read.text("place"),
        connection: read.maybe("connection"),
        cancelled: read.is_true("cancelled"),
    }
}

fn decode_worker(read: &Object<&Value>) -> WorkerReport {
    WorkerReport {
        program: read.text("program"),
        pid: read.maybe("pid").and_then(|pid| u32::try_from(pid).ok()),
        up_ms: read.maybe("up_ms"),
        last_end: read.maybe_text("last_end"),
        restarts: read.number("restarts"),
        starts_in_ms: read.maybe("starts_in_ms"),
        connections: read.number("connections"),
        ready: read.number("ready"),
        capacity: read.number("capacity"),
    }
}

fn decode_backend(read: &Object<&Value>) -> BackendReport {
    BackendReport {
        url: read.text("url"),
        worker_id: read.maybe_text("worker_id"),
        reachable: read.is_true("reachable"),
        heartbeat_age_ms: read.maybe("heartbeat_age_ms"),
        heartbeat_interval_ms: read.number("heartbeat_interval_ms"),
        requests: read.number("requests"),
    }
}

/// What is read of an object; of what is none, nothing.
struct Object<V>(V);

impl Object<Value> {
    /// A line that says of itself that it is an answer.
    fn read(line: &[u8]) -> Option<Self> {
        let read = Self(serde_json::from_slice(line).ok()?);
        read.is_true("ok").then_some(read)
    }
}

impl<V: std::borrow::Borrow<Value>> Object<V> {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.borrow().get(name)
    }

    fn is_true(&self, name: &str) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    fn maybe(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(Value::as_u64)
    }

    fn number(&self, name: &str) -> u64 {
        self.maybe(name).unwrap_or(0)
    }

    fn small(&self, name: &str) -> u32 {
        u32::try_from(self.number(name)).unwrap_or(u32::MAX)
    }

    fn maybe_text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(Value::as_str).map(str::to_owned)
    }

    fn text(&self, name: &str) -> String {
        self.maybe_text(name).unwrap_or_default()
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &Value> {
        self.get(name).and_then(Value::as_array).into_iter().flatten()
    }

    fn texts(&self, name: &str) -> Vec<String> {
        self.all(name).filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn inner(&self, name: &str) -> Object<&Value> {
        Object(self.get(name).unwrap_or(&Value::Null))
    }
}

/// A line of JSON without what a terminal acts on, for another user's program may have written it: inside of texts such
/// characters become escapes, and elsewhere there are none but white space.
#[must_use]
pub fn printable(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '\0'..' ' => {}
            character if is_terminal_control(character) => escape(&mut text, character),
            character => text.push(character),
        }
    }
    text
}
