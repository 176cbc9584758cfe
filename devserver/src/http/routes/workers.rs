//! What workers ask for.

use serde::Serialize;
use serde_json::json;

use crate::dialect::{about, worker_required};
use crate::http::call::{Call, Result};
use crate::http::reply::Reply;
use crate::moment::wall;
use crate::operation::Operation;
use crate::store::Envelope;
use crate::store::job::{Job, JobState};

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
        | Operation::Other => Ok(call.request.nothing_there()),
    }
}

#[derive(Serialize)]
struct Fetched<'a> {
    jobs: Vec<Envelope<'a>>,
}

fn fetch(call: &mut Call<'_>) -> Result {
    let fetch = call.shared.options.dialect.fetch(&call.object()?)?;
    let ids = call.state.store.fetch(call.now, &fetch)?;
    let store = &call.state.store;
    let jobs = ids
        .iter()
        .filter_map(|id| store.job(id))
        .map(|job| job.envelope(store.epoch()));
    let mut reply = Reply::ok(&Fetched { jobs: jobs.collect() }).about_worker(fetch.worker.as_deref());
    reply.about.jobs = ids.iter().map(ToString::to_string).collect();
    Ok(reply)
}

#[derive(Serialize)]
struct Outcome<'a> {
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
    job: Envelope<'a>,
}

/// The answer to an ACK or a FAIL. Both names of the id: the public backends changed from one to the other.
fn outcome(job: &Job, epoch: jiff::Timestamp, worker: Option<&str>) -> Reply {
    let at = |state, moment: Option<_>| moment.filter(|_| job.state == state).map(|moment| wall(epoch, moment));
    let reply = Reply::ok(&Outcome {
        acknowledged: (job.state == JobState::Completed).then_some(true),
        id: &job.id,
        job_id: &job.id,
        state: job.state.name(),
        attempt: job.attempt,
        max_attempts: job.policy.max_attempts,
        completed_at: at(JobState::Completed, job.ended_at),
        discarded_at: at(JobState::Discarded, job.ended_at),
        next_attempt_at: at(JobState::Retryable, job.due),
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
    Ok(done.map_or_else(refused, |job| outcome(job, epoch, worker)))
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
    Ok(done.map_or_else(refused, |job| outcome(job, epoch, worker)))
}

fn heartbeat(call: &mut Call<'_>) -> Result {
    let dialect = call.shared.options.dialect;
    let body = call.object()?;
    let beat = dialect.heartbeat(&body)?;
    let beaten = call.state.store.beat(call.now, &beat)?;
    let server_time = wall(call.state.store.epoch(), call.now);
    let mut reply = Reply::ok(&dialect.beaten(&beaten, &server_time)).about_worker(Some(&beat.worker));
    reply.about.state = body.text("state")?;
    reply.about.jobs = beat.jobs;
    Ok(reply)
}

fn register(call: &mut Call<'_>) -> Result {
    let body = call.object()?;
    let worker = worker_required(&body)?;
    call.state.store.register(call.now, &worker, about(&body))?;
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

/// Whole seconds are an integer, as the specification has it; others, which only a test asks for, are not.
fn seconds(duration: std::time::Duration) -> serde_json::Value {
    if duration.subsec_nanos() == 0 {
        duration.as_secs().into()
    } else {
        duration.as_secs_f64().into()
    }
}

/// By body or by path.
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
