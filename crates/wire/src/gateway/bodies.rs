//! The bodies of requests that ojs-init answers.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use crate::json::object::Object;
use crate::worker::MAX_NAME_BYTES;
use crate::worker::error;
use ojs_lifecycle::api::{FromWorker, JobError, JobId, Text};

/// Most queues that a request for jobs may name.
const MOST_QUEUES: usize = 256;

/// Most jobs of a heartbeat that are looked at.
const MOST_JOBS: usize = 10_000;

/// The message of a failure whose error cannot be read.
const NO_ERROR: &str = "the job failed, and its error cannot be read";

/// Why a body is refused, for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadBody(pub &'static str);

const NO_OBJECT: BadBody = BadBody("the body must be a JSON object");

/// A request for jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchBody {
    /// The SDK's name for itself.
    pub worker: Option<String>,
    /// Most jobs: `count`, or `batch_size` (Ruby). 1 if neither is a whole number above zero.
    pub count: u32,
    /// The queues of the request. `None`: it names none, and gets jobs of the configured ones.
    pub queues: Option<Vec<Text>>,
}

/// A heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeatBody {
    /// The SDK's name for itself.
    pub worker: Option<String>,
    /// The worker's jobs; empty: it has none. `None`: the heartbeat does not list them.
    pub jobs: Option<Vec<JobId>>,
}

/// The outcome of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutcomeBody {
    /// Which job.
    pub job: JobId,
    /// The outcome in the lifecycle's words.
    pub said: FromWorker,
}

/// Reads the body of a FETCH. A field of another type than it should have counts as missing.
///
/// # Errors
///
/// The body is no JSON object, names too many queues, or none although it has to.
pub fn read_fetch(body: &[u8], has_to_name_queues: bool) -> Result<FetchBody, BadBody> {
    let body = Object::read_bytes(body).ok_or(NO_OBJECT)?;
    let count = body
        .whole("count")
        .or_else(|| body.whole("batch_size"))
        .unwrap_or(1)
        .max(1);
    let queues = body.texts("queues").filter(|queues| !queues.is_empty());
    if queues.is_none() && has_to_name_queues {
        return Err(BadBody("queues must be an array of at least one queue name"));
    }
    if queues.as_ref().is_some_and(|queues| !are_names(queues)) {
        return Err(BadBody("queues must be at most 256 names of 1 to 1024 bytes"));
    }
    Ok(FetchBody {
        worker: worker(&body),
        count: u32::try_from(count).unwrap_or(u32::MAX),
        queues: queues.map(|queues| queues.into_iter().map(Text::from).collect()),
    })
}

fn are_names(queues: &[String]) -> bool {
    queues.len() <= MOST_QUEUES && queues.iter().all(|name| is_name(name))
}

fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len())
}

fn worker(body: &Object<'_>) -> Option<String> {
    let worker = body.text("worker_id").filter(|worker| is_name(worker));
    worker.map(Cow::into_owned)
}

/// Reads the body of a heartbeat: the jobs as an array in `active_jobs` or in `active_job_ids`, or
/// one in `job_id`. An empty array, or the number 0 in `active_jobs`, means no jobs. If none of
/// these can be read, the jobs are unknown.
///
/// # Errors
///
/// The body is no JSON object.
pub fn read_beat(body: &[u8]) -> Result<BeatBody, BadBody> {
    let body = Object::read_bytes(body).ok_or(NO_OBJECT)?;
    let arrays = ["active_jobs", "active_job_ids"];
    let listed = arrays.iter().find_map(|name| body.texts(name));
    let none = || (body.whole("active_jobs") == Some(0)).then(Vec::new);
    let single = || body.text("job_id").map(|job| vec![job.into_owned()]);
    let jobs = listed.or_else(single).or_else(none);
    let job = |id: String| is_name(&id).then(|| JobId(id.into()));
    Ok(BeatBody {
        worker: worker(&body),
        jobs: jobs.map(|jobs| jobs.into_iter().take(MOST_JOBS).filter_map(job).collect()),
    })
}

/// The worker's own name, from a body of which no other field is needed.
pub fn read_worker(body: &[u8]) -> Option<String> {
    worker(&Object::read_bytes(body)?)
}

/// This body with `worker` in place of each `worker_id`; everything else stays byte for byte. A
/// body that is no JSON object stays unchanged.
pub fn with_worker(body: Vec<u8>, worker: &str) -> Vec<u8> {
    let spans: Vec<Range<usize>> = match std::str::from_utf8(&body) {
        Ok(text) => Object::read(text).map_or_else(Vec::new, |object| object.spans(text, "worker_id")),
        Err(_) => Vec::new(),
    };
    let Some(last) = spans.last() else { return body };
    let Ok(ours) = serde_json::to_string(worker) else {
        return body;
    };
    let mut changed = Vec::with_capacity(body.len() + spans.len() * ours.len());
    let rest = body.get(last.end..).unwrap_or_default();
    let mut from = 0;
    for span in &spans {
        changed.extend_from_slice(body.get(from..span.start).unwrap_or_default());
        changed.extend_from_slice(ours.as_bytes());
        from = span.end;
    }
    changed.extend_from_slice(rest);
    changed
}

/// Reads the body of an ACK, or of a FAIL. Results and details stay as they are spelled.
///
/// # Errors
///
/// The body is no JSON object, or does not name a job, or names it twice: the backend may read the
/// other one.
pub fn read_outcome(body: &[u8], has_failed: bool) -> Result<OutcomeBody, BadBody> {
    let text = std::str::from_utf8(body).map_err(|_| NO_OBJECT)?;
    let body = Object::read_some(text, &["job_id", "result", "error", "requeue"]).map_err(|_| NO_OBJECT)?;
    if body.is_repeated("job_id") {
        return Err(BadBody("job_id must be there once"));
    }
    let job = body.text("job_id").filter(|id| is_name(id));
    let job = job.ok_or(BadBody("job_id must be a string of 1 to 1024 bytes"))?;
    let job = JobId(job.into());
    let of = job.clone();
    let said = if !has_failed {
        let result = body.any("result").map(Text::from);
        FromWorker::Ack { job, result }
    } else if body.raw("requeue") == Some("true") {
        let (reason, after) = (None, Duration::ZERO);
        FromWorker::Release { job, reason, after }
    } else {
        let error = failure(body.raw("error"));
        FromWorker::Fail { job, error }
    };
    Ok(OutcomeBody { job: of, said })
}

/// A failure must not get lost because of its spelling: the readable parts of a wrong one count.
fn failure(json: Option<&str>) -> JobError {
    error::read(json).unwrap_or_else(|_| {
        let object = json.and_then(Object::read);
        let text = |name: &str| {
            object
                .as_ref()?
                .text(name)
                .filter(|text| !text.is_empty())
                .map(Text::from)
        };
        let field = |name: &str, first: char| {
            let raw = object.as_ref()?.raw(name)?;
            raw.starts_with(first).then(|| Text::from(raw))
        };
        let said = text("message").or_else(|| text("type")).or_else(|| text("code"));
        JobError {
            code: text("code"),
            kind: text("type"),
            retryable: object.as_ref().and_then(|object| object.raw("retryable")) != Some("false"),
            details: field("details", '{'),
            ..JobError::new(said.unwrap_or_else(|| NO_ERROR.into()))
        }
    })
}

#[cfg(test)]
#[path = "bodies_tests.rs"]
mod tests;
