//! Health, manifest, queues, and what people tell workers.

use serde::Serialize;
use serde_json::json;

use crate::http::call::{Call, Result};
use crate::http::reply::{OJS_VERSION, Reply};
use crate::json::Object;
use crate::moment::{Moment, wall};
use crate::state::Shared;
use crate::store::job::{Directive, JobState};

/// Alive, as long as it can answer.
pub(super) fn health(now: Moment) -> Reply {
    Reply::ok(&json!({
        "status": "ok",
        "version": OJS_VERSION,
        "uptime_seconds": now.as_secs(),
        "backend": {"type": "memory", "status": "connected", "latency_ms": 0},
    }))
}

/// What this is and what it can do.
pub(super) fn manifest(shared: &Shared) -> Reply {
    let extensions: &[&str] = if shared.options.dialect.has_extensions() {
        &[
            "urn:ojs:ext:graceful-shutdown",
            "urn:ojs:ext:progress",
            "urn:ojs:ext:durable-execution",
        ]
    } else {
        &[]
    };
    Reply::ok(&json!({
        "ojs_version": OJS_VERSION,
        "implementation": {
            "name": env!("CARGO_PKG_NAME"),
            "version": env!("CARGO_PKG_VERSION"),
            "language": "rust",
        },
        "conformance_level": 1,
        "protocols": ["http"],
        "backend": "devserver",
        "capabilities": {
            "batch_enqueue": true,
            "cron_jobs": false,
            "dead_letter": true,
            "delayed_jobs": true,
            "job_ttl": true,
            "pause_resume": true,
            "priority_queues": true,
            "rate_limiting": false,
            "schema_validation": false,
            "unique_jobs": false,
            "workflows": false,
        },
        "extensions": extensions,
        "endpoints": {"manifest": "/ojs/manifest", "health": "/ojs/v1/health"},
        "development_tool": true,
        "dialect": shared.options.dialect.name(),
    }))
}

/// All queues.
pub(super) fn queues(call: &mut Call<'_>) -> Reply {
    let epoch = call.state.store.epoch();
    let queues: Vec<_> = call
        .state
        .store
        .queues()
        .map(|(name, queue)| {
            json!({
                "name": name,
                "status": status(queue.paused_at),
                "available": queue.ready.len(),
                "created_at": wall(epoch, queue.created_at),
            })
        })
        .collect();
    let total = queues.len();
    let pagination = json!({"total": total, "limit": total, "offset": 0, "has_more": false});
    Reply::ok(&json!({"queues": queues, "pagination": pagination}))
}

fn status(paused_at: Option<Moment>) -> &'static str {
    if paused_at.is_some() { "paused" } else { "active" }
}

/// How many jobs of a queue are in each state.
pub(super) fn queue_stats(call: &mut Call<'_>, name: &str) -> Result {
    let figures = call.state.store.queue_figures(name)?;
    let stats = figures
        .counts
        .into_iter()
        .map(|(state, count)| (state.name().to_owned(), count.into()));
    Ok(Reply::ok(&json!({
        "queue": name,
        "status": status(figures.paused_at),
        "stats": serde_json::Value::Object(stats.collect()),
        "computed_at": wall(call.state.store.epoch(), call.now),
    })))
}

/// Stops or resumes a queue.
pub(super) fn pause(call: &mut Call<'_>, name: &str, is_paused: bool) -> Result {
    call.state.store.pause(call.now, name, is_paused)?;
    let at = if is_paused { "paused_at" } else { "resumed_at" };
    let now = wall(call.state.store.epoch(), call.now);
    Ok(Reply::ok(
        &json!({"queue": name, "status": if is_paused { "paused" } else { "active" }, at: now}),
    ))
}

/// Below `/admin`.
pub(super) fn answer(call: &mut Call<'_>) -> Result {
    let path: Vec<&str> = call.request.path.iter().skip(3).map(String::as_str).collect();
    let keeps_quiet = call.shared.options.dialect.keeps_quiet();
    match (call.request.method.as_str(), path.as_slice()) {
        ("GET", ["workers"]) => Ok(workers(call)),
        ("POST", ["workers", id, "quiet"]) => {
            if keeps_quiet {
                call.state.store.expect_worker(call.now, id)?;
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
struct Listed<'a> {
    id: &'a str,
    /// The severer of what it was told and what it says.
    state: &'static str,
    directive: &'static str,
    reported_state: &'static str,
    active_jobs: usize,
    most_active_jobs: usize,
    since: String,
    last_heartbeat: String,
    #[serde(flatten)]
    about: &'a Object,
}

fn workers(call: &mut Call<'_>) -> Reply {
    let store = &call.state.store;
    let epoch = store.epoch();
    let listed: Vec<Listed<'_>> = store
        .workers()
        .iter()
        .map(|(id, worker)| Listed {
            id,
            state: worker.directive.max(worker.reported).name(),
            directive: worker.directive.name(),
            reported_state: worker.reported.name(),
            active_jobs: store.held_by(id),
            most_active_jobs: store.peaks().get(id).copied().unwrap_or_default(),
            since: wall(epoch, worker.since),
            last_heartbeat: wall(epoch, worker.last_beat),
            about: &worker.about,
        })
        .collect();
    let count = |state: Directive| listed.iter().filter(|worker| worker.state == state.name()).count();
    let active = store
        .counts()
        .find_map(|(state, count)| (state == JobState::Active).then_some(count));
    let summary = json!({
        "total": listed.len(),
        "running": count(Directive::Run),
        "quiet": count(Directive::Quiet),
        "terminate": count(Directive::Terminate),
        // A worker that is silent for too long is not stale but gone.
        "stale": 0,
        "active_jobs": active,
    });
    #[derive(Serialize)]
    struct Workers<'a> {
        workers: Vec<Listed<'a>>,
        summary: serde_json::Value,
    }
    Reply::ok(&Workers {
        workers: listed,
        summary,
    })
}
