//! Queues: listed, counted, stopped and resumed.

use serde_json::json;

use crate::http::call::{Call, Result};
use crate::http::reply::Reply;
use crate::moment::wall;

/// Lists all queues.
pub(super) fn list(call: &mut Call<'_>) -> Reply {
    let epoch = call.state.store.epoch();
    let queues: Vec<_> = call
        .state
        .store
        .queues()
        .map(|(name, queue)| {
            json!({
                "name": name,
                "status": status(queue.paused_at.is_some()),
                "available": queue.ready.len(),
                "created_at": wall(epoch, queue.created_at),
            })
        })
        .collect();
    let total = queues.len();
    let pagination = json!({"total": total, "limit": total, "offset": 0, "has_more": false});
    Reply::ok(&json!({"queues": queues, "pagination": pagination}))
}

fn status(is_paused: bool) -> &'static str {
    if is_paused { "paused" } else { "active" }
}

/// Answers with the number of a queue's jobs in each state.
pub(super) fn stats(call: &mut Call<'_>, name: &str) -> Result {
    let stats = call.state.store.queue_stats(name)?;
    let counts = stats
        .counts
        .into_iter()
        .map(|(state, count)| (state.name().to_owned(), count.into()));
    Ok(Reply::ok(&json!({
        "queue": name,
        "status": status(stats.paused_at.is_some()),
        "stats": serde_json::Value::Object(counts.collect()),
        "computed_at": wall(call.state.store.epoch(), call.now),
    })))
}

/// Stops or resumes a queue.
pub(super) fn pause(call: &mut Call<'_>, name: &str, is_paused: bool) -> Result {
    call.state.store.pause(call.now, name, is_paused)?;
    let at = if is_paused { "paused_at" } else { "resumed_at" };
    let now = wall(call.state.store.epoch(), call.now);
    Ok(Reply::ok(&json!({"queue": name, "status": status(is_paused), at: now})))
}
