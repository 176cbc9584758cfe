//! Progress and checkpoints of a job, written by its worker and read by any client.

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::http::call::{Call, Result};
use crate::http::reply::Reply;
use crate::moment::wall;
use crate::operation::Operation;
use crate::refusal::{Refusal, RefusalKind};
use crate::store::job::JobState;

/// Answers requests below `/jobs/{id}/progress` and `/jobs/{id}/checkpoint`.
pub(super) fn answer(call: &mut Call<'_>) -> Result {
    if !call.shared.options.dialect.has_extensions() {
        return Ok(call.request.nothing_there());
    }
    let path = call.request.path.clone();
    let segments: Vec<&str> = path.iter().skip(3).map(String::as_str).collect();
    match (
        call.request.method.as_str(),
        call.request.operation,
        segments.as_slice(),
    ) {
        ("PUT", Operation::Progress, [id, _]) => report_progress(call, id),
        ("GET", Operation::Progress, [id, _]) => progress(call, id),
        ("POST", Operation::Checkpoint, [id, _]) => save_checkpoint(call, id),
        ("GET", Operation::Checkpoint, [id, _]) => checkpoint(call, id),
        ("DELETE", Operation::Checkpoint, [id, _]) => {
            call.state.store.delete_checkpoint(id)?;
            Ok(Reply::ok(&json!({"deleted": true, "job_id": id})).about_job(id))
        }
        _ => Ok(call.request.nothing_there()),
    }
}

fn report_progress(call: &mut Call<'_>, id: &str) -> Result {
    let body = call.object()?;
    let fraction = body.get("progress", "a number from 0.0 to 1.0")?;
    let data = body.raw("data").map(ToOwned::to_owned);
    let checkpoint = body.raw("checkpoint").map(ToOwned::to_owned);
    if fraction.is_none() && data.is_none() && checkpoint.is_none() {
        return Err(Refusal::field("progress", "given, or data"));
    }
    call.state.store.report_progress(call.now, id, fraction, data)?;
    let is_active = call.state.store.existing_job(id)?.state == JobState::Active;
    if let Some(checkpoint) = checkpoint.filter(|_| is_active) {
        call.state.store.save_checkpoint(call.now, id, checkpoint, None)?;
    }
    progress(call, id)
}

#[derive(Serialize)]
struct ProgressBody<'a> {
    job_id: &'a str,
    state: &'static str,
    progress: Option<f64>,
    data: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
}

fn progress(call: &mut Call<'_>, id: &str) -> Result {
    let store = &call.state.store;
    let job = store.existing_job(id)?;
    let progress = job.progress.as_ref();
    let reply = Reply::ok(&ProgressBody {
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
    // The state may be null, which Object reads as absent.
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
struct CheckpointBody<'a> {
    checkpoint: CheckpointDetails<'a>,
}

#[derive(Serialize)]
struct CheckpointDetails<'a> {
    job_id: &'a str,
    state: &'a RawValue,
    sequence: u64,
    created_at: String,
}

fn checkpoint(call: &mut Call<'_>, id: &str) -> Result {
    let store = &call.state.store;
    let saved = store.existing_job(id)?.checkpoint.as_ref().ok_or_else(|| {
        let message = format!("the job '{id}' has no checkpoint; it ends with the job");
        Refusal::new(RefusalKind::NotFound, message)
    })?;
    let checkpoint = CheckpointDetails {
        job_id: id,
        state: &saved.state,
        sequence: saved.sequence,
        created_at: wall(store.epoch(), saved.at),
    };
    Ok(Reply::ok(&CheckpointBody { checkpoint }).about_job(id))
}
