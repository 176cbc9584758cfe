//! A request, read to its end.

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use percent_encoding::percent_decode_str;

use super::reply::{About, Reply};
use crate::ids::new_id;
use crate::json::Object;
use crate::moment::Moment;
use crate::operation::Operation;
use crate::refusal::{Refusal, RefusalKind};

/// The largest body, in bytes.
const MAX_BODY_BYTES: usize = 1 << 20;

/// The largest body of a batch, in bytes: 10,000 jobs of 1.6 KiB.
const MAX_BATCH_BYTES: usize = 16 << 20;

/// The largest body with a checkpoint, in bytes: more than a checkpoint may have, so that it is the
/// checkpoint that is refused.
const MAX_CHECKPOINT_BODY_BYTES: usize = (1 << 20) + (64 << 10);

/// The longest request id that is given back.
const MAX_ID_BYTES: usize = 200;

/// A request without its body.
pub(super) struct Request {
    pub operation: Operation,
    pub method: String,
    /// The segments of the path, decoded.
    pub path: Vec<String>,
    pub query: Vec<(String, String)>,
    /// The header Authorization.
    pub authorization: Option<String>,
    /// The header Last-Event-ID: the last event of a stream that the client got.
    pub last_event: Option<String>,
    /// Whether the header Accept asks for a stream of events.
    pub wants_stream: bool,
    /// The media type of the body, without parameters.
    pub media_type: Option<String>,
    /// The id of the header X-Request-Id, or a generated one.
    pub id: String,
    /// When its head had been read.
    pub arrived: Moment,
}

impl Request {
    /// Reads a request to its end.
    ///
    /// # Errors
    ///
    /// Its body is too large or breaks off.
    pub async fn read(request: hyper::Request<Incoming>, arrived: Moment) -> Result<(Self, Bytes), (Self, Reply)> {
        let (head, body) = request.into_parts();
        let header = |name: &str| {
            head.headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned)
        };
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let path: Vec<String> = head.uri.path().trim_start_matches('/').split('/').map(decode).collect();
        let pairs = head
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty());
        let segments: Vec<&str> = path.iter().map(String::as_str).collect();
        let id = header("x-request-id").filter(|id| !id.is_empty() && id.len() <= MAX_ID_BYTES);
        let read = Self {
            operation: Operation::of(head.method.as_str(), &segments),
            method: head.method.as_str().to_owned(),
            query: pairs
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(name), decode(value))
                })
                .collect(),
            authorization: header(AUTHORIZATION.as_str()),
            last_event: header("last-event-id"),
            wants_stream: header(ACCEPT.as_str()).is_some_and(|value| value.contains("text/event-stream")),
            media_type: header(CONTENT_TYPE.as_str())
                .map(|value| value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()),
            id: id.unwrap_or_else(|| format!("req_{}", new_id())),
            path,
            arrived,
        };
        let most = read.body_limit();
        match Limited::new(body, most).collect().await {
            Ok(body) => Ok((read, body.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => {
                let message = format!("the body has more than {most} bytes");
                Err((read, Reply::refusal(&Refusal::new(RefusalKind::TooLarge, message))))
            }
            Err(error) => {
                let message = format!("the body breaks off: {error}");
                Err((read, Reply::refusal(&Refusal::new(RefusalKind::Invalid, message))))
            }
        }
    }

    fn body_limit(&self) -> usize {
        match self.operation {
            Operation::Checkpoint => MAX_CHECKPOINT_BODY_BYTES,
            Operation::Enqueue if self.path.last().is_some_and(|last| last == "batch") => MAX_BATCH_BYTES,
            Operation::Enqueue
            | Operation::Fetch
            | Operation::Ack
            | Operation::Nack
            | Operation::Heartbeat
            | Operation::Register
            | Operation::Deregister
            | Operation::Info
            | Operation::Cancel
            | Operation::Progress
            | Operation::Admin
            | Operation::Dev
            | Operation::Events
            | Operation::Other => MAX_BODY_BYTES,
        }
    }

    /// The first line of the request, for people.
    pub fn line(&self) -> String {
        format!("{} /{}", self.method, self.path.join("/"))
    }

    /// The worker and the jobs that the request itself names, as far as it can be read: for the
    /// event if the answer does not name them.
    pub fn about(&self, body: &[u8]) -> About {
        let Ok(body) = Object::read(body) else {
            return About::default();
        };
        let text = |name| body.text(name).ok().flatten();
        let worker = text("worker_id");
        match self.operation {
            Operation::Heartbeat | Operation::Deregister => About {
                worker,
                state: text("state"),
                jobs: Vec::new(),
            },
            Operation::Ack | Operation::Nack => About {
                worker,
                state: None,
                jobs: text("job_id").into_iter().collect(),
            },
            Operation::Fetch | Operation::Register => About {
                worker,
                ..About::default()
            },
            Operation::Enqueue
            | Operation::Info
            | Operation::Cancel
            | Operation::Progress
            | Operation::Checkpoint
            | Operation::Admin
            | Operation::Dev
            | Operation::Events
            | Operation::Other => About::default(),
        }
    }

    /// The answer to a request without this token; `None`: it has the token. Health needs none.
    pub fn check_token(&self, token: Option<&str>) -> Option<Reply> {
        let token = token?;
        if self.path == ["ojs", "v1", "health"] {
            return None;
        }
        let shown = self.authorization.as_deref().and_then(|value| value.split_once(' '));
        let shown = shown.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        match shown {
            None => {
                let message = "no token: send `Authorization: Bearer TOKEN` with the value of --token";
                Some(Reply::error(401, "unauthorized", message, false, None))
            }
            Some((_, shown)) if shown.trim() != token => {
                let message = "the token is not that of --token";
                Some(Reply::error(403, "forbidden", message, false, None))
            }
            Some(_) => None,
        }
    }

    /// The answer if nothing is at this path, or not with this method.
    pub fn nothing_there(&self) -> Reply {
        let message = format!("there is no {}; docs/devserver.md lists what there is", self.line());
        Reply::error(404, "not_found", &message, false, None)
    }

    /// A parameter of the query; an empty one counts as absent.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// A parameter that is a number.
    ///
    /// # Errors
    ///
    /// The value is no number.
    pub fn number(&self, name: &str, default: u64) -> Result<u64, Refusal> {
        match self.parameter(name) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .map_err(|_| Refusal::field(name, "a whole number, 0 or more")),
        }
    }

    /// The body as a JSON object, if its media type allows it.
    ///
    /// # Errors
    ///
    /// The body is no JSON object, or its media type is another one.
    pub fn object(&self, body: &[u8]) -> Result<Object, Refusal> {
        match self.media_type.as_deref() {
            None | Some("application/openjobspec+json" | "application/json") => {}
            Some(other) => {
                let message =
                    format!("the Content-Type '{other}' is not application/openjobspec+json or application/json");
                return Err(Refusal::new(RefusalKind::Invalid, message));
            }
        }
        Object::read(body).map_err(|message| Refusal::new(RefusalKind::Unreadable, message))
    }
}
