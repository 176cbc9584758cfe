//! The replies to `status` and `health` on the control socket, as clients read them. Unknown fields
//! are ignored, and missing ones are empty. A reply with a value of another type is none.

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::health::UnhealthyReason;
use crate::text::{escape, is_terminal_control};

/// The reply to `status`. A name that is missing is `None`, 0 or empty.
#[skip_serializing_none]
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
    /// The state, as for the backend: running, quiet, terminate.
    pub state: String,
    /// running, quiet, delay, drain, end_game, stop, exited.
    pub phase: String,
    /// Why the state is not running. In quiet: operator, server, prestop, each of which has to be
    /// undone. In terminate the reason of the lifecycle frame.
    pub reasons: Vec<String>,
    /// How long the state has been terminate.
    pub terminating_for_ms: Option<u64>,
    /// The time that is left, as in the other answers.
    pub left_ms: Option<u64>,
    /// The whole period of which `left_ms` remains.
    pub left_of_ms: Option<u64>,
    /// The next step after this reply: kill or exit.
    pub ending: Option<String>,
    /// The exit status, if `ending` is exit.
    pub exit_status: Option<u8>,
    /// Most jobs at once.
    pub concurrency: u32,
    /// No concurrency is set: `concurrency` is the most that the worker has had and asked for, and
    /// limits nothing.
    pub uncapped: bool,
    /// In mode gateway the most jobs that the worker had and asked for at one time.
    pub most_asked: Option<u32>,
    /// Jobs that count against it.
    pub active: u64,
    /// Active jobs that wait in the buffer.
    pub waiting: u64,
    /// Active jobs that the worker holds.
    pub held: u64,
    /// Active jobs whose outcome is being sent to the backend.
    pub reporting: u64,
    /// Jobs that the worker gave back and that ojs-init holds before it returns them. These jobs do
    /// not count as active.
    pub held_back: u64,
    /// Of the active jobs, those that their worker does not name in its heartbeats any more.
    pub dropped: u64,
    /// The types whose jobs are given back repeatedly, the one with the most returns first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub given_back: Vec<ReturnsReport>,
    /// Jobs that the stop phase cut off so far.
    pub cut_off: u64,
    /// Active jobs, the oldest first.
    pub jobs: Vec<JobReport>,
    /// Active jobs that are not among `jobs`.
    pub jobs_not_shown: u64,
    /// Connections, the one with the most jobs first.
    pub connections: Vec<ConnectionReport>,
    /// Connections that are not among `connections`.
    pub connections_not_shown: u64,
    pub queues: Vec<String>,
    /// In mode gateway the queues that the worker asked for and `worker.queues` does not have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues_refused: Vec<String>,
    /// The labels in the registration.
    pub labels: Vec<String>,
    /// The used share of the container's memory, if the memory gate is on.
    pub memory_taken_percent: Option<u8>,
    /// open; closed: the share is too large, and no jobs are fetched.
    pub memory_gate: Option<String>,
    /// How jobs reach the worker's program: socket, gateway, exec.
    pub mode: String,
    /// In mode gateway, how ojs-init identifies callers: process, uid and bearer, uid, none.
    pub caller_proof: Option<String>,
    pub worker: WorkerReport,
    pub backend: BackendReport,
    /// Armed timers, those of connections and requests included.
    pub timers: u64,
    /// Records of the log that standard error was too slow for.
    pub log_records_dropped: u64,
}

/// Jobs of one type that are given back again and again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReturnsReport {
    #[serde(rename = "type")]
    pub kind: String,
    /// How many returns there were since these began.
    pub times: u32,
}

/// One job.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobReport {
    pub id: String,
    /// The type of the job.
    #[serde(rename = "type")]
    pub kind: String,
    pub queue: String,
    /// The number of the attempt, if the backend sends it.
    pub attempt: Option<u64>,
    /// How long ago the job was claimed.
    pub age_ms: u64,
    /// waiting, held, reporting or going back.
    pub place: String,
    /// The number of the connection that holds it.
    pub connection: Option<u64>,
    /// The worker was asked to stop the job, or the job's reservation is lost.
    pub cancelled: bool,
    /// The job has timed out, or an operator cancelled it: its process is ended in this time unless
    /// it answers.
    pub ends_in_ms: Option<u64>,
    /// The last progress that its handler reported, 0 to 1.
    pub progress: Option<Fraction>,
    /// The words of the handler.
    pub progress_message: Option<String>,
    /// How long ago the handler reported the progress.
    pub progress_age_ms: Option<u64>,
    /// Most attempts, if the backend sends that.
    pub max_attempts: Option<u64>,
    /// The activity of the job, or what it waits for: see `names::activity`.
    pub state: String,
    /// Why its handler is told to stop: shutdown, timeout, cancelled, operator or lost.
    pub cancel_reason: Option<String>,
    /// The outcome on its way to the backend: acked, failed or requeued.
    pub outcome: Option<String>,
    /// The pid of the process that holds it; `None` if unknown.
    pub pid: Option<u32>,
    /// Time since the worker got it.
    pub held_ms: Option<u64>,
    /// Time until its own timeout.
    pub timeout_in_ms: Option<u64>,
}

/// One connection of the worker; in mode gateway one of its processes.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionReport {
    /// Its number, as in `JobReport`.
    pub connection: u64,
    /// The pid of its process; `None` if unknown.
    pub pid: Option<u32>,
    /// Jobs that it holds.
    pub jobs: u64,
    /// Most jobs at a time, if the worker announced a number.
    pub concurrency: Option<u32>,
    /// not ready, ready, asking, paused, alone, given up or closed.
    pub state: String,
}

/// A number from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Fraction(pub f64);

impl Eq for Fraction {}

impl std::str::FromStr for Fraction {
    type Err = std::num::ParseFloatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse()
            .map(|number: f64| Self(if number.is_nan() { 0.0 } else { number.clamp(0.0, 1.0) }))
    }
}

/// Why the backend does not work.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TroubleReport {
    /// How the last request failed: `error.type` of the log.
    pub kind: String,
    /// The behaviour of the backend, for a person.
    pub state: String,
    /// The last failure in the words of the log.
    pub error: Option<String>,
    /// Since the first request that failed.
    pub lasted_ms: u64,
    /// Outcomes that wait for the backend.
    pub waiting_outcomes: u64,
    /// The time until the first reservation lapses.
    pub lapses_ms: Option<u64>,
}

/// The worker's process.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerReport {
    pub program: String,
    /// The worker's pid; `None` while it does not run.
    pub pid: Option<u32>,
    /// How long the worker runs.
    pub up_ms: Option<u64>,
    /// How the one before it ended.
    pub last_end: Option<String>,
    /// Starts again within the last 10 minutes.
    pub restarts: u64,
    /// Why the worker is being recycled, and for how long.
    pub recycling: Option<String>,
    pub recycling_for_ms: Option<u64>,
    /// The time until the next start.
    pub starts_in_ms: Option<u64>,
    pub connections: u64,
    /// Open connections that have sent `ready`.
    pub ready: u64,
    /// Most jobs of all connections together at a time.
    pub capacity: u64,
    /// Jobs that were given to this worker since it was started.
    pub jobs: u64,
    /// Its processes. `None`, like memory and processor time, if they cannot be read.
    pub processes: Option<u64>,
    /// Memory of all of them.
    pub memory_bytes: Option<u64>,
    /// Processor time of all of them and of the workers before this one.
    pub cpu_ms: Option<u64>,
}

/// The conversation with the backend.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackendReport {
    /// Its address, for the user of ojs-init alone.
    pub url: Option<String>,
    /// The name that the worker has at the backend.
    pub worker_id: Option<String>,
    /// Whether the last request had an answer.
    pub reachable: bool,
    /// How long ago the backend accepted a heartbeat.
    pub heartbeat_age_ms: Option<u64>,
    pub heartbeat_interval_ms: u64,
    /// Requests without an answer yet.
    pub requests: u64,
    /// Streams by which the backend announces new jobs; 0: ojs-init only polls.
    pub streams: u64,
    /// Why it does not work, if so.
    pub trouble: Option<TroubleReport>,
}

/// The reply to `health`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthReport {
    /// This is an answer and no refusal.
    pub ok: bool,
    /// live, ready, healthy.
    pub probe: String,
    /// The answer is yes.
    pub healthy: bool,
    /// The state, as for the backend.
    pub state: String,
    /// Why it is no.
    pub reasons: Vec<UnhealthyReason>,
}

/// A report in this line, given without its `\n`; `None` when it is none, or a refusal.
pub fn decode_report(line: &[u8]) -> Option<StatusReply> {
    serde_json::from_slice(line)
        .ok()
        .filter(|report: &StatusReply| report.ok)
}

/// The answer to a probe in this line, given without its `\n`; `None` when it is none, or a
/// refusal.
pub fn decode_health(line: &[u8]) -> Option<HealthReport> {
    serde_json::from_slice(line)
        .ok()
        .filter(|health: &HealthReport| health.ok)
}

/// A line of JSON without characters that a terminal acts on, because another user's program may
/// have written it. Inside texts these characters become escapes; elsewhere only white space
/// occurs.
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
