//! Answers of public backends while their store is away, to a message that their store refuses, and
//! to an ACK that is too late.

use std::time::Duration;

use serde_json::json;

use super::reply::Reply;
use super::request::Request;
use super::routes;
use crate::faults::{Backend, HEARTBEAT_DELAYS};
use crate::moment::wall;
use crate::operation::Operation;
use crate::refusal::Refusal;
use crate::state::Shared;
use crate::store::job::Directive;
use crate::store::worker::HeartbeatAnswer;

/// The delay of the answer while the store is away.
pub(super) fn delay(request: &Request, delay: Duration) -> Duration {
    if request.operation == Operation::Heartbeat {
        delay * HEARTBEAT_DELAYS
    } else {
        delay
    }
}

/// The answer while the store of this backend is away. Requests that need no store are answered as
/// usual.
pub(super) fn store_away(shared: &Shared, request: &Request, body: &[u8], backend: Backend) -> Reply {
    if let Some(refused) = request.check_token(shared.options.token.as_deref()) {
        return refused;
    }
    if request.path == ["ojs", "v1", "health"] {
        return Reply::with_status(
            503,
            &json!({"status": "degraded", "backend": {"type": backend.name(), "status": "disconnected"}}),
        );
    }
    let dialect = shared.options.dialect;
    let body = request.object(body);
    let reply = match request.operation {
        Operation::Ack => {
            let ack = body.and_then(|body| dialect.ack(&body));
            ack.map(|ack| match backend {
                Backend::Postgres | Backend::Nats => no_job(&ack.job),
                Backend::Redis => broken("completing the job"),
            })
        }
        // Each backend treats any error of its store as a missing job.
        Operation::Nack => body.and_then(|body| dialect.nack(&body)).map(|nack| no_job(&nack.job)),
        Operation::Info => Ok(match (backend, request.path.last()) {
            (Backend::Postgres | Backend::Nats, Some(job)) => no_job(job),
            (Backend::Redis, _) | (_, None) => broken("reading the job"),
        }),
        Operation::Heartbeat => body.and_then(|body| {
            let state = body.text("state")?;
            let heartbeat = dialect.heartbeat(&body)?;
            let nothing = HeartbeatAnswer {
                directive: Directive::Run,
                extended: Vec::new(),
            };
            let server_time = wall(shared.clock.epoch(), shared.clock.now());
            let answer = dialect.heartbeat_answer(&nothing, &server_time);
            Ok(Reply::ok(&answer).about_heartbeat(heartbeat, state))
        }),
        Operation::Fetch => body.and_then(|body| dialect.fetch(&body)).map(|fetch| match backend {
            Backend::Postgres => broken("fetching jobs"),
            Backend::Nats | Backend::Redis => Reply::ok(&json!({"jobs": []})).about_worker(fetch.worker.as_deref()),
        }),
        Operation::Register | Operation::Deregister if !dialect.has_extensions() => Ok(request.nothing_there()),
        Operation::Progress | Operation::Checkpoint if !dialect.has_extensions() => Ok(request.nothing_there()),
        Operation::Register
        | Operation::Deregister
        | Operation::Progress
        | Operation::Checkpoint
        | Operation::Enqueue
        | Operation::Cancel
        | Operation::Admin
        | Operation::Dev
        | Operation::Events
        | Operation::Other => Ok(broken("the request")),
    };
    reply.unwrap_or_else(|refusal: Refusal| Reply::refusal(&refusal))
}

/// The answer as if the job had never existed, in the words of the public backends.
fn no_job(id: &str) -> Reply {
    let details = crate::json::raw(&json!({"resource_type": "Job", "resource_id": id}));
    let message = format!("Job '{id}' not found.");
    Reply::error(404, "not_found", &message, false, Some(details)).about_job(id)
}

/// An error of the store that the backend does not hide.
fn broken(what: &str) -> Reply {
    let message = format!("{what}: dial tcp: connect: connection refused");
    Reply::error(500, "internal_error", &message, true, None)
}

/// The answer to a message that the store refuses.
pub(super) fn too_large(bytes: u64, status: u16) -> Reply {
    if status == 400 {
        let message = format!("request body too large: at most {bytes} bytes");
        return Reply::error(400, "invalid_request", &message, false, None);
    }
    let message = "updating completed job state: nats: maximum payload exceeded";
    Reply::error(status, "internal_error", message, true, None)
}

/// The worker that has completed the job before the late ACK.
const RIVAL: &str = "rival";

/// The answer to an ACK of a job that another worker has just completed. Any request other than an
/// ACK of an active job is answered as usual.
pub(super) fn overtaken(shared: &Shared, request: &Request, body: &[u8], tells_state: bool) -> Reply {
    let ack = request.object(body).and_then(|body| shared.options.dialect.ack(&body));
    let is_done = ack.as_ref().is_ok_and(|ack| {
        let mut state = shared.lock();
        state.store.overtake(shared.clock.now(), &ack.job, RIVAL)
    });
    match ack {
        Ok(ack) if is_done && !tells_state => {
            let message = format!("the job '{}' is not active", ack.job);
            Reply::error(409, "conflict", &message, false, None).about_job(&ack.job)
        }
        Ok(_) | Err(_) => routes::route(shared, request, body),
    }
}
