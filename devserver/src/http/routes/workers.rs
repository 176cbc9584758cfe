//! Requests of workers: FETCH, ACK, FAIL, heartbeats, registration.

use serde::Serialize;
use serde_json::json;

use crate::dialect::{required_worker_id, worker_info};
use crate::http::call::{Call, Result};
use crate::http::reply::Reply;
use crate::moment::wall;
use crate::operation::Operation;
use crate::store::envelope::Envelope;
use crate::store::job::{Job, JobState};

/// Carries out a worker's request.
pub(super) fn answer(call: &mut Call<'_>) -> Result {
    match call.request.operation {
        Operation::Fetch => fetch(call),
        Operation::Ack => ack(call),
        Operation::Nack => nack(call),
        Operation::Heartbeat => heartbeat(call),
        Operation::Register if call.shared.options.dialect.has_extensions() => register(call),
        Operation::Deregister if call.shared.options.dialect.has_extensions() => deregister(call),
        Operation::Register
        | Operation::Deregister
        | Operation::Enqueue
        | Operation::Info
        | Operation::Cancel
        | Operation::Progress
        | Operation::Checkpoint
        | Operation::Admin
        | Operation::Dev
        | Operation::Events
        | Operation::Other => Ok(call.request.nothing_there()),
    }
}

#[derive(Serialize)]
struct FetchedBody<'a> {
    jobs: Vec<Envelope<'a>>,
}

fn fetch(call: &mut Call<'_>) -> Result {
    let fetch = call.shared.options.dialect.fetch(&call.object()?)?;
    let ids = call.state.store.fetch(call.now, &fetch)?;
    let fetched = FetchedBody {
        jobs: call.state.store.envelopes(&ids),
    };
    let mut reply = Reply::ok(&fetched).about_worker(fetch.worker.as_deref());
    reply.about.jobs = ids.iter().map(ToString::to_string).collect();
    Ok(reply)
}

#[derive(Serialize)]
struct OutcomeBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    acknowledged: Option<bool>,
    id: &'a str,
    job_id: &'a str,
    state: &'static str,
    attempt: u32,
    max_attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    discarded_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_delay_ms: Option<u64>,
    job: Envelope<'a>,
}

/// The answer to an ACK or a FAIL, with both names of the id, because the public backends changed
/// from one to the other.
fn outcome_reply(job: &Job, epoch: jiff::Timestamp, worker: Option<&str>) -> Reply {
    let at = |state, moment: Option<_>| moment.filter(|_| job.state == state).map(|moment| wall(epoch, moment));
    let reply = Reply::ok(&OutcomeBody {
        acknowledged: (job.state == JobState::Completed).then_some(true),
        id: &job.id,
        job_id: &job.id,
        state: job.state.name(),
        attempt: job.attempt,
        max_attempts: job.policy.max_attempts,
        completed_at: at(JobState::Completed, job.ended_at).or(at(JobState::Discarded, job.ended_at)),
        discarded_at: at(JobState::Discarded, job.ended_at),
        next_attempt_at: at(JobState::Retryable, job.due_at),
        retry_delay_ms: job.retry_delay.map(|delay| delay.as_millis() as u64),
        job: job.envelope(epoch),
    });
    reply.about_worker(worker).about_job(&job.id).in_state(job.state.name())
}

fn ack(call: &mut Call<'_>) -> Result {
    let ack = call.shared.options.dialect.ack(&call.object()?)?;
    let worker = ack.worker.as_deref();
    let epoch = call.state.store.epoch();
    let done = call.state.store.ack(call.now, &ack.job, worker, ack.result);
    let refused = |refusal| Reply::refusal(&refusal).about_worker(worker).about_job(&ack.job);
    Ok(done.map_or_else(refused, |job| outcome_reply(job, epoch, worker)))
}

fn nack(call: &mut Call<'_>) -> Result {
    let nack = call.shared.options.dialect.nack(&call.object()?)?;
    let worker = nack.worker.as_deref();
    let epoch = call.state.store.epoch();
    let done = match nack.error {
        Some(error) => call.state.store.fail(call.now, &nack.job, worker, error),
        None => call.state.store.requeue(call.now, &nack.job, worker),
    };
    let refused = |refusal| Reply::refusal(&refusal).about_worker(worker).about_job(&nack.job);
    Ok(done.map_or_else(refused, |job| outcome_reply(job, epoch, worker)))
}

fn heartbeat(call: &mut Call<'_>) -> Result {
    let dialect = call.shared.options.dialect;
    let body = call.object()?;
    let heartbeat = dialect.heartbeat(&body)?;
    let state = body.text("state")?;
    let answer = call.state.store.heartbeat(call.now, &heartbeat)?;
    let server_time = wall(call.state.store.epoch(), call.now);
    let answer = dialect.heartbeat_answer(&answer, &server_time);
    Ok(Reply::ok(&answer).about_heartbeat(heartbeat, state))
}

fn register(call: &mut Call<'_>) -> Result {
    let body = call.object()?;
    let worker = required_worker_id(&body)?;
    call.state.store.register(call.now, &worker, worker_info(&body))?;
    let options = &call.shared.options;
    let reply = Reply::ok(&json!({
        "ok": true,
        "server_time": wall(call.state.store.epoch(), call.now),
        "heartbeat_interval": seconds(options.heartbeat_interval),
        "heartbeat_timeout": seconds(options.heartbeat_timeout),
        "visibility_timeout_default": seconds(options.visibility_timeout),
    }));
    Ok(reply.about_worker(Some(&worker)))
}

/// Whole seconds are an integer, as the specification has it; others, which only a test asks for,
/// are not.
fn seconds(duration: std::time::Duration) -> serde_json::Value {
    if duration.subsec_nanos() == 0 {
        duration.as_secs().into()
    } else {
        duration.as_secs_f64().into()
    }
}

/// The worker is named by the body or by the path.
fn deregister(call: &mut Call<'_>) -> Result {
    let (worker, state) = if call.request.method == "DELETE" {
        (call.request.path.last().cloned().unwrap_or_default(), None)
    } else {
        let body = call.object()?;
        (call.shared.options.dialect.deregister(&body)?, body.text("state")?)
    };
    let gone = call.state.store.deregister(&worker);
    let reply = gone.map_or_else(
        |refusal| Reply::refusal(&refusal),
        |()| Reply::ok(&json!({"ok": true, "worker_id": worker})),
    );
    let mut reply = reply.about_worker(Some(&worker));
    reply.about.state = state;
    Ok(reply)
}
