//! The requests to the backend, as HTTP. [`read`] parses the answers.
//!
//! Paths and bodies follow the HTTP binding (wire protocol 10), which every backend speaks.
//! Requests that it lacks (register, deregister, progress, checkpoint) use the paths of the
//! extensions.

use std::time::Duration;

use serde::Serialize;
use serde_with_macros::skip_serializing_none;

use ojs_lifecycle::api::{
    Call, Farewell, FetchForm, HeartbeatForm, JobError, JobId, Outcome, Progress, StreamTopic, Takes, Text, WorkerId,
    WorkerState,
};

pub use crate::backend::error::is_of_ojs;
pub use crate::backend::failure::DEFAULT_ERROR_CODE;
use crate::backend::failure::ErrorBody;
use crate::backend::raw_json::Json;
pub use crate::backend::reply::{Answer, HttpAnswer, Words, is_object, read, read_jobs};
use crate::http::answer_head::EVENT_STREAM;
use crate::names::worker_state;
use crate::text::milliseconds;

/// The type of the bodies of requests and answers alike.
pub const CONTENT_TYPE: &str = "application/openjobspec+json";

/// The version of the specification that ojs-init speaks; the value of the header `OJS-Version`.
pub const OJS_VERSION: &str = "1.0.0-rc.1";

/// Error code of a job that is given back unprocessed (conformance L1-WRK-003).
const REQUEUE_ERROR_CODE: &str = "cancelled";

/// Least visibility timeout that the JSON schemas of heartbeat and FETCH allow.
const SHORTEST_VISIBILITY: Duration = Duration::from_secs(1);

/// The worker, as registration and heartbeats describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name of this machine or container.
    pub hostname: String,
    /// The process id of ojs-init.
    pub pid: u32,
    /// Highest priority first; never empty.
    pub queues: Vec<String>,
    /// Most jobs that the worker may have at once.
    pub concurrency: u32,
    pub labels: Vec<String>,
    /// When ojs-init started, in the form of RFC 3339.
    pub started_at: String,
}

/// One HTTP request, without the header lines that every request has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    pub method: &'static str,
    /// The path below the base URL.
    pub path: String,
    /// The type of the answer that is wanted.
    pub accept: &'static str,
    /// The body, as JSON.
    pub body: Option<Vec<u8>>,
}

/// The request that a call becomes.
pub fn request(call: &Call, us: &Identity) -> HttpRequest {
    match call {
        Call::Register { worker, takes } => post("workers/register", &registration(worker, takes, us)),
        Call::Heartbeat {
            worker,
            state,
            active,
            visibility,
            takes,
            form,
        } => {
            let says = Heartbeat {
                worker,
                state: *state,
                active,
                visibility: *visibility,
                takes,
            };
            post("workers/heartbeat", &says.spelled(*form, us))
        }
        Call::Fetch {
            worker,
            count,
            queues,
            visibility,
            form,
        } => post(
            "workers/fetch",
            &FetchBody {
                worker_id: Some(&*worker.0).filter(|_| *form != FetchForm::Bare),
                queues: names(queues.as_deref(), us),
                count: *count,
                visibility_timeout_ms: Some(milliseconds((*visibility).max(SHORTEST_VISIBILITY)))
                    .filter(|_| *form == FetchForm::Full),
            },
        ),
        Call::Report {
            worker,
            job,
            outcome,
            is_bare,
        } => report(worker, job, outcome, *is_bare),
        Call::GetJob { job } => bare("GET", path("jobs", &job.0, "")),
        Call::Progress { job, progress } => {
            let progress = progress_body(progress);
            with_body("PUT", path("jobs", &job.0, "/progress"), &progress)
        }
        Call::Checkpoint { job, state } => {
            let state = Json::from(&**state);
            with_body("POST", path("jobs", &job.0, "/checkpoint"), &CheckpointBody { state })
        }
        Call::Manifest => bare("GET", "/ojs/manifest".to_owned()),
        Call::Listen { topic } => HttpRequest {
            accept: EVENT_STREAM,
            ..bare("GET", events(topic))
        },
        Call::Deregister { worker, way } => deregistration(worker, *way),
    }
}

fn report(worker: &WorkerId, job: &JobId, outcome: &Outcome, is_bare: bool) -> HttpRequest {
    match outcome {
        Outcome::Acked { result } => post(
            "workers/ack",
            &AckBody {
                worker_id: Some(&*worker.0).filter(|_| !is_bare),
                job_id: &job.0,
                result: result.as_deref().map(Json::from),
            },
        ),
        Outcome::Failed { error } => post("workers/nack", &failure(worker, job, error, is_bare)),
        Outcome::Requeued { reason, .. } => post("workers/nack", &requeue(worker, job, reason)),
    }
}

/// The first way of the specification, that way with only the name, or the second way (requirements
/// C-16).
fn deregistration(worker: &WorkerId, way: Farewell) -> HttpRequest {
    let content = |state| DeregisterBody {
        worker_id: &worker.0,
        state,
    };
    match way {
        Farewell::Full => {
            let state = worker_state(WorkerState::Terminated);
            post("workers/deregister", &content(Some(state)))
        }
        Farewell::Bare => post("workers/deregister", &content(None)),
        Farewell::Delete => bare("DELETE", path("workers", &worker.0, "")),
    }
}

fn bare(method: &'static str, path: String) -> HttpRequest {
    HttpRequest {
        method,
        accept: CONTENT_TYPE,
        path,
        body: None,
    }
}

fn with_body(method: &'static str, path: String, content: &impl Serialize) -> HttpRequest {
    HttpRequest {
        // Structs of text and numbers: the encoding cannot fail.
        body: Some(serde_json::to_vec(content).unwrap_or_default()),
        ..bare(method, path)
    }
}

fn post(operation: &str, content: &impl Serialize) -> HttpRequest {
    with_body("POST", ["/ojs/v1/", operation].concat(), content)
}

/// The path of a job or a worker, or below it. The backend makes the ids of jobs, and they may be
/// any text.
fn path(collection: &str, id: &str, below: &str) -> String {
    let mut path = ["/ojs/v1/", collection, "/"].concat();
    push_encoded(&mut path, id);
    path.push_str(below);
    path
}

fn push_encoded(path: &mut String, id: &str) {
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) || (byte == b'.' && !is_dots(id)) {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
}

/// The path of a stream of events.
fn events(topic: &StreamTopic) -> String {
    match topic {
        StreamTopic::Queue(queue) => path("queues", queue, "/events"),
        StreamTopic::Queues(queues) => {
            let mut path = "/ojs/v1/events?queues=".to_owned();
            for (index, queue) in queues.iter().enumerate() {
                path.push_str(if index == 0 { "" } else { "," });
                push_encoded(&mut path, queue);
            }
            path
        }
    }
}

/// `.` and `..` would walk through the paths.
fn is_dots(id: &str) -> bool {
    id.bytes().all(|byte| byte == b'.')
}

/// These queues, else the configured ones.
fn names<'a>(queues: Option<&'a [Text]>, us: &'a Identity) -> Vec<&'a str> {
    match queues {
        Some(queues) => queues.iter().map(|queue| &**queue).collect(),
        None => us.queues.iter().map(String::as_str).collect(),
    }
}

#[derive(Serialize)]
struct Registration<'a> {
    worker_id: &'a str,
    hostname: &'a str,
    pid: u32,
    queues: Vec<&'a str>,
    concurrency: u32,
    labels: &'a [String],
    started_at: &'a str,
}

fn registration<'a>(worker: &'a WorkerId, takes: &'a Takes, us: &'a Identity) -> Registration<'a> {
    Registration {
        worker_id: &worker.0,
        hostname: &us.hostname,
        pid: us.pid,
        queues: names(takes.queues.as_deref(), us),
        concurrency: takes.concurrency.unwrap_or(us.concurrency),
        labels: &us.labels,
        started_at: &us.started_at,
    }
}

/// The content of a heartbeat.
struct Heartbeat<'a> {
    worker: &'a WorkerId,
    state: WorkerState,
    active: &'a [JobId],
    visibility: Duration,
    takes: &'a Takes,
}

/// The fields of a heartbeat; the bare form has no `detail`.
#[derive(Serialize)]
struct HeartbeatBody<'a> {
    /// The binding's name for the ids of the active jobs, or for their number.
    active_jobs: ActiveJobs<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    visibility_timeout_ms: Option<u64>,
    #[serde(flatten)]
    who: Who<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ActiveJobs<'a> {
    Ids(Vec<&'a str>),
    Count(usize),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Who<'a> {
    Id {
        worker_id: &'a str,
    },
    Everything {
        state: &'static str,
        /// The worker protocol's name for the ids (requirements C-08).
        active_job_ids: Vec<&'a str>,
        #[serde(flatten)]
        who: Registration<'a>,
    },
}

impl<'a> Heartbeat<'a> {
    fn spelled(&self, form: HeartbeatForm, us: &'a Identity) -> HeartbeatBody<'a> {
        let ids: Vec<&str> = self.active.iter().map(|job| &*job.0).collect();
        let active_jobs = match form {
            HeartbeatForm::Full | HeartbeatForm::Bare => ActiveJobs::Ids(ids.clone()),
            HeartbeatForm::Counted | HeartbeatForm::Protocol => ActiveJobs::Count(ids.len()),
        };
        let (visibility, who) = match form {
            HeartbeatForm::Full | HeartbeatForm::Counted | HeartbeatForm::Protocol => {
                let everything = Who::Everything {
                    state: worker_state(self.state),
                    active_job_ids: ids,
                    who: registration(self.worker, self.takes, us),
                };
                let visibility = Some(self.visibility).filter(|_| form != HeartbeatForm::Protocol);
                (visibility, everything)
            }
            HeartbeatForm::Bare => (
                Some(self.visibility.max(SHORTEST_VISIBILITY)),
                Who::Id {
                    worker_id: &self.worker.0,
                },
            ),
        };
        HeartbeatBody {
            active_jobs,
            visibility_timeout_ms: visibility.map(milliseconds),
            who,
        }
    }
}

#[skip_serializing_none]
#[derive(Serialize)]
struct FetchBody<'a> {
    worker_id: Option<&'a str>,
    queues: Vec<&'a str>,
    count: u32,
    /// Without it backends reserve a job until the first heartbeat for 30 s, or for the time in its
    /// envelope.
    visibility_timeout_ms: Option<u64>,
}

#[skip_serializing_none]
#[derive(Serialize)]
struct AckBody<'a> {
    worker_id: Option<&'a str>,
    job_id: &'a str,
    result: Option<Json<'a>>,
}

#[skip_serializing_none]
#[derive(Serialize)]
struct NackBody<'a> {
    worker_id: Option<&'a str>,
    job_id: &'a str,
    error: ErrorBody<'a>,
    requeue: Option<bool>,
}

fn failure<'a>(worker: &'a WorkerId, job: &'a JobId, error: &'a JobError, is_bare: bool) -> NackBody<'a> {
    NackBody {
        worker_id: Some(&*worker.0).filter(|_| !is_bare),
        job_id: &job.0,
        error: ErrorBody::of(error, is_bare),
        requeue: None,
    }
}

/// Backends that know `requeue` ignore the other fields. Any other backend must at least retry the
/// job, so it is `retryable`, unlike in the conformance suite.
fn requeue<'a>(worker: &'a WorkerId, job: &'a JobId, reason: &'a str) -> NackBody<'a> {
    NackBody {
        worker_id: Some(&worker.0),
        job_id: &job.0,
        error: ErrorBody::of_requeue(REQUEUE_ERROR_CODE, reason),
        requeue: Some(true),
    }
}

#[skip_serializing_none]
#[derive(Serialize)]
struct ProgressBody<'a> {
    progress: Json<'a>,
    message: Option<&'a str>,
    data: Option<Json<'a>>,
}

fn progress_body(progress: &Progress) -> ProgressBody<'_> {
    ProgressBody {
        progress: Json::from(&*progress.fraction),
        message: progress.message.as_deref(),
        data: progress.data.as_deref().map(Json::from),
    }
}

#[derive(Serialize)]
struct CheckpointBody<'a> {
    state: Json<'a>,
}

#[derive(Serialize)]
struct DeregisterBody<'a> {
    worker_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
