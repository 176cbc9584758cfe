//! What producers and people ask about jobs.

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::http::call::{Call, Result};
use crate::http::reply::Reply;
use crate::ids::new_id;
use crate::moment::wall;
use crate::operation::Operation;
use crate::refusal::{Kind, Refusal};
use crate::store::Envelope;
use crate::store::job::{Job, JobState};
use crate::store::new_job;
use crate::store::snapshot::Filter;

/// How many jobs a list has unless it is told otherwise.
const DEFAULT_LIMIT: u64 = 50;

/// Most jobs of a list.
const MAX_LIMIT: u64 = 1_000;

/// Most jobs of a batch (the JSON schema's `maxItems`).
const MAX_BATCH: usize = 10_000;

#[derive(Serialize)]
struct One<'a> {
    job: Envelope<'a>,
}

#[derive(Serialize)]
struct Several<'a> {
    jobs: Vec<Envelope<'a>>,
    count: usize,
}

#[derive(Serialize)]
struct Page<'a> {
    jobs: Vec<Envelope<'a>>,
    /// How many jobs there are in each state, in all queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<serde_json::Value>,
    pagination: serde_json::Value,
}

pub(super) fn answer(call: &mut Call<'_>) -> Result {
    let path = call.request.path.clone();
    let segments: Vec<&str> = path.iter().skip(3).map(String::as_str).collect();
    let has_extensions = call.shared.options.dialect.has_extensions();
    match (
        call.request.method.as_str(),
        call.request.operation,
        segments.as_slice(),
    ) {
        ("POST", Operation::Enqueue, []) => enqueue(call),
        ("POST", Operation::Enqueue, _) => enqueue_batch(call),
        ("GET", Operation::Info, [id]) => info(call, id),
        ("DELETE", Operation::Cancel, [id]) => cancel(call, id),
        ("PUT", Operation::Progress, [id, _]) if has_extensions => report(call, id),
        ("GET", Operation::Progress, [id, _]) if has_extensions => progress(call, id),
        ("POST", Operation::Checkpoint, [id, _]) if has_extensions => save_checkpoint(call, id),
        ("GET", Operation::Checkpoint, [id, _]) if has_extensions => checkpoint(call, id),
        ("DELETE", Operation::Checkpoint, [id, _]) if has_extensions => {
            call.state.store.delete_checkpoint(id)?;
            Ok(Reply::ok(&json!({"deleted": true, "job_id": id})).about_job(id))
        }
        _ => Ok(call.request.nothing_there()),
    }
}

fn one(call: &Call<'_>, status: u16, job: &Job) -> Reply {
    let reply = Reply::of(
        status,
        &One {
            job: job.envelope(call.state.store.epoch()),
        },
    );
    reply.about_job(&job.id).in_state(job.state.name())
}

fn enqueue(call: &mut Call<'_>) -> Result {
    let new = new_job::read(call.object()?)?;
    let ids = call.state.store.enqueue(call.now, vec![new], new_id)?;
    let id = ids.first().cloned().unwrap_or_default();
    let job = call.state.store.expect(&id)?;
    Ok(one(call, 201, job).located(format!("/ojs/v1/jobs/{id}")))
}

fn enqueue_batch(call: &mut Call<'_>) -> Result {
    let jobs = new_job::read_batch(&call.object()?)?;
    if jobs.len() > MAX_BATCH {
        return Err(Refusal::field("jobs", &format!("an array of at most {MAX_BATCH} jobs")));
    }
    let ids = call.state.store.enqueue(call.now, jobs, new_id)?;
    let store = &call.state.store;
    let jobs = ids
        .iter()
        .filter_map(|id| store.job(id))
        .map(|job| job.envelope(store.epoch()));
    let mut reply = Reply::of(
        201,
        &Several {
            jobs: jobs.collect(),
            count: ids.len(),
        },
    );
    reply.about.jobs = ids.iter().map(ToString::to_string).collect();
    Ok(reply)
}

fn info(call: &mut Call<'_>, id: &str) -> Result {
    let job = call.state.store.expect(id)?;
    Ok(one(call, 200, job))
}

fn with_field(call: &Call<'_>, id: &str, name: &str, value: &str) -> Result {
    let job = call.state.store.expect(id)?;
    let text = crate::json::raw(&job.envelope(call.state.store.epoch()));
    let mut shown = crate::json::Object::read(text.get().as_bytes()).unwrap_or_default();
    shown.set(name, crate::json::raw(value));
    let reply = Reply::ok(&json_of("job", &crate::json::raw(&shown)));
    Ok(reply.about_job(id).in_state(job.state.name()))
}

fn json_of(name: &str, value: &RawValue) -> crate::json::Object {
    let mut object = crate::json::Object::default();
    object.set(name, value.to_owned());
    object
}

fn cancel(call: &mut Call<'_>, id: &str) -> Result {
    match call.state.store.cancel(call.now, id) {
        Ok(previous) => with_field(call, id, "previous_state", previous.name()),
        Err(refusal) => Ok(Reply::refusal(&refusal).about_job(id)),
    }
}

/// Makes a pending job available.
pub(super) fn activate(call: &mut Call<'_>, id: &str) -> Result {
    call.state.store.activate(call.now, id)?;
    with_field(call, id, "previous_state", JobState::Pending.name())
}

fn page(call: &Call<'_>) -> std::result::Result<(u64, u64), Refusal> {
    let limit = call.request.number("limit", DEFAULT_LIMIT)?.min(MAX_LIMIT);
    Ok((limit, call.request.number("offset", 0)?))
}

fn paginated<'a>(
    jobs: impl Iterator<Item = &'a Job>,
    (limit, offset): (u64, u64),
    epoch: jiff::Timestamp,
    counts: Option<serde_json::Value>,
) -> Reply {
    let all: Vec<&Job> = jobs.collect();
    let total = all.len() as u64;
    let skip = usize::try_from(offset).unwrap_or(usize::MAX);
    let take = usize::try_from(limit).unwrap_or(usize::MAX);
    let shown: Vec<_> = all
        .into_iter()
        .skip(skip)
        .take(take)
        .map(|job| job.envelope(epoch))
        .collect();
    let has_more = offset.saturating_add(shown.len() as u64) < total;
    let pagination = json!({"total": total, "limit": limit, "offset": offset, "has_more": has_more});
    Reply::ok(&Page {
        jobs: shown,
        counts,
        pagination,
    })
}

/// The newest jobs, and how many there are of each state. Ours: the specification lists no jobs.
pub(super) fn list(call: &mut Call<'_>) -> Result {
    let state = match call.request.parameter("state") {
        None => None,
        Some(name) => Some(JobState::named(name).ok_or_else(|| {
            let names: Vec<&str> = JobState::ALL.iter().map(|state| state.name()).collect();
            Refusal::field("state", &format!("one of {}", names.join(", ")))
        })?),
    };
    let filter = Filter {
        state,
        queue: call.request.parameter("queue").map(str::to_owned),
    };
    let store = &call.state.store;
    let counts = store
        .counts()
        .map(|(state, count)| (state.name().to_owned(), count.into()));
    let counts = serde_json::Value::Object(counts.collect());
    Ok(paginated(
        store.newest(&filter),
        page(call)?,
        store.epoch(),
        Some(counts),
    ))
}

/// The dead letters.
pub(super) fn dead_letters(call: &mut Call<'_>) -> Result {
    let queue = call.request.parameter("queue");
    let store = &call.state.store;
    let letters = store
        .dead_letters()
        .filter(|job| queue.is_none_or(|queue| &*job.queue == queue));
    Ok(paginated(letters, page(call)?, store.epoch(), None))
}

/// Gives a dead letter another life.
pub(super) fn retry_dead_letter(call: &mut Call<'_>, id: &str) -> Result {
    call.state.store.retry_dead_letter(call.now, id)?;
    let at = wall(call.state.store.epoch(), call.now);
    with_field(call, id, "re_enqueued_at", &at)
}

/// Forgets a dead letter.
pub(super) fn delete_dead_letter(call: &mut Call<'_>, id: &str) -> Result {
    call.state.store.delete_dead_letter(id)?;
    Ok(Reply::ok(&json!({"deleted": true, "job_id": id})).about_job(id))
}

fn report(call: &mut Call<'_>, id: &str) -> Result {
    let body = call.object()?;
    let fraction = body.get("progress", "a number from 0.0 to 1.0")?;
    let data = body.raw("data").map(ToOwned::to_owned);
    let checkpoint = body.raw("checkpoint").map(ToOwned::to_owned);
    if fraction.is_none() && data.is_none() && checkpoint.is_none() {
        return Err(Refusal::field("progress", "given, or data"));
    }
    call.state.store.report(call.now, id, fraction, data)?;
    let is_active = call.state.store.expect(id)?.state == JobState::Active;
    if let Some(checkpoint) = checkpoint.filter(|_| is_active) {
        call.state.store.save_checkpoint(call.now, id, checkpoint, None)?;
    }
    progress(call, id)
}

#[derive(Serialize)]
struct Shown<'a> {
    job_id: &'a str,
    state: &'static str,
    progress: Option<f64>,
    data: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
}

fn progress(call: &mut Call<'_>, id: &str) -> Result {
    let store = &call.state.store;
    let job = store.expect(id)?;
    let progress = job.progress.as_ref();
    let reply = Reply::ok(&Shown {
        job_id: id,
        state: job.state.name(),
        progress: progress.and_then(|progress| progress.fraction),
        data: progress.and_then(|progress| progress.data.as_deref()),
        updated_at: progress.map(|progress| wall(store.epoch(), progress.at)),
    });
    Ok(reply.about_job(id))
}

fn save_checkpoint(call: &mut Call<'_>, id: &str) -> Result {
    let body = call.object()?;
    // The state may be null, which Object takes for absent.
    let state = body
        .fields()
        .find_map(|(name, value)| (name == "state").then(|| value.to_owned()));
    let state = state.ok_or_else(|| Refusal::field("state", "given, as any JSON value"))?;
    let sequence = body.get("sequence", "a whole number, 0 or more")?;
    let sequence = call.state.store.save_checkpoint(call.now, id, state, sequence)?;
    let at = wall(call.state.store.epoch(), call.now);
    let reply = Reply::ok(&json!({"checkpoint": {"job_id": id, "sequence": sequence, "created_at": at}}));
    Ok(reply.about_job(id))
}

#[derive(Serialize)]
struct Saved<'a> {
    checkpoint: SavedState<'a>,
}

#[derive(Serialize)]
struct SavedState<'a> {
    job_id: &'a str,
    state: &'a RawValue,
    sequence: u64,
    created_at: String,
}

fn checkpoint(call: &mut Call<'_>, id: &str) -> Result {
    let store = &call.state.store;
    let saved = store.expect(id)?.checkpoint.as_ref().ok_or_else(|| {
        let message = format!("the job '{id}' has no checkpoint; it ends with the job");
        Refusal::new(Kind::NotFound, message)
    })?;
    let checkpoint = SavedState {
        job_id: id,
        state: &saved.state,
        sequence: saved.sequence,
        created_at: wall(store.epoch(), saved.at),
    };
    Ok(Reply::ok(&Saved { checkpoint }).about_job(id))
}
