//! Routes: the table from an operation to the function that answers it, and those functions.
//!
//! Each file has one group of requests: `workers` the workers' requests, `jobs` the producers',
//! `dev` the requests that no backend has. A function reads the request, calls the store under its
//! lock, and returns a reply. Start with `route`, below.

mod admin;
mod dead_letters;
mod dev;
mod events;
mod jobs;
mod progress;
mod queues;
mod server_info;
mod workers;

use super::call::{Call, Result};
use super::reply::Reply;
use super::request::Request;
use crate::operation::Operation;
use crate::refusal::{Refusal, RefusalKind};
use crate::state::Shared;

/// Carries a request out, and answers it.
pub(super) fn route(shared: &Shared, request: &Request, body: &[u8]) -> Reply {
    if let Some(refused) = request.check_token(shared.options.token.as_deref()) {
        return refused;
    }
    let mut state = shared.lock();
    let now = shared.clock.now();
    let mut call = Call {
        shared,
        state: &mut state,
        now,
        request,
        body,
    };
    let result = match request.operation {
        Operation::Dev => dev::answer(&mut call),
        Operation::Admin => admin::answer(&mut call),
        Operation::Fetch
        | Operation::Ack
        | Operation::Nack
        | Operation::Heartbeat
        | Operation::Register
        | Operation::Deregister => workers::answer(&mut call),
        Operation::Enqueue | Operation::Info | Operation::Cancel => jobs::answer(&mut call),
        Operation::Progress | Operation::Checkpoint => progress::answer(&mut call),
        Operation::Events => events::answer(&mut call),
        Operation::Other => other(&mut call),
    };
    shared.announce(&state);
    drop(state);
    shared.notify();
    result.unwrap_or_else(|refusal| Reply::refusal(&refusal))
}

/// Answers the requests that faults and events name only as `other`.
fn other(call: &mut Call<'_>) -> Result {
    let path: Vec<&str> = call.request.path.iter().map(String::as_str).collect();
    match (call.request.method.as_str(), path.as_slice()) {
        ("GET", ["ojs", "manifest"]) => Ok(server_info::manifest(call.shared)),
        ("GET", ["ojs", "v1", "health"]) => Ok(server_info::health(call.shared, call.now)),
        ("GET", ["ojs", "v1", "jobs"]) => jobs::list(call),
        ("POST", ["ojs", "v1", "jobs", id, "activate"]) => jobs::activate(call, id),
        ("GET", ["ojs", "v1", "queues"]) => Ok(queues::list(call)),
        ("GET", ["ojs", "v1", "queues", name, "stats"]) => queues::stats(call, name),
        ("POST", ["ojs", "v1", "queues", name, "pause"]) => queues::pause(call, name, true),
        ("POST", ["ojs", "v1", "queues", name, "resume"]) => queues::pause(call, name, false),
        ("GET", ["ojs", "v1", "dead-letter"]) => dead_letters::list(call),
        ("POST", ["ojs", "v1", "dead-letter", id, "retry"]) => dead_letters::retry(call, id),
        ("DELETE", ["ojs", "v1", "dead-letter", id]) => dead_letters::delete(call, id),
        (_, ["ojs", "v1", "workflows", ..]) => Err(unsupported("workflows")),
        (_, ["ojs", "v1", "cron", ..]) => Err(unsupported("cron schedules")),
        _ => Ok(call.request.nothing_there()),
    }
}

/// The refusal of features that only levels of the specification above 1 have.
fn unsupported(what: &str) -> Refusal {
    let message = format!("the development server has no {what}: it plays conformance levels 0 and 1");
    Refusal::new(RefusalKind::Unsupported, message)
}
