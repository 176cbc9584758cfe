//! Questions of people about workers, and orders to them.

use serde::Serialize;
use serde_json::json;

use crate::http::call::{Call, Result};
use crate::http::reply::Reply;
use crate::json::Object;
use crate::moment::wall;
use crate::store::job::{Directive, JobState};

/// Answers requests below `/admin`.
pub(super) fn answer(call: &mut Call<'_>) -> Result {
    let path: Vec<&str> = call.request.path.iter().skip(3).map(String::as_str).collect();
    let keeps_quiet = call.shared.options.dialect.keeps_quiet();
    match (call.request.method.as_str(), path.as_slice()) {
        ("GET", ["workers"]) => Ok(workers(call)),
        ("POST", ["workers", id, "quiet"]) => {
            if keeps_quiet {
                call.state.store.ensure_worker(call.now, id)?;
            }
            direct(call, id, Directive::Quiet)
        }
        ("POST", ["workers", id, "resume"]) if !keeps_quiet => direct(call, id, Directive::Run),
        ("POST", ["workers", id, "terminate"]) if !keeps_quiet => direct(call, id, Directive::Terminate),
        ("DELETE", ["workers", id]) => {
            call.state.store.deregister(id)?;
            Ok(Reply::ok(&json!({"ok": true, "worker_id": id})).about_worker(Some(id)))
        }
        _ => Ok(call.request.nothing_there()),
    }
}

fn direct(call: &mut Call<'_>, id: &str, directive: Directive) -> Result {
    call.state.store.direct(id, directive)?;
    let reply = Reply::ok(&json!({"worker_id": id, "state": directive.name()}));
    Ok(reply.about_worker(Some(id)).in_state(directive.name()))
}

#[derive(Serialize)]
struct WorkerBody<'a> {
    id: &'a str,
    /// The severer of the worker's directive and its reported state.
    state: &'static str,
    directive: &'static str,
    reported_state: &'static str,
    active_jobs: usize,
    most_active_jobs: usize,
    since: String,
    last_heartbeat: String,
    #[serde(flatten)]
    info: &'a Object,
}

fn workers(call: &mut Call<'_>) -> Reply {
    let store = &call.state.store;
    let epoch = store.epoch();
    let listed: Vec<WorkerBody<'_>> = store
        .workers()
        .iter()
        .map(|(id, worker)| WorkerBody {
            id,
            state: worker.directive.max(worker.reported).name(),
            directive: worker.directive.name(),
            reported_state: worker.reported.name(),
            active_jobs: store.held_by(id),
            most_active_jobs: store.peaks().get(id).copied().unwrap_or_default(),
            since: wall(epoch, worker.since),
            last_heartbeat: wall(epoch, worker.last_heartbeat),
            info: &worker.info,
        })
        .collect();
    let count = |state: Directive| listed.iter().filter(|worker| worker.state == state.name()).count();
    let summary = json!({
        "total": listed.len(),
        "running": count(Directive::Run),
        "quiet": count(Directive::Quiet),
        "terminate": count(Directive::Terminate),
        // A worker that is silent for too long is not stale: it is removed.
        "stale": 0,
        "active_jobs": store.count(JobState::Active),
    });
    #[derive(Serialize)]
    struct WorkersBody<'a> {
        workers: Vec<WorkerBody<'a>>,
        summary: serde_json::Value,
    }
    Reply::ok(&WorkersBody {
        workers: listed,
        summary,
    })
}
