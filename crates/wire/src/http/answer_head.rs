//! The head of an answer: where the body behind it ends (RFC 9112 6.3), and whether its connection
//! may carry another request.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Response};

use crate::http::message::{decimal, is_listed, values};

/// Most header lines of an answer.
pub const MOST_HEADER_LINES: usize = 128;

/// The type of an answer whose body streams events.
pub const EVENT_STREAM: &str = "text/event-stream";

/// The meaning of a head for the bytes behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerFraming {
    /// An interim answer (100, 102 to 199): the head of the answer itself is next.
    Interim,
    /// The answer itself.
    Final {
        /// Where its body ends.
        body: AnswerBody,
        /// Whether another request may be sent on the connection after the body was read.
        leaves_open: bool,
    },
}

/// How the end of an answer's body is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerBody {
    /// There is no body, even if the head announces one: as with HEAD, 204 and 304.
    None,
    /// The body has this many bytes.
    Bytes(u64),
    Chunked,
    /// The body ends with the connection.
    ToTheEnd,
}

/// The bytes are no head of an HTTP/1 answer, or its body has two different lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadAnswer;

/// Reads the head at the beginning of these bytes; `None`: its end has not arrived yet. `take` gets
/// the head, its length in bytes and its meaning. `is_head_alone`: the request was a HEAD.
///
/// # Errors
/// [`BadAnswer`], also for a head of more than [`MOST_HEADER_LINES`] lines.
pub fn read<T>(
    bytes: &[u8],
    is_head_alone: bool,
    take: impl FnOnce(&Response<'_, '_>, usize, AnswerFraming) -> T,
) -> Result<Option<T>, BadAnswer> {
    let mut headers = [const { MaybeUninit::<Header<'_>>::uninit() }; MOST_HEADER_LINES];
    let mut response = Response::new(&mut []);
    let parser = ParserConfig::default();
    match parser.parse_response_with_uninit_headers(&mut response, bytes, &mut headers) {
        Ok(httparse::Status::Complete(length)) => {
            let framing = framing(&response, is_head_alone)?;
            Ok(Some(take(&response, length, framing)))
        }
        Ok(httparse::Status::Partial) => Ok(None),
        Err(_) => Err(BadAnswer),
    }
}

/// Whether the value of a Content-Type is that of an event stream, with any parameters.
pub fn is_event_stream(content_type: &[u8]) -> bool {
    let essence = content_type.split(|byte| *byte == b';').next();
    essence.is_some_and(|essence| essence.trim_ascii().eq_ignore_ascii_case(EVENT_STREAM.as_bytes()))
}

fn framing(response: &Response<'_, '_>, is_head_alone: bool) -> Result<AnswerFraming, BadAnswer> {
    const SWITCHING_PROTOCOLS: u16 = 101;
    let status = response.code.filter(|status| *status >= 100).ok_or(BadAnswer)?;
    if matches!(status, 100 | 102..=199) {
        return Ok(AnswerFraming::Interim);
    }
    let headers: &[Header<'_>] = response.headers;
    let is_1_1 = response.version == Some(1);
    let (mut codings, mut is_chunked) = (0, false);
    for value in values(headers, "transfer-encoding") {
        codings += 1;
        is_chunked |= is_1_1 && is_listed(value, "chunked");
    }
    let length = length(headers)?;
    let body = match length {
        _ if is_head_alone || matches!(status, SWITCHING_PROTOCOLS | 204 | 304) => AnswerBody::None,
        _ if is_chunked => AnswerBody::Chunked,
        Some(length) => AnswerBody::Bytes(length),
        None => AnswerBody::ToTheEnd,
    };
    let said = |token: &str| values(headers, "connection").any(|value| is_listed(value, token));
    let is_kept = !said("close") && (is_1_1 || said("keep-alive"));
    // If a head has both a length and a coding, a proxy on the way may have used the other one.
    let is_clear = codings == 0 || length.is_none();
    let leaves_open = is_kept && is_clear && body != AnswerBody::ToTheEnd && status != SWITCHING_PROTOCOLS;
    Ok(AnswerFraming::Final { body, leaves_open })
}

/// The length by the head. Several lines, and several numbers in one line, are one length if all of
/// them are equal (RFC 9110 8.6).
fn length(headers: &[Header<'_>]) -> Result<Option<u64>, BadAnswer> {
    let mut length = None;
    for value in values(headers, "content-length") {
        for number in value.split(|byte| *byte == b',') {
            let number = Some(decimal(number.trim_ascii()).ok_or(BadAnswer)?);
            if length.is_some() && length != number {
                return Err(BadAnswer);
            }
            length = number;
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status line, header lines, body, and whether the connection may be used again.
    const CASES: &[(&str, &str, AnswerBody, bool)] = &[
        ("HTTP/1.1 200 OK", "content-length: 5\r\n", AnswerBody::Bytes(5), true),
        ("HTTP/1.1 200 OK", "Content-Length: 0\r\n", AnswerBody::Bytes(0), true),
        (
            "HTTP/1.1 404 X",
            "Connection: Keep-Alive\r\nContent-Length: 070\r\n",
            AnswerBody::Bytes(70),
            true,
        ),
        (
            "HTTP/1.1 200 OK",
            "Content-Length: 5\r\nContent-Length: 5, 05\r\n",
            AnswerBody::Bytes(5),
            true,
        ),
        (
            "HTTP/1.1 200 OK",
            "Content-Length: 18446744073709551615\r\n",
            AnswerBody::Bytes(u64::MAX),
            true,
        ),
        (
            "HTTP/1.1 200 OK",
            "Content-Length: 5\r\nConnection: close\r\n",
            AnswerBody::Bytes(5),
            false,
        ),
        (
            "HTTP/1.1 200 OK",
            "Content-Length: 5\r\nConnection: keep-alive, close\r\n",
            AnswerBody::Bytes(5),
            false,
        ),
        (
            "HTTP/1.1 200 OK",
            "Content-Length: 5\r\nConnection: x\r\nConnection: Close\r\n",
            AnswerBody::Bytes(5),
            false,
        ),
        ("HTTP/1.1 307 X", "Content-Length: 5\r\n", AnswerBody::Bytes(5), true),
        ("HTTP/1.1 205 X", "Content-Length: 5\r\n", AnswerBody::Bytes(5), true),
        ("HTTP/1.0 200 OK", "Content-Length: 5\r\n", AnswerBody::Bytes(5), false),
        (
            "HTTP/1.0 200 OK",
            "Content-Length: 5\r\nConnection: keep-alive\r\n",
            AnswerBody::Bytes(5),
            true,
        ),
        (
            "HTTP/1.1 200 OK",
            "Transfer-Encoding: Chunked\r\n",
            AnswerBody::Chunked,
            true,
        ),
        (
            "HTTP/1.1 200 OK",
            "Transfer-Encoding: gzip, chunked\r\n",
            AnswerBody::Chunked,
            true,
        ),
        (
            "HTTP/1.1 200 OK",
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            AnswerBody::Chunked,
            false,
        ),
        (
            "HTTP/1.1 200 OK",
            "Transfer-Encoding: identity\r\nContent-Length: 5\r\n",
            AnswerBody::Bytes(5),
            false,
        ),
        (
            "HTTP/1.0 200 OK",
            "Transfer-Encoding: chunked\r\n",
            AnswerBody::ToTheEnd,
            false,
        ),
        ("HTTP/1.1 200 OK", "X: y\r\n", AnswerBody::ToTheEnd, false),
        ("HTTP/1.1 204 X", "Content-Length: 5\r\n", AnswerBody::None, true),
        (
            "HTTP/1.1 304 X",
            "Transfer-Encoding: chunked\r\n",
            AnswerBody::None,
            true,
        ),
        ("HTTP/1.1 101 X", "Upgrade: x\r\n", AnswerBody::None, false),
    ];

    fn framing_of(head: &str, is_head_alone: bool) -> Result<Option<AnswerFraming>, BadAnswer> {
        read(head.as_bytes(), is_head_alone, |_, length, framing| {
            assert_eq!(length, head.len(), "{head}");
            framing
        })
    }

    fn answer(status_line: &str, lines: &str) -> Result<Option<(AnswerBody, bool)>, BadAnswer> {
        let framing = framing_of(&format!("{status_line}\r\n{lines}\r\n"), false)?;
        Ok(framing.map(|framing| match framing {
            AnswerFraming::Final { body, leaves_open } => (body, leaves_open),
            AnswerFraming::Interim => unreachable!("{status_line}"),
        }))
    }

    #[test]
    fn the_body_ends_where_the_head_says_and_only_then_is_the_connection_kept() {
        for (status, lines, body, leaves_open) in CASES {
            let expected = Ok(Some((*body, *leaves_open)));
            assert_eq!(answer(status, lines), expected, "{status} {lines}");
        }
    }

    #[test]
    fn an_answer_to_head_has_no_body_and_an_interim_one_is_not_the_answer() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        let expected = AnswerFraming::Final {
            body: AnswerBody::None,
            leaves_open: true,
        };
        assert_eq!(framing_of(head, true), Ok(Some(expected)));
        for status in [100, 102, 103, 199] {
            let head = format!("HTTP/1.1 {status} X\r\nLink: x\r\n\r\n");
            assert_eq!(framing_of(&head, false), Ok(Some(AnswerFraming::Interim)), "{status}");
        }
    }

    #[test]
    fn what_is_no_head_and_a_length_that_is_none_are_refused() {
        for lines in [
            "5, 6",
            "+5",
            "-5",
            "0x5",
            "",
            "5,",
            "18446744073709551616",
            "5\r\nContent-Length: 6",
        ] {
            let lines = format!("Content-Length: {lines}\r\n");
            assert_eq!(answer("HTTP/1.1 200 OK", &lines), Err(BadAnswer), "{lines}");
        }
        for status in ["HTTP/2 200", "HTTP/1.1 099 X", "nonsense"] {
            assert_eq!(answer(status, ""), Err(BadAnswer), "{status}");
        }
        let many = "X: y\r\n".repeat(MOST_HEADER_LINES + 1);
        assert_eq!(answer("HTTP/1.1 200 OK", &many), Err(BadAnswer));
        assert_eq!(framing_of("HTTP/1.1 200 OK\r\nX: y\r\n", false), Ok(None));
    }

    #[test]
    fn a_stream_of_events_is_known_by_its_type_whatever_its_parameters_are() {
        assert!(is_event_stream(b"text/event-stream"));
        assert!(is_event_stream(b"Text/Event-Stream ; charset=utf-8"));
        assert!(!is_event_stream(b"text/event-streams") && !is_event_stream(b"text/html"));
    }
}
