//! Probes, the status and metrics: what an HTTP request asks for, and the response to it. GET and
//! HEAD of a few paths, one request for each connection, no body read.

use serde::Serialize;

use crate::health::{UnhealthyReason, reasons};
use crate::http::head::{self, Head, MAX_HEAD, MAX_HEADERS, NoHead};
use crate::http::response::{json, response};
use crate::operator::status_line;
use crate::{metrics, names};
use ojs_lifecycle::api::{Health, Probe, Status};

/// The paths that there are.
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
    /// Where it is and what everybody is doing.
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
    /// Its head has more than [`MAX_HEAD`] bytes, or too many lines.
    TooLarge,
    NotFound,
    /// There is, but not for this method.
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

/// Reads a request from everything that came so far; `None` when the end of its head is still
/// missing.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<ProbeRequest> {
    Some(match head::read(bytes)? {
        Ok(head) => request(head),
        Err(NoHead::Malformed) => ProbeRefusal::Malformed.request(),
        Err(NoHead::TooLarge) => ProbeRefusal::TooLarge.request(),
    })
}

fn request(head: Head<'_>) -> ProbeRequest {
    let found = PATHS.iter().find(|(known, _)| *known == head.path);
    let asks = match found {
        None => Err(ProbeRefusal::NotFound),
        Some((_, asked)) if matches!(head.method, "GET" | "HEAD") => Ok(*asked),
        Some(_) => Err(ProbeRefusal::MethodNotAllowed),
    };
    ProbeRequest {
        asks,
        wants_body: head.method != "HEAD",
    }
}

/// The response to a probe: 200 for yes, 503 for no. It says why, and nothing about jobs, labels or
/// the backend's URL.
#[must_use]
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

/// The response to who asks for metrics, which are this text.
#[must_use]
pub fn metrics(text: &str, wants_body: bool) -> Vec<u8> {
    response("200 OK", metrics::CONTENT_TYPE, "", text, wants_body)
}

/// The response to who asks for the status: as little as [`answer`] says.
#[must_use]
pub fn show(shown: &Status, wants_body: bool) -> Vec<u8> {
    json("200 OK", "", &status_line::public(shown), wants_body)
}

/// The response to anything else. It says what there is.
#[must_use]
pub fn refuse(refusal: ProbeRefusal, wants_body: bool) -> Vec<u8> {
    let (status, headers, message) = match refusal {
        ProbeRefusal::Malformed => ("400 Bad Request", "", "this is no HTTP/1 request".to_owned()),
        ProbeRefusal::TooLarge => (
            "431 Request Header Fields Too Large",
            "",
            format!("the head of a request has at most {MAX_HEAD} bytes and {MAX_HEADERS} header lines"),
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
