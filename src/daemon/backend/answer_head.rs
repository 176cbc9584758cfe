//! The head of an answer, as far as it is needed.

use std::time::Duration;

use ojs_wire::http::answer_head::is_event_stream;

/// The head of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::daemon) struct AnswerHead {
    /// The status.
    pub(in crate::daemon) status: u16,
    /// The header Retry-After.
    pub(in crate::daemon) retry_after: Option<String>,
    /// The header Location.
    pub(in crate::daemon) location: Option<String>,
    /// True if the body is a stream of events.
    pub(in crate::daemon) is_event_stream: bool,
    /// How long the backend keeps an unused connection, if it announces that.
    pub(in crate::daemon) keep_alive: Option<Duration>,
}

impl AnswerHead {
    /// The head as far as it is needed; of several lines of one name the first one counts.
    pub(in crate::daemon) fn of(response: &httparse::Response<'_, '_>) -> Self {
        const OK: u16 = 200;
        let text = |name: &str| {
            let mut headers = response.headers.iter();
            let header = headers.find(|header| header.name.eq_ignore_ascii_case(name));
            header.and_then(|header| visible(header.value))
        };
        let status = response.code.unwrap_or_default();
        Self {
            status,
            retry_after: text("retry-after").map(str::to_owned),
            location: text("location").map(str::to_owned),
            is_event_stream: status == OK
                && text("content-type").is_some_and(|value| is_event_stream(value.as_bytes())),
            keep_alive: text("keep-alive").and_then(keep_alive),
        }
    }
}

/// A value of visible text only, because a terminal would act on control characters.
fn visible(value: &[u8]) -> Option<&str> {
    let is_visible = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t');
    std::str::from_utf8(value).ok().filter(|_| value.iter().all(is_visible))
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
