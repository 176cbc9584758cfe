//! Streams of events: of a queue, of a job, or of available jobs. Also the last events as a list.

use serde_json::json;

use crate::http::call::{Call, Result};
use crate::http::feed::{Feed, Topic};
use crate::http::reply::Reply;
use crate::moment::wall;
use crate::refusal::Refusal;

/// Default and highest number of events in a list.
const DEFAULT_LIMIT: u64 = 100;

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
        ["events"] if dialect.has_streams() && !call.request.wants_stream => return list(call),
        _ => return Ok(call.request.nothing_there()),
    };
    let newest = store.changes().newest();
    // An unknown or unreadable id is no error: the stream starts from now.
    let seen = call.request.last_event.as_deref().and_then(|id| id.parse().ok());
    Ok(Reply::stream(Feed::new(topic, seen.unwrap_or(newest).min(newest))))
}

/// Lists the last events of jobs, newest first: of these types and queues, or of all.
fn list(call: &mut Call<'_>) -> Result {
    let limit = call.request.number("limit", DEFAULT_LIMIT)?.min(DEFAULT_LIMIT);
    let limit = usize::try_from(limit).unwrap_or_default();
    let wants = |name: &str, value: &str| {
        let wanted = call.request.parameter(name);
        wanted.is_none_or(|wanted| wanted.split(',').any(|one| one == value))
    };
    let store = &call.state.store;
    let changes = store.changes().newest_first();
    let named = changes.filter_map(|change| Some((change.event()?, change)));
    let wanted = named.filter(|(event, change)| wants("types", event) && wants("queues", &change.queue));
    let events: Vec<_> = wanted
        .take(limit)
        .map(|(event, change)| {
            json!({
                "id": format!("evt_{}", change.number),
                "type": event,
                "specversion": call.shared.options.dialect.version(),
                "time": wall(store.epoch(), change.at),
                "data": {
                    "job_id": &*change.job,
                    "job_type": change.kind,
                    "queue": &*change.queue,
                    "attempt": change.attempt,
                    "duration_ms": change.took.map(|took| took.as_millis() as u64),
                },
            })
        })
        .collect();
    Ok(Reply::ok(&json!({"events": events})))
}
