//! Answers whose meaning depends on the request.

use ojs_lifecycle::api::Reply;

use super::words::{self, Wrong, job};

/// An answer of the backend to this request. A heartbeat that is accepted extends each job that it
/// names, unless the answer lists others. An empty list is left out, as the public backends do.
pub fn reply_to(request: &str, text: &str) -> Result<Reply, Wrong> {
    let (text, has_list) = text
        .strip_suffix(" without a list")
        .map_or((text, true), |text| (text, false));
    let mut reply = words::reply(text)?;
    if let Reply::HeartbeatOk {
        extended: extended @ None,
        ..
    } = &mut reply
    {
        let named = request.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let named = named
            .into_iter()
            .flat_map(|(named, _)| named.split_whitespace().map(job));
        *extended = Some(named.collect::<Vec<_>>()).filter(|named| has_list && !named.is_empty());
    }
    Ok(reply)
}
