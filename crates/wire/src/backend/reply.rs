//! Turns an HTTP answer into its meaning. The status decides; the body is read only if the status
//! leaves a question open.

use std::time::Duration;

use ojs_lifecycle::api::{
    AnswerSize, BackendTraits, Call, Directive, Endpoint, Failure, JobId, JobState, JobView, Reply, Reservation,
    WorkerId,
};

use crate::backend::delivery;
use crate::backend::error::BackendError;
use crate::backend::split::JobsBody;
pub use crate::backend::words::Words;
use crate::json::object::Object;
use crate::json::values;

/// Shortest recommended time between heartbeats that ojs-init follows: shorter ones would make
/// heartbeats the backend's main load.
const SHORTEST_HEARTBEAT_INTERVAL: Duration = Duration::from_millis(100);

/// How many heartbeats must fit into the backend's heartbeat timeout (worker protocol 10.3).
const HEARTBEATS_IN_TIMEOUT: u32 = 3;

/// Longest number in a Retry-After that is accepted, in bytes.
const MAX_RETRY_AFTER_BYTES: usize = 16;

/// Most jobs that are accepted of an answer to a FETCH, as a multiple of what the FETCH asked for,
/// and at least so many. Each one costs about 1 KiB and a request that gives it back.
const MOST_TIMES_ASKED: usize = 4;
const FEWEST_ACCEPTED: usize = 1024;

/// An HTTP answer.
#[derive(Debug, Clone, Copy)]
pub struct HttpAnswer<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The header Retry-After.
    pub retry_after: Option<&'a str>,
    /// When the answer arrived, as the time since the start of 1970: Retry-After may be a date.
    pub now: Duration,
    /// The part of the body that arrived.
    pub body: &'a [u8],
    /// Whether the body is complete: it neither broke off nor was longer than the limit.
    pub is_whole: bool,
    /// The request was sent twice: the backend closed a kept connection during the first one, which
    /// may have reached it.
    pub was_sent_twice: bool,
}

/// Whether a body is one JSON object, as those of OJS are.
pub fn is_object(body: &[u8]) -> bool {
    Object::is_one(body)
}

/// The meaning of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The meaning for the lifecycle.
    pub reply: Reply,
    /// The oddity of the answer, for the log. Never holds a value of a job.
    pub oddity: Option<String>,
    /// Texts of the answer itself, for the log.
    pub words: Words,
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self {
            reply,
            oddity: None,
            words: Words::default(),
        }
    }
}

/// The body of a success.
enum Content<'a> {
    /// No body at all.
    Nothing,
    /// A JSON object.
    Object(Object<'a>),
    /// An object of which no field has to be read.
    SomeObject,
    /// The body begins like JSON, and is not complete.
    Broken,
    /// The body ended before it began.
    Missing,
    /// Anything else: the sender does not speak OJS.
    Foreign,
}

fn content<'a>(call: &Call, answered: &HttpAnswer<'a>) -> Content<'a> {
    let body = answered.body.trim_ascii();
    if body.is_empty() {
        return if answered.is_whole {
            Content::Nothing
        } else {
            Content::Missing
        };
    }
    if call.endpoint().answer() == AnswerSize::Nothing && Object::is_one(body) {
        return Content::SomeObject;
    }
    match Object::read_bytes(body) {
        Some(fields) => Content::Object(fields),
        None if body.starts_with(b"{") && !answered.is_whole => Content::Broken,
        None => Content::Foreign,
    }
}

/// The meaning of an answer to a FETCH that brings jobs. Large envelopes keep the memory of the
/// body.
///
/// # Errors
///
/// The body of any other answer, for [`read`].
pub fn read_jobs(call: &Call, status: u16, body: JobsBody) -> Result<Answer, Vec<u8>> {
    if let Call::Fetch { count, .. } = call
        && is_success(status)
        && body.begins_an_object()
    {
        return Ok(fetched(body, *count));
    }
    Err(body.join())
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

/// The meaning of an answer to this call, but for one that brings jobs: see [`read_jobs`].
pub fn read(call: &Call, answered: HttpAnswer<'_>) -> Answer {
    if !is_success(answered.status) {
        let error = BackendError::of(answered.body);
        return Answer {
            reply: refusal(call, answered, error.as_ref()),
            oddity: None,
            words: Words::of_failure(answered.status, error.as_ref()),
        };
    }
    let fields = match content(call, &answered) {
        Content::Foreign => {
            return Answer {
                reply: Reply::Failed(foreign(call)),
                oddity: None,
                words: Words::of_foreign(answered.status),
            };
        }
        Content::Nothing | Content::SomeObject => None,
        Content::Object(fields) => Some(fields),
        Content::Broken => {
            return Answer {
                words: Words::of_success(call, answered.body),
                ..broken_off(call).into()
            };
        }
        Content::Missing => return Reply::Failed(Failure::Unanswered).into(),
    };
    match call {
        Call::Register { .. } => registered(fields.as_ref()),
        Call::Heartbeat { .. } => beaten(fields.as_ref()).into(),
        // An answer with jobs is read by `read_jobs`.
        Call::Fetch { .. } => Reply::Fetched(Vec::new()).into(),
        Call::GetJob { .. } => looked(fields).into(),
        Call::Manifest => described(fields.as_ref()).into(),
        // The complete answer is here and has ended, so it is no stream.
        Call::Listen { .. } => Reply::Failed(Failure::NotFromBackend).into(),
        // The status alone decides.
        Call::Report { .. } | Call::Progress { .. } | Call::Checkpoint { .. } | Call::Deregister { .. } => Answer {
            reply: Reply::Accepted,
            oddity: None,
            words: Words::of_success(call, answered.body),
        },
    }
}

/// A success that another server has written: it counts as not done. Only a FAIL or a requeue is
/// never sent again without a look at the job.
fn foreign(call: &Call) -> Failure {
    match call.endpoint() {
        Endpoint::Nack => Failure::Unanswered,
        Endpoint::Register
        | Endpoint::Deregister
        | Endpoint::Heartbeat
        | Endpoint::Fetch
        | Endpoint::Ack
        | Endpoint::Info
        | Endpoint::Progress
        | Endpoint::Checkpoint
        | Endpoint::Manifest
        | Endpoint::Events => Failure::NotFromBackend,
    }
}

/// A success of the backend that breaks off, or is longer than the limit: good if no part of it has
/// to be read.
fn broken_off(call: &Call) -> Reply {
    match call.endpoint().answer() {
        AnswerSize::Fields | AnswerSize::Jobs | AnswerSize::Events => Reply::Failed(Failure::Unanswered),
        AnswerSize::Nothing => Reply::Accepted,
    }
}

fn registered(fields: Option<&Object<'_>>) -> Answer {
    if fields.and_then(|fields| fields.raw("ok")) == Some("false") {
        let words = Words {
            failure: Some("it answered the registration with ok: false".to_owned()),
            state: None,
        };
        return Answer {
            reply: Reply::Failed(Failure::RetryLater { retry_after: None }),
            oddity: None,
            words,
        };
    }
    let period = |key| fields?.duration(key, Duration::from_secs(1));
    let at_least = |interval: Duration| interval.max(SHORTEST_HEARTBEAT_INTERVAL);
    // Some backends ignore the requested time and extend by their own default; a job's reservation
    // then lapses after that.
    let timeouts = [period("heartbeat_timeout"), period("visibility_timeout_default")];
    let shortest = timeouts.into_iter().flatten().min();
    Reply::Registered {
        heartbeat_interval: period("heartbeat_interval").map(at_least),
        longest_interval: shortest.map(|timeout| at_least(timeout / HEARTBEATS_IN_TIMEOUT)),
    }
    .into()
}

fn beaten(fields: Option<&Object<'_>>) -> Reply {
    let word = |key| {
        fields
            .and_then(|fields| fields.text(key))
            .and_then(|word| directive(&word))
    };
    let extended = fields.and_then(|fields| fields.texts("jobs_extended"));
    Reply::HeartbeatOk {
        directive: word("state").max(word("directive")),
        extended: extended.map(|ids| ids.into_iter().map(|id| JobId(id.into())).collect()),
    }
}

/// One word of either vocabulary (requirements C-09); an unknown word is ignored.
fn directive(word: &str) -> Option<Directive> {
    let is = |words: &[&str]| words.iter().any(|known| word.eq_ignore_ascii_case(known));
    if is(&["terminate"]) {
        Some(Directive::Terminate)
    } else if is(&["quiet"]) {
        Some(Directive::Quiet)
    } else if is(&["running", "active", "continue"]) {
        Some(Directive::Run)
    } else {
        None
    }
}

/// Reads the jobs of an answer. Entries that cannot be read may have been jobs.
fn fetched(body: JobsBody, count: u32) -> Answer {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let most = count.saturating_mul(MOST_TIMES_ASKED).max(FEWEST_ACCEPTED);
    let fetched = delivery::fetched(body, most);
    let brought = fetched.deliveries.len();
    let mut oddities = Vec::new();
    if !fetched.is_whole {
        oddities.push(format!(
            "it breaks off or is not JSON; jobs that could be read: {brought}"
        ));
    }
    if fetched.unusable > 0 {
        oddities.push(format!("elements that are no jobs with an id: {}", fetched.unusable));
    }
    if brought > count {
        oddities.push(format!("{brought} jobs instead of at most {count}"));
    }
    if fetched.surplus > 0 {
        oddities.push(format!(
            "further elements, left to their visibility timeout: {}",
            fetched.surplus
        ));
    }
    let reply = if fetched.is_whole || brought > 0 {
        Reply::Fetched(fetched.deliveries)
    } else {
        Reply::Failed(Failure::Unanswered)
    };
    let oddity = (!oddities.is_empty()).then(|| format!("odd answer to a FETCH: {}", oddities.join("; ")));
    Answer {
        reply,
        oddity,
        words: Words::default(),
    }
}

/// The job alone, or in `job`.
fn looked(fields: Option<Object<'_>>) -> Reply {
    let Some(fields) = fields else {
        return Reply::Failed(Failure::Unanswered);
    };
    let job = fields.object("job").unwrap_or(fields);
    let Some(state) = job.text("state") else {
        return Reply::Failed(Failure::Unanswered);
    };
    Reply::JobSeen(JobView {
        state: match &*state {
            "active" => JobState::Active,
            "cancelled" => JobState::Cancelled,
            "completed" => JobState::Completed,
            _ => JobState::Elsewhere,
        },
        worker: job
            .text("worker_id")
            .filter(|worker| !worker.is_empty())
            .map(|worker| WorkerId(worker.into())),
        reservation: delivery::reservation(&job),
    })
}

/// The traits in a manifest's `backend` (HTTP binding 21). Unknown ones are as of most backends.
fn described(fields: Option<&Object<'_>>) -> Reply {
    let text = |key| fields.and_then(|fields| fields.text(key));
    let kind = text("backend").unwrap_or_default().to_ascii_lowercase();
    let is_memory = ["lite", "memory"].contains(&kind.as_str());
    Reply::Manifest(BackendTraits {
        discards_requeues: is_memory || kind == "amqp",
        extends_from_start: is_memory,
    })
}

/// A job of which nothing is known but this.
fn nothing_but(state: JobState) -> Reply {
    Reply::JobSeen(JobView {
        state,
        worker: None,
        reservation: Reservation::default(),
    })
}

fn refusal(call: &Call, answered: HttpAnswer<'_>, error: Option<&BackendError<'_>>) -> Reply {
    let is_of_ojs = error.is_some_and(BackendError::is_of_ojs);
    let failure = match (answered.status, call.endpoint()) {
        (403, Endpoint::Info) => return nothing_but(JobState::Hidden),
        // A proxy that cannot reach the backend right now returns 404 too, and that is no fact
        // about the job.
        (404 | 410, Endpoint::Info | Endpoint::Ack | Endpoint::Nack) if !is_of_ojs => Failure::NotFromBackend,
        (404 | 410, Endpoint::Info) => return nothing_but(JobState::Missing),
        (404 | 410, Endpoint::Progress | Endpoint::Checkpoint | Endpoint::Manifest)
            if error.is_some_and(|error| error.speaks_of("job")) =>
        {
            Failure::Lost
        }
        // A proxy that refuses the request as invalid does not know the backend's answer either.
        (400 | 422, Endpoint::Ack | Endpoint::Nack) if error.is_none() => Failure::NotFromBackend,
        // A proxy. Some answer 503 if the connection to the backend broke behind the request, so a
        // FAIL or a requeue may have been carried out. Others answer so while there is no backend.
        (408 | 425 | 503, Endpoint::Nack) if !is_of_ojs => Failure::Unanswered,
        // Event streams have pauses of their own.
        (503, endpoint) if endpoint != Endpoint::Events && answered.retry_after.is_none() && !is_of_ojs => {
            Failure::Unanswered
        }
        (429 | 503, _) => Failure::RetryLater {
            retry_after: asked_for(answered),
        },
        // An earlier attempt got through, and its answer did not.
        (409, Endpoint::Register | Endpoint::Deregister) => Failure::AlreadyCompleted,
        (300..=399, _) => Failure::Redirected,
        // A proxy answered, or the request arrived incomplete: it was not carried out.
        (408 | 425, _) | (409, Endpoint::Fetch) => Failure::RetryLater { retry_after: None },
        (401 | 403, _) => Failure::Unauthorized,
        (409, Endpoint::Ack) => match (
            error.and_then(BackendError::current_state).as_deref(),
            answered.was_sent_twice,
        ) {
            // Every other backend treats a request that was sent twice as one request.
            (Some("completed"), true) => return Reply::Accepted,
            (Some("completed"), false) => Failure::AlreadyCompleted,
            (Some(_), _) => Failure::Lost,
            (None, was_sent_twice) => Failure::Conflict { was_sent_twice },
        },
        (404 | 410, Endpoint::Ack | Endpoint::Nack) => Failure::NotFound,
        (409, Endpoint::Nack) | (409 | 410, Endpoint::Progress | Endpoint::Checkpoint | Endpoint::Manifest) => {
            Failure::Lost
        }
        (404 | 410, Endpoint::Heartbeat | Endpoint::Deregister)
            if error.is_some_and(BackendError::is_unknown_worker) =>
        {
            Failure::Unregistered
        }
        // The queue does not exist, or not yet: it is created with its first job.
        (404 | 410, Endpoint::Events) if is_of_ojs => Failure::NotFound,
        (404 | 405 | 501, _) => Failure::Unsupported,
        (400 | 413 | 415 | 422, _) => Failure::Refused,
        (400..=499, _) => Failure::NotFromBackend,
        (500..=599, _) => Failure::ServerError,
        _ => Failure::Unanswered,
    };
    Reply::Failed(failure)
}

fn asked_for(answered: HttpAnswer<'_>) -> Option<Duration> {
    retry_after(answered.retry_after?, answered.now)
}

/// Whole or decimal seconds, or a date (requirements C-36); a past date means now.
pub(crate) fn retry_after(value: &str, now: Duration) -> Option<Duration> {
    let value = value.trim();
    let is_decimal = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_decimal {
        let is_short = value.len() <= MAX_RETRY_AFTER_BYTES;
        return is_short.then(|| values::units(value, Duration::from_secs(1))).flatten();
    }
    let date = httpdate::parse_http_date(value).ok()?;
    let date = date.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Some(date.saturating_sub(now))
}

#[cfg(test)]
#[path = "success_tests.rs"]
mod success_tests;
#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
