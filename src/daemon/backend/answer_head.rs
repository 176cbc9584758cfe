//! The head of an answer, as far as it is needed.

use std::time::Duration;

use ureq_proto::http::{Response, StatusCode};

use ojs_wire::backend::request::STREAM_TYPE;

/// The head of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::daemon) struct AnswerHead {
    /// The status.
    pub(in crate::daemon) status: u16,
    /// The header Retry-After.
    pub(in crate::daemon) retry_after: Option<String>,
    /// The header Location.
    pub(in crate::daemon) location: Option<String>,
    /// Whether what follows are events as they happen.
    pub(in crate::daemon) is_event_stream: bool,
    /// How long the backend keeps a connection that is not used, where it says so.
    pub(in crate::daemon) keep_alive: Option<Duration>,
}

impl AnswerHead {
    /// Of one that the engine has read.
    pub(in crate::daemon) fn of(response: &Response<()>) -> Self {
        let headers = response.headers();
        Self::with(response.status().as_u16(), |name| {
            headers.get(name).map(|value| value.as_bytes())
        })
    }

    /// Of a plain one.
    pub(in crate::daemon) fn of_plain(response: &httparse::Response<'_, '_>) -> Self {
        Self::with(response.code.unwrap_or_default(), |name| {
            let mut headers = response.headers.iter();
            let header = headers.find(|header| header.name.eq_ignore_ascii_case(name));
            header.map(|header| header.value)
        })
    }

    /// With this status, and the value of the first header line of each name.
    fn with<'v>(status: u16, value: impl Fn(&str) -> Option<&'v [u8]>) -> Self {
        let text = |name: &str| value(name).and_then(visible);
        Self {
            status,
            retry_after: text("retry-after").map(str::to_owned),
            location: text("location").map(str::to_owned),
            is_event_stream: status == StatusCode::OK.as_u16() && text("content-type").is_some_and(is_event_stream),
            keep_alive: text("keep-alive").and_then(keep_alive),
        }
    }
}

/// A value that is text, and nothing that a terminal would act on.
fn visible(value: &[u8]) -> Option<&str> {
    let is_visible = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t');
    std::str::from_utf8(value).ok().filter(|_| value.iter().all(is_visible))
}

/// `text/event-stream; charset=utf-8`.
fn is_event_stream(value: &str) -> bool {
    let essence = value.as_bytes().split(|byte| *byte == b';').next();
    essence.is_some_and(|essence| essence.trim_ascii().eq_ignore_ascii_case(STREAM_TYPE.as_bytes()))
}

/// `timeout=5, max=100`: the seconds.
fn keep_alive(value: &str) -> Option<Duration> {
    value.split(',').find_map(|part| {
        let (name, seconds) = part.split_once('=')?;
        let is_it = name.trim().eq_ignore_ascii_case("timeout");
        is_it
            .then(|| seconds.trim().parse().ok().map(Duration::from_secs))
            .flatten()
    })
}
