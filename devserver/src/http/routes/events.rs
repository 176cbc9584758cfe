//! Who listens to what: the events of a queue, of a job, or that something is there to be fetched.

use crate::http::call::{Call, Result};
use crate::http::feed::{Feed, Topic};
use crate::http::reply::Reply;
use crate::refusal::Refusal;

/// Opens a stream.
pub(super) fn answer(call: &mut Call<'_>) -> Result {
    let dialect = call.shared.options.dialect;
    let path: Vec<&str> = call.request.path.iter().skip(2).map(String::as_str).collect();
    let store = &call.state.store;
    let topic = match path.as_slice() {
        ["queues", name, _] if dialect.has_streams() => {
            store.queue_stats(name)?;
            Topic::Queue((*name).to_owned())
        }
        ["jobs", id, _] if dialect.has_streams() => {
            let job = store.existing_job(id)?;
            Topic::Job {
                id: (*id).to_owned(),
                over: job.state.is_terminal().then_some(job.state),
            }
        }
        ["events"] if dialect.has_availability() => {
            let queues = call.request.parameter("queues").unwrap_or_default();
            let queues: Vec<String> = queues
                .split(',')
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect();
            if queues.is_empty() {
                return Err(Refusal::field("queues", "one or more names, with commas between"));
            }
            Topic::Available(queues)
        }
        _ => return Ok(call.request.nothing_there()),
    };
    let newest = store.changes().newest();
    // What is unknown or unreadable is no error: it goes on from now.
    let seen = call.request.last_event.as_deref().and_then(|id| id.parse().ok());
    Ok(Reply::stream(Feed::new(topic, seen.unwrap_or(newest).min(newest))))
}
