//! What is shown of an instance: `status` and `health` on the control socket, and `/status` over HTTP, which names no job,
//! no label and no URL. `docs/control.md` and `docs/health.md` list the names; all times are in milliseconds.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::lifecycle::effect::Shown;
use crate::lifecycle::health::{Health, Probe};
use crate::lifecycle::status::{Cause, Ending, ShownJob, ShownPlace, Status};
use crate::wire::names;
use crate::wire::probe::{Reason, reason};

/// Longest answer in bytes, its `\n` not counted: the most jobs, each with the longest names, all of it escaped.
pub const MAX_ANSWER: usize = 256 << 10;

/// Most characters of a name; of a longer one the middle is left out.
const LONGEST_NAME: usize = 80;

/// Most characters of the backend's URL.
const LONGEST_URL: usize = 300;

/// Most queues, and most labels.
const MOST_NAMES: usize = 40;

/// What only the shell knows.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Our own pid.
    pub pid: u32,
    /// What the worker runs, without arguments.
    pub program: String,
    /// The backend, without user and password.
    pub url: String,
    /// The queues that jobs are taken from.
    pub queues: Vec<String>,
    /// What we told the backend of ourselves.
    pub labels: Vec<String>,
}

/// What `status` is answered. A name that is missing is `None`, 0 or empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
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
}

/// The conversation with the backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
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

#[derive(Serialize)]
struct HealthLine {
    ok: bool,
    probe: &'static str,
    healthy: bool,
    state: &'static str,
    reasons: Vec<Reason>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct HealthRead {
    ok: bool,
    healthy: bool,
    reasons: Vec<Message>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Message {
    message: String,
}

/// `/status`: what may be shown to whoever reaches the port, and nothing else.
#[derive(Serialize)]
struct Public {
    state: &'static str,
    phase: &'static str,
    reasons: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    terminating_for_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_of_ms: Option<u64>,
    concurrency: u32,
    active: u64,
    waiting: u64,
    held: u64,
    reporting: u64,
    cut_off: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_job_age_ms: Option<u64>,
    worker: PublicWorker,
    backend: PublicBackend,
}

#[derive(Serialize)]
struct PublicWorker {
    running: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    up_ms: Option<u64>,
    restarts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    starts_in_ms: Option<u64>,
    connections: u64,
    ready: u64,
}

#[derive(Serialize)]
struct PublicBackend {
    reachable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    heartbeat_age_ms: Option<u64>,
    heartbeat_interval_ms: u64,
    requests: u64,
}

/// What is shown on the control socket, as a line with its `\n`. `up` is since our start.
#[must_use]
pub fn encode(shown: &Shown, facts: &Facts, up: Duration, log_records_dropped: u64) -> Vec<u8> {
    match shown {
        Shown::Status(status) => {
            let mut report = report(status, facts);
            report.up_ms = millis(up);
            report.log_records_dropped = log_records_dropped;
            line(&report)
        }
        Shown::Health(probe, health) => line(&health_line(*probe, health)),
    }
}

/// The body of `/status`.
#[must_use]
pub fn public(status: &Status) -> impl Serialize + use<> {
    let (worker, backend) = (&status.worker, &status.backend);
    Public {
        state: names::worker_state(status.state),
        phase: names::phase(status.phase),
        reasons: reasons(status),
        terminating_for_ms: status.terminating_for.map(millis),
        left_ms: status.left.map(millis),
        left_of_ms: status.left_of.map(millis),
        concurrency: status.concurrency,
        active: count(status.active),
        waiting: count(status.waiting),
        held: count(status.held),
        reporting: count(status.reporting),
        cut_off: count(status.cut_off),
        oldest_job_age_ms: status.jobs.first().map(|job| millis(job.age)),
        worker: PublicWorker {
            running: worker.process.is_some(),
            up_ms: worker.process.map(|_| millis(worker.up)),
            restarts: count(worker.restarts),
            starts_in_ms: worker.starts_in.map(millis),
            connections: count(worker.connections),
            ready: count(worker.ready),
        },
        backend: PublicBackend {
            reachable: !backend.is_unreachable,
            heartbeat_age_ms: backend.heartbeat_age.map(millis),
            heartbeat_interval_ms: millis(backend.interval),
            requests: count(backend.requests),
        },
    }
}

/// A report in this line, given without its `\n`; `None` when it is none, or a refusal.
#[must_use]
pub fn decode_report(line: &[u8]) -> Option<Report> {
    serde_json::from_slice(line).ok().filter(|report: &Report| report.ok)
}

/// The answer to a probe in this line, given without its `\n`; `None` when it is none, or a refusal.
#[must_use]
pub fn decode_health(line: &[u8]) -> Option<HealthReport> {
    let read: HealthRead = serde_json::from_slice(line).ok().filter(|read: &HealthRead| read.ok)?;
    Some(HealthReport {
        healthy: read.healthy,
        messages: read.reasons.into_iter().map(|reason| reason.message).collect(),
    })
}

/// A line of JSON without what a terminal acts on, for another user's program may have written it: inside of texts such
/// characters become escapes, and elsewhere there are none but white space.
#[must_use]
pub fn printable(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '\u{7f}'..='\u{9f}' => text.push_str(&format!("\\u{:04x}", u32::from(character))),
            character if character.is_control() => {}
            character => text.push(character),
        }
    }
    text
}

fn report(status: &Status, facts: &Facts) -> Report {
    let (worker, backend) = (&status.worker, &status.backend);
    let (ending, exit_status) = match status.ending {
        None => (None, None),
        Some(Ending::Kill) => (Some("kill".to_owned()), None),
        Some(Ending::Exit(exit_status)) => (Some("exit".to_owned()), Some(exit_status)),
    };
    Report {
        ok: true,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: facts.pid,
        state: names::worker_state(status.state).to_owned(),
        phase: names::phase(status.phase).to_owned(),
        reasons: reasons(status),
        terminating_for_ms: status.terminating_for.map(millis),
        left_ms: status.left.map(millis),
        left_of_ms: status.left_of.map(millis),
        ending,
        exit_status,
        concurrency: status.concurrency,
        active: count(status.active),
        waiting: count(status.waiting),
        held: count(status.held),
        reporting: count(status.reporting),
        cut_off: count(status.cut_off),
        jobs: status.jobs.iter().map(job).collect(),
        jobs_not_shown: count(status.not_shown),
        queues: names(&facts.queues),
        labels: names(&facts.labels),
        worker: WorkerReport {
            program: cut(&facts.program, LONGEST_NAME),
            pid: worker.process.map(|process| process.pid()),
            up_ms: worker.process.map(|_| millis(worker.up)),
            last_end: worker.ended.map(|ended| ended.to_string()),
            restarts: count(worker.restarts),
            starts_in_ms: worker.starts_in.map(millis),
            connections: count(worker.connections),
            ready: count(worker.ready),
        },
        backend: BackendReport {
            url: cut(&facts.url, LONGEST_URL),
            worker_id: backend.worker.as_ref().map(|worker| cut(&worker.0, LONGEST_NAME)),
            reachable: !backend.is_unreachable,
            heartbeat_age_ms: backend.heartbeat_age.map(millis),
            heartbeat_interval_ms: millis(backend.interval),
            requests: count(backend.requests),
        },
        ..Report::default()
    }
}

fn job(job: &ShownJob) -> JobReport {
    let (place, connection) = match job.place {
        ShownPlace::Waiting => ("waiting", None),
        ShownPlace::Held(connection) => ("held", Some(connection.0)),
        ShownPlace::Reporting => ("reporting", None),
    };
    JobReport {
        id: cut(&job.subject.id.0, LONGEST_NAME),
        kind: cut(&job.subject.kind, LONGEST_NAME),
        queue: cut(&job.subject.queue, LONGEST_NAME),
        attempt: job.subject.attempt,
        age_ms: millis(job.age),
        place: place.to_owned(),
        connection,
        cancelled: job.is_cancelled,
    }
}

fn reasons(status: &Status) -> Vec<String> {
    let word = |cause: &Cause| match cause {
        Cause::Operator => "operator",
        Cause::Server => "server",
        Cause::Prestop => "prestop",
        Cause::End(reason) => reason.name(),
    };
    status.causes.iter().map(|cause| word(cause).to_owned()).collect()
}

fn health_line(probe: Probe, health: &Health) -> HealthLine {
    HealthLine {
        ok: true,
        probe: names::probe(probe),
        healthy: health.is_good(),
        state: names::worker_state(health.state),
        reasons: health.troubles.iter().map(reason).collect(),
    }
}

fn names(names: &[String]) -> Vec<String> {
    names
        .iter()
        .take(MOST_NAMES)
        .map(|name| cut(name, LONGEST_NAME))
        .collect()
}

/// A name of at most `most` characters: what tells one from another is often at its end.
fn cut(name: &str, most: usize) -> String {
    const GAP: &str = "...";
    if name.chars().nth(most).is_none() {
        return name.to_owned();
    }
    let kept = most.saturating_sub(GAP.len());
    let head = name.chars().take(kept - kept / 2);
    let tail: Vec<char> = name.chars().rev().take(kept / 2).collect();
    head.chain(GAP.chars()).chain(tail.into_iter().rev()).collect()
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn line(object: &impl Serialize) -> Vec<u8> {
    // Texts and numbers only: it cannot fail.
    let mut line = serde_json::to_vec(object).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
