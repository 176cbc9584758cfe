//! Requests of producers and people about jobs: enqueueing, looking, listing, cancelling.

use serde::Serialize;
use serde_json::json;

use crate::http::call::{Call, Result};
use crate::http::reply::Reply;
use crate::ids::new_id;
use crate::json::{Object, raw};
use crate::operation::Operation;
use crate::refusal::Refusal;
use crate::store::envelope::Envelope;
use crate::store::job::{Job, JobState};
use crate::store::new_job::{self, NewJob};
use crate::store::snapshot::JobFilter;

/// Default number of jobs in a list.
const DEFAULT_LIMIT: u64 = 50;

/// Most jobs of a list.
const MAX_LIMIT: u64 = 1_000;

/// Most jobs of a batch (the JSON schema's `maxItems`).
const MAX_BATCH: usize = 10_000;

#[derive(Serialize)]
struct JobBody<T> {
    job: T,
}

#[derive(Serialize)]
struct JobsBody<'a> {
    jobs: Vec<Envelope<'a>>,
    count: usize,
}

#[derive(Serialize)]
struct JobListBody<'a> {
    jobs: Vec<Envelope<'a>>,
    /// The number of jobs in each state, in all queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<serde_json::Value>,
    pagination: serde_json::Value,
}

/// Enqueues, shows or cancels jobs.
pub(super) fn answer(call: &mut Call<'_>) -> Result {
    let path = call.request.path.clone();
    let segments: Vec<&str> = path.iter().skip(3).map(String::as_str).collect();
    match (
        call.request.method.as_str(),
        call.request.operation,
        segments.as_slice(),
    ) {
        ("POST", Operation::Enqueue, []) => enqueue(call),
        ("POST", Operation::Enqueue, _) => enqueue_batch(call),
        ("GET", Operation::Info, [id]) => info(call, id),
        ("DELETE", Operation::Cancel, [id]) => cancel(call, id),
        _ => Ok(call.request.nothing_there()),
    }
}

/// The answer with one job.
fn job_reply(call: &Call<'_>, status: u16, job: &Job) -> Reply {
    let job_body = JobBody {
        job: job.envelope(call.state.store.epoch()),
    };
    let reply = Reply::with_status(status, &job_body);
    reply.about_job(&job.id).in_state(job.state.name())
}

fn enqueue(call: &mut Call<'_>) -> Result {
    let new = new_job::read(call.object()?)?;
    check_ids(call, std::slice::from_ref(&new))?;
    let ids = call.state.store.enqueue(call.now, vec![new], new_id)?;
    let id = ids.first().cloned().unwrap_or_default();
    let job = call.state.store.existing_job(&id)?;
    Ok(job_reply(call, 201, job).with_location(format!("/ojs/v1/jobs/{id}")))
}

/// Refuses ids that the dialect does not know. A test that has the server in its own process names
/// its jobs as it likes.
fn check_ids(call: &Call<'_>, jobs: &[NewJob]) -> std::result::Result<(), Refusal> {
    if call.shared.options.dialect.wants_uuid7() {
        jobs.iter().try_for_each(new_job::check_uuid7)
    } else {
        Ok(())
    }
}

fn enqueue_batch(call: &mut Call<'_>) -> Result {
    let jobs = new_job::read_batch(&call.object()?)?;
    if jobs.len() > MAX_BATCH {
        return Err(Refusal::field("jobs", &format!("an array of at most {MAX_BATCH} jobs")));
    }
    check_ids(call, &jobs)?;
    let ids = call.state.store.enqueue(call.now, jobs, new_id)?;
    let jobs_body = JobsBody {
        jobs: call.state.store.envelopes(&ids),
        count: ids.len(),
    };
    let mut reply = Reply::with_status(201, &jobs_body);
    reply.about.jobs = ids.iter().map(ToString::to_string).collect();
    Ok(reply)
}

fn info(call: &mut Call<'_>, id: &str) -> Result {
    let job = call.state.store.existing_job(id)?;
    Ok(job_reply(call, 200, job))
}

/// The answer with a job that has one more field.
pub(super) fn job_reply_with(call: &Call<'_>, id: &str, name: &str, value: &str) -> Result {
    let job = call.state.store.existing_job(id)?;
    let text = raw(&job.envelope(call.state.store.epoch()));
    let mut shown = Object::read(text.get().as_bytes()).unwrap_or_default();
    shown.set(name, raw(value));
    let reply = Reply::ok(&JobBody { job: &shown });
    Ok(reply.about_job(id).in_state(job.state.name()))
}

fn cancel(call: &mut Call<'_>, id: &str) -> Result {
    match call.state.store.cancel(call.now, id) {
        Ok(previous) => job_reply_with(call, id, "previous_state", previous.name()),
        Err(refusal) => Ok(Reply::refusal(&refusal).about_job(id)),
    }
}

/// Makes a pending job available.
pub(super) fn activate(call: &mut Call<'_>, id: &str) -> Result {
    call.state.store.activate(call.now, id)?;
    job_reply_with(call, id, "previous_state", JobState::Pending.name())
}

/// The limit and the offset that a request for a list names.
pub(super) fn page(call: &Call<'_>) -> std::result::Result<(u64, u64), Refusal> {
    let limit = call.request.number("limit", DEFAULT_LIMIT)?.min(MAX_LIMIT);
    Ok((limit, call.request.number("offset", 0)?))
}

/// A page of these jobs.
pub(super) fn page_reply<'a>(
    jobs: impl Iterator<Item = &'a Job>,
    total: usize,
    (limit, offset): (u64, u64),
    epoch: jiff::Timestamp,
    counts: Option<serde_json::Value>,
) -> Reply {
    let total = total as u64;
    let skip = usize::try_from(offset).unwrap_or(usize::MAX);
    let take = usize::try_from(limit).unwrap_or(usize::MAX);
    // Only the listed jobs are read: there may be a hundred thousand jobs, and a client that polls
    // this list all the time.
    let shown: Vec<_> = jobs.skip(skip).take(take).map(|job| job.envelope(epoch)).collect();
    let has_more = offset.saturating_add(shown.len() as u64) < total;
    let pagination = json!({"total": total, "limit": limit, "offset": offset, "has_more": has_more});
    Reply::ok(&JobListBody {
        jobs: shown,
        counts,
        pagination,
    })
}

/// Lists the newest jobs, and the number of jobs in each state. The specification has no such
/// route.
pub(super) fn list(call: &mut Call<'_>) -> Result {
    let state = match call.request.parameter("state") {
        None => None,
        Some(name) => Some(
            JobState::named(name).ok_or_else(|| Refusal::field("state", &format!("one of {}", JobState::names())))?,
        ),
    };
    let filter = JobFilter {
        state,
        queue: call.request.parameter("queue").map(str::to_owned),
    };
    let store = &call.state.store;
    let counts = store
        .counts()
        .map(|(state, count)| (state.name().to_owned(), count.into()));
    let counts = serde_json::Value::Object(counts.collect());
    Ok(page_reply(
        store.newest(&filter),
        store.how_many(&filter),
        page(call)?,
        store.epoch(),
        Some(counts),
    ))
}
