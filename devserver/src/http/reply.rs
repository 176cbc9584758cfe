//! An answer: its status, its text, and the facts for its event.

use std::sync::Arc;

use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use serde::Serialize;
use serde_json::value::RawValue;

use super::feed::{Feed, RunningFeed};
use super::reply_body::ReplyBody;
use crate::faults::StreamFault;
use crate::json::raw;
use crate::refusal::{Refusal, RefusalKind};
use crate::state::Shared;
use crate::store::worker::Heartbeat;

/// The link in every error, for more information.
const DOCS_URL: &str = "https://openjobspec.org";

/// The media type of every answer.
const MEDIA_TYPE: &str = "application/openjobspec+json";

/// After how many seconds a request may be repeated for which there was no room.
const RETRY_WHEN_FULL: &str = "1";

/// The part of an event that the answer to a request fills.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct About {
    pub worker: Option<String>,
    pub jobs: Vec<String>,
    pub state: Option<String>,
}

/// An answer to a request.
#[derive(Debug)]
pub(super) struct Reply {
    pub status: u16,
    body: ReplyText,
    headers: Vec<(HeaderName, String)>,
    pub about: About,
}

/// The text of an answer; an error gets the id of its request when it is written.
#[derive(Debug)]
enum ReplyText {
    Json(String),
    Error(ErrorFields),
    /// The page of a server that does not speak Open Job Spec.
    Page,
    /// Events, as they happen.
    Stream(Feed),
}

/// The page of a foreign server.
const PAGE: &str =
    "<!doctype html>\n<html><head><title>Welcome</title></head><body><h1>Please sign in</h1></body></html>\n";

#[derive(Debug, Serialize)]
struct ErrorFields {
    code: &'static str,
    /// The kind of the refusal if the code does not show it: conformance level 1 asks for
    /// `validation_error`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    message: String,
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Box<RawValue>>,
    hint: &'static str,
    docs_url: &'static str,
    request_id: String,
}

/// Advice about an error of this status.
fn hint(status: u16) -> &'static str {
    match status {
        400 | 413 | 422 => "change the request as the message says; the same one is refused again",
        401 | 403 => "send the server's token: Authorization: Bearer TOKEN",
        404 => "look at GET /ojs/v1/jobs and at GET /ojs/v1/queues for what there is",
        409 => "look at GET /ojs/v1/jobs/{id} for the job's state, then decide",
        501 => "use a backend that has it; GET /ojs/manifest says what this one has",
        _ => "send the request again later",
    }
}

impl Reply {
    /// The answer 200 with this body.
    pub fn ok(body: &(impl Serialize + ?Sized)) -> Self {
        Self::with_status(200, body)
    }

    /// An answer with this status and this body.
    pub fn with_status(status: u16, body: &(impl Serialize + ?Sized)) -> Self {
        Self {
            status,
            body: ReplyText::Json(raw(body).get().to_owned()),
            headers: Vec::new(),
            about: About::default(),
        }
    }

    /// The answer for a refusal.
    pub fn refusal(refusal: &Refusal) -> Self {
        let (status, code, retryable) = match refusal.kind {
            RefusalKind::Invalid => (400, "invalid_request", false),
            RefusalKind::Unreadable => (400, "invalid_payload", false),
            RefusalKind::Unprocessable => (422, "invalid_request", false),
            RefusalKind::Unsupported => (501, "unsupported", false),
            RefusalKind::NotFound => (404, "not_found", false),
            RefusalKind::Conflict => (409, "conflict", false),
            RefusalKind::Duplicate => (409, "duplicate", false),
            RefusalKind::QueuePaused => (422, "queue_paused", true),
            RefusalKind::Full => (429, "rate_limited", true),
            RefusalKind::TooLarge => (413, "invalid_request", false),
        };
        let mut reply = Self::error(status, code, &refusal.message, retryable, refusal.details.clone());
        if refusal.kind == RefusalKind::Full {
            reply.headers.push((RETRY_AFTER, RETRY_WHEN_FULL.to_owned()));
        }
        reply
    }

    /// The answer that a fault gives.
    pub fn fault(status: u16, retry_after: Option<&str>) -> Self {
        let code = if status == 429 { "rate_limited" } else { "backend_error" };
        let mut reply = Self::error(
            status,
            code,
            "a fault that is switched on at /dev/faults",
            status >= 429,
            None,
        );
        reply
            .headers
            .extend(retry_after.map(|value| (RETRY_AFTER, value.to_owned())));
        reply
    }

    /// The answer for an error.
    pub fn error(
        status: u16,
        code: &'static str,
        message: &str,
        retryable: bool,
        details: Option<Box<RawValue>>,
    ) -> Self {
        let body = ErrorFields {
            code,
            kind: matches!(code, "invalid_request" | "invalid_payload").then_some("validation_error"),
            message: message.to_owned(),
            retryable,
            details,
            hint: hint(status),
            docs_url: DOCS_URL,
            request_id: String::new(),
        };
        Self {
            status,
            body: ReplyText::Error(body),
            headers: Vec::new(),
            about: About::default(),
        }
    }

    /// A page of HTML, which sends to another path of this server if one is given.
    pub fn page(status: u16, elsewhere: Option<&str>) -> Self {
        Self {
            status,
            body: ReplyText::Page,
            headers: elsewhere.map(|path| (LOCATION, path.to_owned())).into_iter().collect(),
            about: About::default(),
        }
    }

    /// The answer that is a stream.
    pub fn stream(feed: Feed) -> Self {
        Self {
            status: 200,
            body: ReplyText::Stream(feed),
            headers: Vec::new(),
            about: About::default(),
        }
    }

    /// This answer, with a fault if it is a stream.
    pub fn with_stream_fault(self, fault: StreamFault) -> Self {
        match self.body {
            ReplyText::Stream(feed) => Self {
                body: ReplyText::Stream(feed.with(fault)),
                ..self
            },
            ReplyText::Json(_) | ReplyText::Error(_) | ReplyText::Page => self,
        }
    }

    /// Adds the path of the created object.
    pub fn with_location(mut self, path: String) -> Self {
        self.headers.push((LOCATION, path));
        self
    }

    /// Names the answer's job for its event.
    pub fn about_job(mut self, job: &str) -> Self {
        self.about.jobs = vec![job.to_owned()];
        self
    }

    /// Names the answer's worker for its event.
    pub fn about_worker(mut self, worker: Option<&str>) -> Self {
        self.about.worker = worker.map(str::to_owned);
        self
    }

    /// Names the worker, the jobs and the reported state of a heartbeat for the answer's event.
    pub fn about_heartbeat(mut self, heartbeat: Heartbeat, state: Option<String>) -> Self {
        self.about = About {
            worker: Some(heartbeat.worker),
            jobs: heartbeat.jobs,
            state,
        };
        self
    }

    /// Names the state for the answer's event.
    pub fn in_state(mut self, state: &str) -> Self {
        self.about.state = Some(state.to_owned());
        self
    }

    /// The answer as it is sent.
    pub fn into_response(self, shared: &Arc<Shared>, request_id: &str) -> hyper::Response<ReplyBody> {
        self.write(shared.options.dialect.version(), request_id, |text| match text {
            Text::Whole(text) => ReplyBody::Whole(Some(text)),
            Text::Goes(feed) => ReplyBody::Stream(RunningFeed::new(shared, feed)),
        })
    }

    /// The answer as it is sent until it breaks off.
    pub fn into_half_response(self, shared: &Shared, request_id: &str) -> hyper::Response<ReplyBody> {
        self.write(shared.options.dialect.version(), request_id, |text| {
            let text = match text {
                Text::Whole(text) => text,
                Text::Goes(_) => Bytes::from_static(b":heartbeat\n\n"),
            };
            let half = text.slice(..text.len() / 2);
            ReplyBody::Half {
                half: Some(half),
                announced: text.len() as u64,
                wait: None,
            }
        })
    }

    fn write(
        self,
        version: &str,
        request_id: &str,
        body: impl FnOnce(Text) -> ReplyBody,
    ) -> hyper::Response<ReplyBody> {
        let kind = match &self.body {
            ReplyText::Page => "text/html; charset=utf-8",
            ReplyText::Stream(_) => "text/event-stream",
            ReplyText::Json(_) | ReplyText::Error(_) => MEDIA_TYPE,
        };
        let is_page = matches!(self.body, ReplyText::Page);
        let text = match self.body {
            ReplyText::Page => Text::Whole(Bytes::from_static(PAGE.as_bytes())),
            ReplyText::Json(text) => Text::Whole(Bytes::from(text)),
            ReplyText::Stream(feed) => Text::Goes(feed),
            ReplyText::Error(error) => {
                let error = ErrorFields {
                    request_id: request_id.to_owned(),
                    ..error
                };
                Text::Whole(Bytes::from(raw(&ErrorBody { error: &error }).get().to_owned()))
            }
        };
        let mut response = hyper::Response::new(body(text));
        if let Ok(status) = hyper::StatusCode::from_u16(self.status) {
            *response.status_mut() = status;
        }
        let standard = [
            (HeaderName::from_static("ojs-version"), version.to_owned()),
            (HeaderName::from_static("x-request-id"), request_id.to_owned()),
            (CONTENT_TYPE, kind.to_owned()),
        ];
        let page = [(CONTENT_TYPE, kind.to_owned())];
        let standard: &[(HeaderName, String)] = if is_page { &page } else { &standard };
        for (name, value) in standard.iter().cloned().chain(self.headers) {
            if let Ok(value) = HeaderValue::try_from(value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

/// The text of an answer as it is sent.
enum Text {
    Whole(Bytes),
    Goes(Feed),
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: &'a ErrorFields,
}
