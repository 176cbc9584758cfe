//! Dead letters: looked at, given another life, forgotten.

use serde_json::json;

use super::jobs::{job_reply_with, page, page_reply};
use crate::http::call::{Call, Result};
use crate::http::reply::Reply;
use crate::moment::wall;

/// Lists the dead letters.
pub(super) fn list(call: &mut Call<'_>) -> Result {
    let queue = call.request.parameter("queue");
    let store = &call.state.store;
    let letters = store
        .dead_letters()
        .filter(|job| queue.is_none_or(|queue| &*job.queue == queue));
    let total = letters.clone().count();
    Ok(page_reply(letters, total, page(call)?, store.epoch(), None))
}

/// Gives a dead letter another life.
pub(super) fn retry(call: &mut Call<'_>, id: &str) -> Result {
    call.state.store.retry_dead_letter(call.now, id)?;
    let at = wall(call.state.store.epoch(), call.now);
    job_reply_with(call, id, "re_enqueued_at", &at)
}

/// Forgets a dead letter.
pub(super) fn delete(call: &mut Call<'_>, id: &str) -> Result {
    call.state.store.delete_dead_letter(id)?;
    Ok(Reply::ok(&json!({"deleted": true, "job_id": id})).about_job(id))
}
