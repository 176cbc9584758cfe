//! What `status` and `health` are answered on the control socket, as those who ask read it. What this version does not
//! know is ignored, and what another version leaves out is nothing.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::wire::text::{escape, is_terminal_control};

/// What `status` is answered. A name that is missing is `None`, 0 or empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusReply {
    /// This is an answer and no refusal.
    pub ok: bool,
    /// The version of ojs-init.
    pub version: String,
    /// The pid of ojs-init, as it sees it.
    pub pid: u32,
    /// How long ojs-init runs.
    pub up_ms: u64,
    /// What the worker and the backend are told: running, quiet, terminate.
    pub state: String,
    /// running, quiet, delay, drain, end_game, stop, exited.
    pub phase: String,
    /// Why the state is not running. In quiet: operator, server, prestop, each of which has to be taken back. In terminate the one
    /// of the lifecycle frame.
    pub reasons: Vec<String>,
    /// How long the state has been terminate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_for_ms: Option<u64>,
    /// The time that is left, as in the other answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<u64>,
    /// The whole period that `left_ms` is what is left of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_of_ms: Option<u64>,
    /// What comes right after this answer: kill or exit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<String>,
    /// The exit status, where `ending` is exit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<u8>,
    /// Most jobs at the same time.
    pub concurrency: u32,
    /// Jobs that count against it.
    pub active: u64,
    /// Active jobs that wait in the buffer.
    pub waiting: u64,
    /// Active jobs that the worker holds.
    pub held: u64,
    /// Active jobs whose outcome is on its way to the backend.
    pub reporting: u64,
    /// Jobs that the stop phase cut off so far.
    pub cut_off: u64,
    /// Active jobs, the oldest first.
    #[serde(deserialize_with = "each")]
    pub jobs: Vec<JobReport>,
    /// Active jobs that are not among `jobs`.
    pub jobs_not_shown: u64,
    /// Queues that jobs are taken from.
    pub queues: Vec<String>,
    /// What the backend is told of this worker.
    pub labels: Vec<String>,
    /// The worker's process.
    #[serde(deserialize_with = "inner")]
    pub worker: WorkerReport,
    /// The conversation with the backend.
    #[serde(deserialize_with = "inner")]
    pub backend: BackendReport,
    /// Records of the log that standard error was too slow for.
    pub log_records_dropped: u64,
}

/// One job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobReport {
    /// The job's id.
    pub id: String,
    /// What kind of work it is.
    #[serde(rename = "type")]
    pub kind: String,
    /// The queue that it came from.
    pub queue: String,
    /// Which attempt it is, where the backend says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u64>,
    /// How long ago the job was claimed.
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerReport {
    /// The program, without arguments.
    pub program: String,
    /// The worker's pid; none while it does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// How long the worker runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_ms: Option<u64>,
    /// How the one before it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_end: Option<String>,
    /// Starts again within the last 10 minutes.
    pub restarts: u64,
    /// The time until the next start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts_in_ms: Option<u64>,
    /// Open connections.
    pub connections: u64,
    /// Open connections that have said ready.
    pub ready: u64,
    /// Jobs that the connections take at a time, together.
    pub capacity: u64,
}

/// The conversation with the backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackendReport {
    /// The backend's address.
    pub url: String,
    /// The name that the worker has at the backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    /// Whether the last request had an answer.
    pub reachable: bool,
    /// How long ago the backend accepted a heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_age_ms: Option<u64>,
    /// The time between two heartbeats.
    pub heartbeat_interval_ms: u64,
    /// Requests without an answer yet.
    pub requests: u64,
}

/// What `health` is answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct HealthReport {
    /// The answer is yes.
    pub healthy: bool,
    /// Why it is no, each in a sentence.
    #[serde(rename = "reasons", deserialize_with = "messages")]
    pub messages: Vec<String>,
}

/// A report in this line, given without its `\n`; `None` when it is none, or a refusal.
#[must_use]
pub fn decode_report(line: &[u8]) -> Option<StatusReply> {
    decode(line)
}

/// The answer to a probe in this line, given without its `\n`; `None` when it is none, or a refusal.
#[must_use]
pub fn decode_health(line: &[u8]) -> Option<HealthReport> {
    decode(line)
}

/// A line that says of itself that it is an answer.
fn decode<T: DeserializeOwned + Default>(line: &[u8]) -> Option<T> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let is_answer = value.get("ok").and_then(Value::as_bool) == Some(true);
    is_answer.then(|| as_far_as_it_fits(value))
}

/// What is read of an object; of what is none, nothing. A member of another type than ours counts as missing.
fn as_far_as_it_fits<T: DeserializeOwned + Default>(value: Value) -> T {
    let Value::Object(mut members) = value else {
        return T::default();
    };
    members.retain(|name, member| T::deserialize(json!({ name: member })).is_ok());
    T::deserialize(Value::Object(members)).unwrap_or_default()
}

fn inner<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(from: D) -> Result<T, D::Error> {
    Value::deserialize(from).map(as_far_as_it_fits)
}

fn each<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(from: D) -> Result<Vec<T>, D::Error> {
    let values = Vec::<Value>::deserialize(from)?;
    Ok(values.into_iter().map(as_far_as_it_fits).collect())
}

fn messages<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Reason {
        message: String,
    }
    let reasons: Vec<Reason> = each(from)?;
    Ok(reasons.into_iter().map(|reason| reason.message).collect())
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
