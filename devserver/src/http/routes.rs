//! Which request is answered by whom.

use std::sync::Arc;

use super::reply::Reply;
use super::request::Request;
use super::{Context, admin, dev, jobs, workers};
use crate::json::Object;
use crate::operation::Operation;
use crate::server::{Shared, State};
use crate::store::job::Moment;
use crate::store::refusal::Refusal;

/// The answer to a request, or the refusal that becomes one.
pub(super) type Result = std::result::Result<Reply, Refusal>;

/// What a route has to work with.
pub(super) struct Call<'a> {
    pub shared: &'a Shared,
    pub state: &'a mut State,
    pub now: Moment,
    pub request: &'a Request,
    body: &'a [u8],
}

impl Call<'_> {
    /// The body as a JSON object.
    ///
    /// # Errors
    ///
    /// It is something else.
    pub fn body(&self) -> std::result::Result<Object, Refusal> {
        self.request.object(self.body)
    }
}

/// Answers a request.
pub(super) fn route(context: &Arc<Context>, request: &Request, body: impl AsRef<[u8]>) -> Reply {
    let shared = &context.shared;
    if let Some(refused) = check_token(shared, request) {
        return refused;
    }
    let mut state = shared.lock();
    let now = shared.clock.now();
    let mut call = Call {
        shared,
        state: &mut state,
        now,
        request,
        body: body.as_ref(),
    };
    let result = match request.operation {
        Operation::Dev => dev::answer(context, &mut call),
        Operation::Admin => admin::answer(&mut call),
        Operation::Fetch
        | Operation::Ack
        | Operation::Nack
        | Operation::Heartbeat
        | Operation::Register
        | Operation::Deregister => workers::answer(&mut call),
        Operation::Enqueue | Operation::Info | Operation::Cancel | Operation::Progress | Operation::Checkpoint => {
            jobs::answer(&mut call)
        }
        Operation::Other => other(&mut call),
    };
    drop(state);
    shared.notify();
    result.unwrap_or_else(|refusal| Reply::refusal(&refusal))
}

/// Health needs no token, everything else does when there is one.
pub(super) fn check_token(shared: &Shared, request: &Request) -> Option<Reply> {
    let token = shared.options.token.as_deref()?;
    if request.path == ["ojs", "v1", "health"] {
        return None;
    }
    let shown = request.authorization.as_deref().and_then(|value| value.split_once(' '));
    let shown = shown.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    match shown {
        None => {
            let message = "the request shows no token: Authorization: Bearer TOKEN, with the token of --token";
            Some(Reply::error(401, "unauthorized", message, false, None))
        }
        Some((_, shown)) if shown.trim() != token => {
            let message = "the token is not that of --token";
            Some(Reply::error(403, "forbidden", message, false, None))
        }
        Some(_) => None,
    }
}

fn other(call: &mut Call<'_>) -> Result {
    let path: Vec<&str> = call.request.path.iter().map(String::as_str).collect();
    match (call.request.method.as_str(), path.as_slice()) {
        ("GET", ["ojs", "manifest"]) => Ok(admin::manifest(call.shared)),
        ("GET", ["ojs", "v1", "health"]) => Ok(admin::health(call.now)),
        ("GET", ["ojs", "v1", "jobs"]) => jobs::list(call),
        ("POST", ["ojs", "v1", "jobs", id, "activate"]) => jobs::activate(call, id),
        ("GET", ["ojs", "v1", "queues"]) => Ok(admin::queues(call)),
        ("GET", ["ojs", "v1", "queues", name, "stats"]) => admin::queue_stats(call, name),
        ("POST", ["ojs", "v1", "queues", name, "pause"]) => admin::pause(call, name, true),
        ("POST", ["ojs", "v1", "queues", name, "resume"]) => admin::pause(call, name, false),
        ("GET", ["ojs", "v1", "dead-letter"]) => jobs::dead_letters(call),
        ("POST", ["ojs", "v1", "dead-letter", id, "retry"]) => jobs::retry_dead_letter(call, id),
        ("DELETE", ["ojs", "v1", "dead-letter", id]) => jobs::delete_dead_letter(call, id),
        _ => Ok(nothing_there(call.request)),
    }
}

/// There is nothing at this path, or not with this method.
pub(super) fn nothing_there(request: &Request) -> Reply {
    let message = format!("there is no {}; docs/devserver.md lists what there is", request.line());
    Reply::error(404, "not_found", &message, false, None)
}
