//! Answers that ojs-init writes: its own, and those of the backend to an outcome. The `Server` of
//! each is ojs-init. The codes of ojs-init's own errors begin with `gateway_`.

use serde::Serialize;

use crate::backend::request::OJS_VERSION;
use crate::http::header_lines::push_line;
use crate::http::message::{BadMessage, MOST_HEAD_BYTES, MOST_HEADER_LINES};
use crate::http::response::response;
use crate::http::tunnel::{TunnelBody, TunnelHead, USUAL_HEAD_BYTES};
use crate::names;
use crate::traces::traceparent;
use ojs_lifecycle::api::{ErrorCode, GivenJob, JobId, Trace, WorkerState};

/// The interim response for a client that waits before it sends a body.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The type of an OJS body.
const OJS_TYPE: &str = "application/openjobspec+json";

/// A parameter of [`OJS_TYPE`]. Some SDKs look for the one type in the header, some for the other.
const JSON_ALIAS: &str = "; alias=\"application/json\"";

/// The type that an SDK reads as JSON even without the parameter.
const JSON_TYPE: &str = "application/json";

/// How an answer is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerForm {
    /// HEAD gets the head of the answer only.
    pub wants_body: bool,
    /// Whether another request may follow on this connection.
    pub is_kept: bool,
    /// True if the connection stays open without a header line, as since HTTP/1.1.
    pub is_kept_by_itself: bool,
}

impl AnswerForm {
    /// The header line that keeps or closes the connection, if the answer needs one.
    pub fn connection(self) -> &'static str {
        match (self.is_kept, self.is_kept_by_itself) {
            (true, true) => "",
            (true, false) => "Connection: keep-alive\r\n",
            (false, _) => "Connection: close\r\n",
        }
    }

    fn write(self, status: u16, body: &[u8]) -> Vec<u8> {
        self.write_with("", status, body)
    }

    /// `more` are further header lines.
    fn write_with(self, more: &str, status: u16, body: &[u8]) -> Vec<u8> {
        let lines = format!(
            "Server: ojs-init/{}\r\nContent-Type: {OJS_TYPE}{JSON_ALIAS}\r\nOJS-Version: {OJS_VERSION}\r\n{more}{}",
            env!("CARGO_PKG_VERSION"),
            self.connection(),
        );
        response(&status_line(status), &lines, body, self.wants_body)
    }

    fn json(self, status: u16, body: &impl Serialize) -> Vec<u8> {
        // Text, numbers and JSON: the encoding cannot fail.
        self.write(status, &serde_json::to_vec(body).unwrap_or_default())
    }
}

/// The answer to a FETCH: the envelopes as the backend sent them, and the first one also in the
/// field that older clients read. `context` is that of the only job's span, if it has one.
pub fn fetched(jobs: &[GivenJob], context: Option<&Trace>, form: AnswerForm) -> Vec<u8> {
    let length: usize = jobs.iter().map(|job| job.envelope.len() + 1).sum();
    let first = jobs.first().map_or(0, |job| job.envelope.len());
    let mut body = String::with_capacity(length + first + 32);
    body.push_str("{\"jobs\":[");
    for (index, job) in jobs.iter().enumerate() {
        if index > 0 {
            body.push(',');
        }
        body.push_str(&job.envelope);
    }
    body.push(']');
    if let Some(first) = jobs.first() {
        body.push_str(",\"job\":");
        body.push_str(&first.envelope);
    }
    body.push('}');
    let context = context.filter(|_| jobs.len() == 1);
    let line = context.map_or(String::new(), |context| {
        format!("traceparent: {}\r\n", traceparent(context))
    });
    form.write_with(&line, 200, body.as_bytes())
}

/// The answer to an accepted ACK or FAIL; `state` is the job's new state, if known.
pub fn outcome(job: &JobId, state: Option<&str>, form: AnswerForm) -> Vec<u8> {
    let body = OutcomeAnswer {
        acknowledged: true,
        id: &job.0,
        job_id: &job.0,
        state,
    };
    form.json(200, &body)
}

/// The backend's answer to an ACK or a FAIL, passed on: its status (2xx or 4xx) and its body, a
/// JSON object.
pub fn handed_on(status: u16, body: &[u8], form: AnswerForm) -> Vec<u8> {
    form.write(status, body)
}

/// A status with the words of RFC 9110 behind it, as the first line of a response has them: one
/// that ojs-init or a backend gives to an outcome. Others have no words.
pub fn status_line(status: u16) -> String {
    let words = match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        422 => "Unprocessable Content",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "",
    };
    format!("{status} {words}")
}

/// The answer to a heartbeat; `time` is now, in the form of RFC 3339.
pub fn beat(state: WorkerState, jobs: &[JobId], time: &str, form: AnswerForm) -> Vec<u8> {
    let directive = match state {
        WorkerState::Running => "continue",
        WorkerState::Quiet => "quiet",
        WorkerState::Terminate | WorkerState::Terminated => "terminate",
    };
    let body = BeatAnswer {
        state: names::worker_state(state),
        directive,
        jobs_extended: jobs.iter().map(|job| &*job.0).collect(),
        server_time: time,
    };
    form.json(200, &body)
}

/// The answer to a registration or a deregistration, after which the worker is in this state;
/// `time` is now, in the form of RFC 3339.
pub fn registration(worker: Option<&str>, state: WorkerState, time: &str, form: AnswerForm) -> Vec<u8> {
    let body = RegistrationAnswer {
        ok: true,
        acknowledged: true,
        worker_id: worker,
        state: names::worker_state(state),
        server_time: time,
    };
    form.json(200, &body)
}

/// The head of an answer that passes through, with how its body and the connection end on this
/// side. The type of an OJS body gets the parameter that every SDK reads as JSON.
pub fn passed_head(head: &TunnelHead, takes_chunks: bool, form: AnswerForm) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(USUAL_HEAD_BYTES);
    bytes.extend_from_slice(format!("HTTP/1.1 {} {}\r\n", head.status, head.reason).as_bytes());
    for (name, value) in head.headers.iter() {
        if lacks_json_alias(name, value) {
            push_line(&mut bytes, name, &[value, JSON_ALIAS.as_bytes()].concat());
        } else {
            push_line(&mut bytes, name, value);
        }
    }
    match head.body {
        TunnelBody::Length(length) => bytes.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes()),
        TunnelBody::Chunked if takes_chunks => bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        TunnelBody::Chunked | TunnelBody::None => {}
    }
    bytes.extend_from_slice(form.connection().as_bytes());
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// Whether this line names the type of an OJS body without a word that an SDK reads as JSON.
fn lacks_json_alias(name: &[u8], value: &[u8]) -> bool {
    if !name.eq_ignore_ascii_case(b"content-type") {
        return false;
    }
    let Ok(value) = std::str::from_utf8(value) else {
        return false;
    };
    let media_type = value.split(';').next().unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case(OJS_TYPE) && !value.contains(JSON_TYPE)
}

/// Why a request fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayError<'a> {
    /// The HTTP status of the answer.
    pub status: u16,
    /// The code for programs, which begins with `gateway_`.
    pub code: &'a str,
    /// The message for a person.
    pub message: &'a str,
}

impl GatewayError<'static> {
    /// The request cannot be read.
    pub fn of_message(bad: BadMessage) -> Self {
        let (status, code, message) = match bad {
            BadMessage::Malformed(why) => (400, "gateway_bad_request", why),
            BadMessage::HeadTooLarge => (
                431,
                "gateway_header_too_large",
                const {
                    assert!(MOST_HEAD_BYTES == 32 << 10 && MOST_HEADER_LINES == 100);
                    "the head of a request has at most 32 KiB and 100 header lines"
                },
            ),
            BadMessage::UnknownCoding => (
                501,
                "gateway_unknown_coding",
                "the only transfer coding that is known here is chunked",
            ),
            BadMessage::UnknownExpectation => (
                417,
                "gateway_unknown_expectation",
                "the only expectation that is known here is 100-continue",
            ),
        };
        Self { status, code, message }
    }
}

/// The answer to a request that fails.
pub fn failed(error: &GatewayError<'_>, form: AnswerForm) -> Vec<u8> {
    let body = ErrorAnswer {
        error: ErrorBody {
            code: error.code,
            message: error.message,
            // A retry of the request may succeed.
            retryable: matches!(error.status, 408 | 502 | 503 | 504),
        },
    };
    form.json(error.status, &body)
}

/// The answer to an ACK or a FAIL that the lifecycle refused: the backend refuses it, the
/// reservation is lost, or no worker runs. A body that is too long is refused earlier, with
/// `gateway_too_large`.
pub fn outcome_not_taken(code: ErrorCode, message: &str, form: AnswerForm) -> Vec<u8> {
    let (status, code) = match code {
        ErrorCode::Lost => (409, "gateway_lost"),
        ErrorCode::Refused => (422, "gateway_refused"),
        ErrorCode::Unavailable | ErrorCode::NotHeld => (503, "gateway_unavailable"),
        // Errors of frames and of checkpoints. A worker that speaks HTTP sends neither, so the
        // lifecycle never answers an outcome with these.
        ErrorCode::NotOffered
        | ErrorCode::NotJson
        | ErrorCode::InvalidFrame
        | ErrorCode::FrameTooLong
        | ErrorCode::UnknownType
        | ErrorCode::UnsupportedProtocol => (422, "gateway_refused"),
    };
    failed(&GatewayError { status, code, message }, form)
}

#[derive(Serialize)]
struct OutcomeAnswer<'a> {
    acknowledged: bool,
    id: &'a str,
    job_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a str>,
}

#[derive(Serialize)]
struct BeatAnswer<'a> {
    state: &'a str,
    directive: &'a str,
    jobs_extended: Vec<&'a str>,
    server_time: &'a str,
}

#[derive(Serialize)]
struct RegistrationAnswer<'a> {
    ok: bool,
    acknowledged: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_id: Option<&'a str>,
    state: &'a str,
    server_time: &'a str,
}

#[derive(Serialize)]
struct ErrorAnswer<'a> {
    error: ErrorBody<'a>,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    code: &'a str,
    message: &'a str,
    retryable: bool,
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
