//! Probes, the status and metrics: the HTTP request, and the response to it. GET and HEAD of a few
//! paths, one request for each connection, no body read.

use serde::Serialize;

use crate::health::{UnhealthyReason, reasons};
use crate::http::message::{BadMessage, MOST_HEADER_LINES, MessageHead, read_head};
use crate::http::response::response;
use crate::operator::status_line;
use crate::{metrics, names};
use ojs_lifecycle::api::{Health, Probe, Status};

/// Longest head of a probe's request in bytes, its empty line included. An orchestrator's has about
/// 150.
pub const MOST_HEAD_BYTES: usize = 4 << 10;

/// The paths of probes.
const PATHS: [(&str, ProbePath); 5] = [
    ("/livez", ProbePath::Probe(Probe::Live)),
    ("/readyz", ProbePath::Probe(Probe::Ready)),
    ("/healthz", ProbePath::Probe(Probe::Healthy)),
    ("/status", ProbePath::Status),
    ("/metrics", ProbePath::Metrics),
];

/// The paths of probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbePath {
    /// Whether the instance is well.
    Probe(Probe),
    /// The phase of ojs-init, its worker, its jobs and its backend.
    Status,
    Metrics,
}

/// One request of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeRequest {
    /// The path, or the reason of a refusal.
    pub asks: Result<ProbePath, ProbeRefusal>,
    /// HEAD gets the head of the response only.
    pub wants_body: bool,
}

/// Why a request gets nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeRefusal {
    /// The bytes are no HTTP/1 request.
    Malformed,
    /// Its head has more than [`MOST_HEAD_BYTES`] bytes, or too many lines.
    TooLarge,
    NotFound,
    /// The path exists, but not for this method.
    MethodNotAllowed,
}

impl ProbeRefusal {
    fn request(self) -> ProbeRequest {
        ProbeRequest {
            asks: Err(self),
            wants_body: true,
        }
    }
}

/// Reads a request from all bytes received so far; `None` if the end of its head is still missing.
pub fn read(bytes: &[u8]) -> Option<ProbeRequest> {
    Some(match read_head(bytes, MOST_HEAD_BYTES)? {
        Ok((head, _)) => request(&head),
        Err(BadMessage::HeadTooLarge) => ProbeRefusal::TooLarge.request(),
        Err(BadMessage::Malformed(_) | BadMessage::UnknownCoding | BadMessage::UnknownExpectation) => {
            ProbeRefusal::Malformed.request()
        }
    })
}

fn request(head: &MessageHead) -> ProbeRequest {
    let path = head
        .target
        .split_once('?')
        .map_or(head.target.as_str(), |(path, _)| path);
    let found = PATHS.iter().find(|(known, _)| *known == path);
    let asks = match found {
        None => Err(ProbeRefusal::NotFound),
        Some((_, asked)) if matches!(head.method.as_str(), "GET" | "HEAD") => Ok(*asked),
        Some(_) => Err(ProbeRefusal::MethodNotAllowed),
    };
    ProbeRequest {
        asks,
        wants_body: head.method != "HEAD",
    }
}

/// A response, after which the connection is closed. `lines` are further header lines, each with
/// its end.
fn closing(status: &str, content_type: &str, lines: &str, body: &str, wants_body: bool) -> Vec<u8> {
    let lines = format!("Content-Type: {content_type}\r\nCache-Control: no-store\r\n{lines}Connection: close\r\n");
    response(status, &lines, body.as_bytes(), wants_body)
}

fn json(status: &str, lines: &str, body: &impl Serialize, wants_body: bool) -> Vec<u8> {
    // Words and numbers only: the encoding cannot fail.
    let body = serde_json::to_string(body).unwrap_or_default();
    closing(status, "application/json", lines, &format!("{body}\n"), wants_body)
}

/// The response to a probe: 200 for yes, 503 for no. The body has the reason, and no jobs, labels
/// or URL of the backend.
pub fn answer(health: &Health, wants_body: bool) -> Vec<u8> {
    let (status, word) = if health.is_good() {
        ("200 OK", "ok")
    } else {
        ("503 Service Unavailable", "unavailable")
    };
    let body = HealthBody {
        status: word,
        state: names::worker_state(health.state),
        reasons: reasons(health, None),
    };
    json(status, "", &body, wants_body)
}

/// The response to a request for metrics; `text` is their text.
pub fn metrics(text: &str, wants_body: bool) -> Vec<u8> {
    closing("200 OK", metrics::CONTENT_TYPE, "", text, wants_body)
}

/// The response to a request for the status, which reveals as little as [`answer`].
pub fn show(shown: &Status, wants_body: bool) -> Vec<u8> {
    json("200 OK", "", &status_line::public(shown), wants_body)
}

/// The response to any other request, with a list of the paths.
pub fn refuse(refusal: ProbeRefusal, wants_body: bool) -> Vec<u8> {
    let (status, headers, message) = match refusal {
        ProbeRefusal::Malformed => ("400 Bad Request", "", "this is no HTTP/1 request".to_owned()),
        ProbeRefusal::TooLarge => (
            "431 Request Header Fields Too Large",
            "",
            format!("the head of a request has at most {MOST_HEAD_BYTES} bytes and {MOST_HEADER_LINES} header lines"),
        ),
        ProbeRefusal::NotFound => ("404 Not Found", "", "there is nothing at this path".to_owned()),
        ProbeRefusal::MethodNotAllowed => (
            "405 Method Not Allowed",
            "Allow: GET, HEAD\r\n",
            "this path is read with GET or HEAD".to_owned(),
        ),
    };
    let body = RefusalBody {
        status: "refused",
        message,
        paths: PATHS.map(|(path, _)| path),
    };
    json(status, headers, &body, wants_body)
}

#[derive(Serialize)]
struct HealthBody {
    status: &'static str,
    state: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<UnhealthyReason>,
}

#[derive(Serialize)]
struct RefusalBody {
    status: &'static str,
    message: String,
    paths: [&'static str; PATHS.len()],
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
