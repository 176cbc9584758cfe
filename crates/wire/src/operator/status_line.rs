//! The view of an instance: `status` and `health` on the control socket, and `/status` over HTTP,
//! which names no job, no label and no URL. `docs/control.md` and `docs/health.md` list the
//! names; all times are in milliseconds.

use std::time::Duration;

use serde::Serialize;
use serde_with_macros::skip_serializing_none;

use crate::health::reasons as why_unhealthy;
use crate::names;
use crate::operator::status_reply::{
    BackendReport, ConnectionReport, HealthReport, JobReport, ReturnsReport, StatusReply, TroubleReport, WorkerReport,
};
use crate::text::{count, milliseconds, shortened};
use crate::trouble;
use ojs_lifecycle::api::{
    FinalStep, Health, HolderState, HolderStatus, JobActivity, JobPlace, JobStatus, NotRunningBecause, Probe, Snapshot,
    Status, Text, Trouble,
};
use ojs_values::usage::WorkerUsage;

/// Longest answer in bytes, its `\n` not counted: a status with the most jobs, each with the
/// longest names, all of it escaped, or a list of 1,000 jobs with usual names.
pub const MAX_ANSWER: usize = 512 << 10;

/// Most characters of a name; of a longer one the middle is left out.
pub(super) const LONGEST_NAME: usize = 80;

/// Most characters of a handler's progress message.
const LONGEST_MESSAGE: usize = 60;

/// Most characters of the backend's URL.
const LONGEST_URL: usize = 300;

/// Most characters of the log's text for a failure.
const LONGEST_ERROR: usize = 300;

/// Most queues, and most labels.
const MOST_NAMES: usize = 40;

/// Most refused queues.
const MOST_REFUSED: usize = 10;

/// Facts that only the shell knows.
#[derive(Debug, Clone, Default)]
pub struct InstanceInfo {
    /// The pid of ojs-init.
    pub pid: u32,
    /// The worker's program, without arguments; in mode exec the program of a job.
    pub program: String,
    /// The backend, without user and password.
    pub url: String,
    /// The configured queues.
    pub queues: Vec<String>,
    /// The labels in the registration.
    pub labels: Vec<String>,
    /// How jobs reach the program (`worker.mode`).
    pub mode: String,
    /// Time between the SIGKILL of a job's process and the end of the job's timeout grace. Zero if
    /// jobs have no process of their own.
    pub kill_lead: Duration,
    /// In mode gateway, how ojs-init identifies callers.
    pub caller_proof: Option<&'static str>,
    /// The last failed request to the backend, in the words of the log.
    pub backend_error: Option<String>,
    /// Jobs that were given to the worker since it was started.
    pub worker_jobs: u64,
    /// The memory and the processor time of the worker; `None` if they cannot be read.
    pub usage: Option<WorkerUsage>,
    /// Armed timers of connections and requests. The machine's own are in its snapshot.
    pub timers: usize,
}

/// `/status`: only the fields that every client that reaches the port may see.
#[skip_serializing_none]
#[derive(Serialize)]
struct Public {
    state: &'static str,
    phase: &'static str,
    reasons: Vec<String>,
    terminating_for_ms: Option<u64>,
    left_ms: Option<u64>,
    left_of_ms: Option<u64>,
    concurrency: u32,
    uncapped: bool,
    most_asked: Option<u32>,
    active: u64,
    waiting: u64,
    held: u64,
    reporting: u64,
    held_back: u64,
    cut_off: u64,
    oldest_job_age_ms: Option<u64>,
    memory_taken_percent: Option<u8>,
    memory_gate: Option<&'static str>,
    worker: PublicWorker,
    backend: BackendReport,
}

#[skip_serializing_none]
#[derive(Serialize)]
struct PublicWorker {
    running: bool,
    up_ms: Option<u64>,
    restarts: u64,
    recycling: Option<&'static str>,
    starts_in_ms: Option<u64>,
    connections: u64,
    ready: u64,
    capacity: u64,
}

/// The status as a line with its `\n`. `up` is the time since ojs-init started.
pub(super) fn encode_status(status: &Status, facts: &InstanceInfo, up: Duration, log_records_dropped: u64) -> Vec<u8> {
    let mut report = report(status, facts);
    report.up_ms = milliseconds(up);
    report.log_records_dropped = log_records_dropped;
    line(&report)
}

/// The answer of a probe as a line with its `\n`.
pub(super) fn encode_health(probe: Probe, health: &Health, facts: &InstanceInfo) -> Vec<u8> {
    line(&health_line(probe, health, facts.backend_error.as_deref()))
}

/// The body of `/status`.
pub fn public(status: &Status) -> impl Serialize + use<> {
    let (snapshot, worker) = (&status.snapshot, &status.worker);
    Public {
        state: names::worker_state(snapshot.state),
        phase: names::phase(snapshot.phase),
        reasons: reasons(status),
        terminating_for_ms: status.terminating_for.map(milliseconds),
        left_ms: status.left.map(milliseconds),
        left_of_ms: status.left_of.map(milliseconds),
        concurrency: snapshot.concurrency,
        uncapped: status.is_uncapped,
        most_asked: status.most_asked,
        active: count(snapshot.active),
        waiting: count(snapshot.waiting),
        held: count(snapshot.held),
        reporting: count(snapshot.reporting),
        held_back: count(snapshot.held_back),
        cut_off: count(snapshot.cut_off),
        oldest_job_age_ms: status.jobs.first().map(|job| milliseconds(job.age)),
        memory_taken_percent: snapshot.memory_taken,
        memory_gate: memory_gate(snapshot),
        worker: PublicWorker {
            running: worker.process.is_some(),
            up_ms: worker.process.map(|_| milliseconds(worker.up)),
            restarts: count(worker.restarts),
            recycling: worker.recycling.map(|(reason, _)| reason.word()),
            starts_in_ms: worker.starts_in.map(milliseconds),
            connections: count(worker.holders),
            ready: count(snapshot.ready_holders),
            capacity: snapshot.capacity,
        },
        backend: backend_report(status, None),
    }
}

/// The worker's process, for an operator.
fn worker_report(status: &Status, facts: &InstanceInfo) -> WorkerReport {
    let (snapshot, worker) = (&status.snapshot, &status.worker);
    WorkerReport {
        program: shortened(&facts.program, LONGEST_NAME),
        pid: worker.process.map(|process| process.pid()),
        up_ms: worker.process.map(|_| milliseconds(worker.up)),
        last_end: worker.ended.map(|ended| ended.to_string()),
        restarts: count(worker.restarts),
        recycling: worker.recycling.map(|(reason, _)| reason.word().to_owned()),
        recycling_for_ms: worker.recycling.map(|(_, since)| milliseconds(since)),
        starts_in_ms: worker.starts_in.map(milliseconds),
        connections: count(worker.holders),
        ready: count(snapshot.ready_holders),
        capacity: snapshot.capacity,
        jobs: facts.worker_jobs,
        processes: facts.usage.map(|usage| count(usage.processes)),
        memory_bytes: facts.usage.map(|usage| usage.memory_bytes),
        cpu_ms: facts.usage.map(|usage| milliseconds(usage.cpu)),
    }
}

fn report(status: &Status, facts: &InstanceInfo) -> StatusReply {
    let (snapshot, worker, backend) = (&status.snapshot, &status.worker, &status.backend);
    let (ending, exit_status) = match status.ending {
        None => (None, None),
        Some(FinalStep::Kill) => (Some("kill".to_owned()), None),
        Some(FinalStep::Exit(exit_status)) => (Some("exit".to_owned()), Some(exit_status)),
    };
    StatusReply {
        ok: true,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: facts.pid,
        state: names::worker_state(snapshot.state).to_owned(),
        phase: names::phase(snapshot.phase).to_owned(),
        reasons: reasons(status),
        terminating_for_ms: status.terminating_for.map(milliseconds),
        left_ms: status.left.map(milliseconds),
        left_of_ms: status.left_of.map(milliseconds),
        ending,
        exit_status,
        concurrency: snapshot.concurrency,
        uncapped: status.is_uncapped,
        most_asked: status.most_asked,
        active: count(snapshot.active),
        waiting: count(snapshot.waiting),
        held: count(snapshot.held),
        reporting: count(snapshot.reporting),
        held_back: count(snapshot.held_back),
        dropped: count(snapshot.dropped),
        given_back: status.given_back.iter().map(returns).collect(),
        cut_off: count(snapshot.cut_off),
        jobs: status.jobs.iter().map(|status| job(status, facts.kill_lead)).collect(),
        jobs_not_shown: count(status.not_shown),
        connections: worker.most_loaded.iter().map(connection).collect(),
        connections_not_shown: count(worker.holders.saturating_sub(worker.most_loaded.len())),
        queues: status.queues.as_deref().map_or_else(|| names(&facts.queues), names),
        queues_refused: refused(status),
        labels: names(&facts.labels),
        memory_taken_percent: snapshot.memory_taken,
        memory_gate: memory_gate(snapshot).map(str::to_owned),
        mode: facts.mode.clone(),
        caller_proof: facts.caller_proof.map(str::to_owned),
        worker: worker_report(status, facts),
        backend: BackendReport {
            url: Some(shortened(&facts.url, LONGEST_URL)),
            worker_id: backend.worker.as_ref().map(|worker| shortened(&worker.0, LONGEST_NAME)),
            ..backend_report(status, facts.backend_error.as_deref())
        },
        timers: count(snapshot.deadlines + facts.timers),
        ..StatusReply::default()
    }
}

/// The part that everybody may see: not its address, nor the worker's name there.
fn backend_report(status: &Status, words: Option<&str>) -> BackendReport {
    let (snapshot, backend) = (&status.snapshot, &status.backend);
    BackendReport {
        url: None,
        worker_id: None,
        reachable: !backend.is_unreachable,
        heartbeat_age_ms: backend.heartbeat_age.map(milliseconds),
        heartbeat_interval_ms: milliseconds(snapshot.heartbeat_interval),
        requests: count(backend.requests),
        streams: count(snapshot.streams),
        trouble: backend.trouble.as_ref().map(|trouble| trouble_report(trouble, words)),
    }
}

/// Why the backend fails. `words` is the log's text for the last failure.
fn trouble_report(trouble: &Trouble, words: Option<&str>) -> TroubleReport {
    TroubleReport {
        kind: trouble::kind(trouble.failure).to_owned(),
        state: trouble::state(trouble.failure).to_owned(),
        error: words.map(|words| shortened(words, LONGEST_ERROR)),
        lasted_ms: milliseconds(trouble.lasted),
        waiting_outcomes: count(trouble.waiting),
        lapses_ms: trouble.lapses_in.map(milliseconds),
    }
}

/// Whether there is memory for more jobs, if the memory gate is on.
fn memory_gate(snapshot: &Snapshot) -> Option<&'static str> {
    let word = if snapshot.memory_gate_is_closed {
        "closed"
    } else {
        "open"
    };
    snapshot.memory_taken.map(|_| word)
}

pub(super) fn job(job: &JobStatus, kill_lead: Duration) -> JobReport {
    let (place, connection) = match job.place {
        JobPlace::Waiting => ("waiting", None),
        JobPlace::Held(connection) => ("held", Some(connection.0)),
        JobPlace::Reporting => ("reporting", None),
        JobPlace::GoesBack => ("going back", None),
    };
    let progress = job.progress.as_ref().map(|(progress, _)| progress);
    let (reason, outcome) = match job.activity {
        JobActivity::Stops(reason) => (Some(reason), None),
        JobActivity::Reports(end) => (None, Some(end)),
        JobActivity::WaitsForHandler
        | JobActivity::WaitsForLook
        | JobActivity::WaitsForTurn
        | JobActivity::Runs
        | JobActivity::RunsPastTimeout
        | JobActivity::IsDropped
        | JobActivity::GoesBack => (None, None),
    };
    JobReport {
        id: shortened(&job.subject.id.0, LONGEST_NAME),
        kind: shortened(&job.subject.kind, LONGEST_NAME),
        queue: shortened(&job.subject.queue, LONGEST_NAME),
        attempt: job.subject.attempt,
        age_ms: milliseconds(job.age),
        place: place.to_owned(),
        connection,
        cancelled: job.is_cancelled,
        ends_in_ms: job.ends_in.map(|left| milliseconds(left.saturating_sub(kill_lead))),
        progress: progress.and_then(|progress| progress.fraction.parse().ok()),
        progress_message: progress
            .and_then(|progress| progress.message.as_ref())
            .map(|message| shortened(message, LONGEST_MESSAGE)),
        progress_age_ms: job.progress.as_ref().map(|(_, age)| milliseconds(*age)),
        max_attempts: job.subject.max_attempts,
        state: names::activity(job.activity).to_owned(),
        cancel_reason: reason.map(|reason| names::shown_cancel_reason(reason).to_owned()),
        outcome: outcome.map(|end| names::end(end).to_owned()),
        pid: job.process.map(|process| process.pid()),
        held_ms: job.held_for.map(milliseconds),
        timeout_in_ms: job.times_out_in.map(milliseconds),
    }
}

fn connection(holder: &HolderStatus) -> ConnectionReport {
    let state = match holder.state {
        HolderState::NotReady => "not ready",
        HolderState::Ready => "ready",
        HolderState::Asking => "asking",
        HolderState::Paused => "paused",
        HolderState::Alone => "alone",
        HolderState::GivenUp => "given up",
        HolderState::Closed => "closed",
    };
    ConnectionReport {
        connection: holder.holder.0,
        pid: holder.process.map(|process| process.pid()),
        jobs: count(holder.jobs),
        concurrency: holder.concurrency,
        state: state.to_owned(),
    }
}

fn returns((kind, times): &(Text, u32)) -> ReturnsReport {
    ReturnsReport {
        kind: shortened(kind, LONGEST_NAME),
        times: *times,
    }
}

fn reasons(status: &Status) -> Vec<String> {
    let word = |cause: &NotRunningBecause| match cause {
        NotRunningBecause::Operator => "operator",
        NotRunningBecause::Server => "server",
        NotRunningBecause::Prestop => "prestop",
        NotRunningBecause::End(reason) => reason.name(),
    };
    status.causes.iter().map(|cause| word(cause).to_owned()).collect()
}

fn health_line(probe: Probe, health: &Health, words: Option<&str>) -> HealthReport {
    HealthReport {
        ok: true,
        probe: names::probe(probe).to_owned(),
        healthy: health.is_good(),
        state: names::worker_state(health.state).to_owned(),
        reasons: why_unhealthy(health, words),
    }
}

/// Queues that the worker asks for and does not get.
fn refused(status: &Status) -> Vec<String> {
    let all = &status.refused_queues;
    names(all.get(..MOST_REFUSED).unwrap_or(all))
}

fn names<T: AsRef<str>>(names: &[T]) -> Vec<String> {
    let names = names.iter().take(MOST_NAMES);
    names.map(|name| shortened(name.as_ref(), LONGEST_NAME)).collect()
}

pub(super) fn line(object: &impl Serialize) -> Vec<u8> {
    // Texts and numbers only: the encoding cannot fail.
    let mut line = serde_json::to_vec(object).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
#[path = "status_line_tests.rs"]
mod tests;
