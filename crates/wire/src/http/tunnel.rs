//! Requests of a client that ojs-init passes through to the backend, and their answers: which
//! header lines are passed on.

use crate::http::answer_head::is_event_stream;
use crate::http::header_lines::{HeaderLines, push_line};

/// Room for a usual head: one that is longer gets more.
pub const USUAL_HEAD_BYTES: usize = 512;

/// Headers of one connection alone (RFC 9110 7.6.1), or that are written anew for the next one.
/// Names that begin with [`PROXY_PREFIX`] and those that `Connection` names belong to them.
const OF_ONE_CONNECTION: [&str; 9] = [
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
    "content-length",
    "http2-settings",
];

const PROXY_PREFIX: &[u8] = b"proxy-";

/// Headers that only ojs-init sends to the backend: its address, and the credentials.
const OURS: [&str; 2] = ["host", "authorization"];

/// Requests that may be sent a second time: they change nothing (RFC 9110 9.2.1).
const MAY_COME_TWICE: [&str; 3] = ["GET", "HEAD", "OPTIONS"];

/// Methods whose request has a body, even an empty one.
const HAVE_BODY: [&str; 3] = ["POST", "PUT", "PATCH"];

/// A client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelRequest {
    pub method: String,
    /// Path and query, without the host.
    pub target: String,
    /// Every header line in its order. Lines that are not passed on are left out when the head is
    /// written.
    pub headers: HeaderLines,
    pub body: TunnelBody,
}

/// How long the body of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelBody {
    None,
    /// The body has this many bytes.
    Length(u64),
    /// The length is unknown before the body's end.
    Chunked,
}

impl TunnelRequest {
    /// Whether the backend may get it twice, judged by its method and body.
    pub fn may_come_twice(&self) -> bool {
        let has_body = !matches!(self.body, TunnelBody::None | TunnelBody::Length(0));
        !has_body && self.changes_nothing()
    }

    /// Whether its method changes nothing (RFC 9110 9.2.1).
    pub fn changes_nothing(&self) -> bool {
        MAY_COME_TWICE.contains(&self.method.as_str())
    }

    /// Whether its answer has no body, even if the answer's head announces one.
    pub fn asks_for_head_alone(&self) -> bool {
        self.method == "HEAD"
    }

    /// Its head as the backend gets it.
    pub fn head(&self, own: &OwnLines, bearer: Option<&str>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(USUAL_HEAD_BYTES);
        for part in [&self.method, " ", &own.prefix, &self.target, " HTTP/1.1\r\n"] {
            bytes.extend_from_slice(part.as_bytes());
        }
        let mut line = |name: &[u8], value: &[u8]| push_line(&mut bytes, name, value);
        line(b"Host", own.host.as_bytes());
        for (name, value) in end_to_end(self.headers.iter()) {
            let is = |other: &str| other.as_bytes().eq_ignore_ascii_case(name);
            if !(OURS.into_iter().any(is) || own.headers.iter().any(|(own, _)| is(own))) {
                line(name, value);
            }
        }
        for (name, value) in &own.headers {
            line(name.as_bytes(), value.as_bytes());
        }
        if let Some(bearer) = bearer {
            line(b"Authorization", format!("Bearer {bearer}").as_bytes());
        }
        match self.body {
            TunnelBody::None if HAVE_BODY.contains(&self.method.as_str()) => line(b"Content-Length", b"0"),
            TunnelBody::None => {}
            TunnelBody::Length(length) => line(b"Content-Length", length.to_string().as_bytes()),
            TunnelBody::Chunked => line(b"Transfer-Encoding", b"chunked"),
        }
        bytes.extend_from_slice(b"\r\n");
        bytes
    }
}

/// The headers that ojs-init adds to each request, and the prefix of its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnLines {
    /// The path of the backend's URL; empty, or with a slash at its beginning and none at its end.
    pub prefix: String,
    /// The header Host.
    pub host: String,
    /// Lines that ojs-init adds. Lines of the client with one of these names are not passed on.
    pub headers: Vec<(String, String)>,
}

/// The head of the backend's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelHead {
    pub status: u16,
    /// The words behind the status, perhaps none.
    pub reason: String,
    /// The header lines that are passed on. A Content-Length is among them only if there is no
    /// body: it is the length that the body would have.
    pub headers: HeaderLines,
    pub body: TunnelBody,
}

impl TunnelHead {
    /// The head as it is passed on, with the known length of its body.
    pub fn of(response: &httparse::Response<'_, '_>, body: TunnelBody) -> Self {
        let lines = response.headers.iter().map(|header| (header.name, header.value));
        let mut lengths = lines
            .clone()
            .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length = lengths.next().filter(|_| body == TunnelBody::None);
        let is_onward = is_end_to_end(lines.clone().map(|(name, value)| (name.as_bytes(), value)));
        let onward = lines.filter(|(name, _)| is_onward(name.as_bytes()));
        Self {
            status: response.code.unwrap_or_default(),
            reason: response.reason.unwrap_or_default().to_owned(),
            headers: HeaderLines::of(onward.chain(length)),
            body,
        }
    }

    /// Whether its body is an event stream, which may be silent for a long time.
    pub fn is_event_stream(&self) -> bool {
        self.headers.value("content-type").is_some_and(is_event_stream)
    }
}

/// The end-to-end lines: those for the last recipient, not for the next hop.
fn end_to_end<'l>(
    lines: impl Iterator<Item = (&'l [u8], &'l [u8])> + Clone,
) -> impl Iterator<Item = (&'l [u8], &'l [u8])> {
    let goes_on = is_end_to_end(lines.clone());
    lines.filter(move |(name, _)| goes_on(name))
}

/// Returns a function that tests by name whether one of these lines is end-to-end.
fn is_end_to_end<'l>(lines: impl Iterator<Item = (&'l [u8], &'l [u8])>) -> impl Fn(&[u8]) -> bool {
    let named: Vec<&[u8]> = lines
        .filter(|(name, _)| name.eq_ignore_ascii_case(b"connection"))
        .flat_map(|(_, value)| value.split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .collect();
    move |name| {
        let is = |known: &[u8]| known.eq_ignore_ascii_case(name);
        let start = name.get(..PROXY_PREFIX.len());
        let is_proxy = start.is_some_and(|start| start.eq_ignore_ascii_case(PROXY_PREFIX));
        !(is_proxy || named.iter().any(|named| is(named)) || OF_ONE_CONNECTION.iter().any(|known| is(known.as_bytes())))
    }
}

/// Most bytes around the payload of a chunk: its length in hexadecimal, and two line breaks.
pub const AROUND_CHUNK: usize = 20;

/// The last chunk, and that nothing follows it.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Adds a chunk, but none without payload: that would be the last chunk.
pub fn push_chunk(bytes: &mut Vec<u8>, payload: &[u8]) {
    if payload.is_empty() {
        return;
    }
    bytes.extend_from_slice(format!("{:x}\r\n", payload.len()).as_bytes());
    bytes.extend_from_slice(payload);
    bytes.extend_from_slice(b"\r\n");
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot get at its answer has failed")]
mod tests {
    use super::*;
    use crate::http::answer_head;

    fn lines(lines: &[(&str, &str)]) -> HeaderLines {
        HeaderLines::of(lines.iter().map(|(name, value)| (*name, value.as_bytes())))
    }

    fn own() -> OwnLines {
        OwnLines {
            prefix: "/prefix".to_owned(),
            host: "b:8080".to_owned(),
            headers: vec![("X-OJS-Tenant".to_owned(), "acme".to_owned())],
        }
    }

    fn head(method: &str, headers: &[(&str, &str)], body: TunnelBody, bearer: Option<&str>) -> String {
        let request = TunnelRequest {
            method: method.to_owned(),
            target: "/ojs/v1/jobs?a=b".to_owned(),
            headers: lines(headers),
            body,
        };
        String::from_utf8(request.head(&own(), bearer)).unwrap()
    }

    #[test]
    fn what_is_for_the_backend_goes_on_as_it_was_sent_and_what_is_ours_is_said_by_us() {
        let sent = [
            ("host", "127.0.0.1:4711"),
            ("AUTHORIZATION", "Bearer of-the-worker"),
            ("X-Request-ID", "r1"),
            ("x-ojs-tenant", "somebody-else"),
            ("X-Twice", "1"),
            ("X-Twice", "2"),
            ("Content-Type", "application/json"),
        ];
        let expected = "POST /prefix/ojs/v1/jobs?a=b HTTP/1.1\r\nHost: b:8080\r\nX-Request-ID: r1\r\nX-Twice: 1\r\n\
                        X-Twice: 2\r\nContent-Type: application/json\r\nX-OJS-Tenant: acme\r\n\
                        Authorization: Bearer real\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(head("POST", &sent, TunnelBody::Length(5), Some("real")), expected);
        let without = head("GET", &sent, TunnelBody::None, None).to_ascii_lowercase();
        assert!(
            !without.contains("authorization") && !without.contains("content-length"),
            "{without}"
        );
    }

    #[test]
    fn what_concerns_one_connection_ends_with_it() {
        let sent = [
            ("Connection", "X-Of-This-One, close"),
            ("x-of-this-one", "1"),
            ("Keep-Alive", "timeout=5"),
            ("TE", "trailers"),
            ("Trailer", "X"),
            ("Transfer-Encoding", "gzip"),
            ("Upgrade", "websocket"),
            ("Expect", "100-continue"),
            ("Content-Length", "7"),
            ("Proxy-Authorization", "Basic x"),
            ("X-Kept", "1"),
        ];
        let expected = "PUT /prefix/ojs/v1/jobs?a=b HTTP/1.1\r\nHost: b:8080\r\nX-Kept: 1\r\nX-OJS-Tenant: acme\r\n\
                        Transfer-Encoding: chunked\r\n\r\n";
        assert_eq!(head("PUT", &sent, TunnelBody::Chunked, None), expected);
    }

    #[test]
    fn a_post_without_a_body_says_so() {
        assert!(head("POST", &[], TunnelBody::None, None).ends_with("Content-Length: 0\r\n\r\n"));
    }

    #[test]
    fn only_what_changes_nothing_and_has_no_body_may_come_twice() {
        for (method, body, is_so) in [
            ("GET", TunnelBody::None, true),
            ("HEAD", TunnelBody::Length(0), true),
            ("OPTIONS", TunnelBody::None, true),
            ("GET", TunnelBody::Length(1), false),
            ("GET", TunnelBody::Chunked, false),
            ("POST", TunnelBody::None, false),
            ("DELETE", TunnelBody::None, false),
        ] {
            let request = TunnelRequest {
                method: method.to_owned(),
                target: "/".to_owned(),
                headers: HeaderLines::default(),
                body,
            };
            assert_eq!(request.may_come_twice(), is_so, "{method} {body:?}");
        }
    }

    #[test]
    fn an_answer_goes_on_but_for_what_concerns_its_connection() {
        let bytes = b"HTTP/1.1 201 Created Now\r\nContent-Length: 5\r\nConnection: keep-alive, X-A\r\nX-A: 1\r\n\
                      Keep-Alive: timeout=5\r\nx-B: \xff\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n";
        let head_with = |body| {
            answer_head::read(bytes, false, |head, _, _| TunnelHead::of(head, body))
                .unwrap()
                .unwrap()
        };
        let head = head_with(TunnelBody::Length(5));
        assert_eq!((head.status, head.reason.as_str()), (201, "Created Now"));
        assert_eq!(
            head.headers.as_bytes(),
            b"x-B: \xff\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
        );
        assert!(head.is_event_stream());
        let without_body = head_with(TunnelBody::None);
        assert_eq!(without_body.headers.value("content-length"), Some(b"5".as_slice()));
    }

    #[test]
    fn chunks_say_how_long_they_are_and_none_is_the_last_by_accident() {
        let mut bytes = Vec::new();
        push_chunk(&mut bytes, &[b'x'; 16]);
        push_chunk(&mut bytes, b"");
        bytes.extend_from_slice(LAST_CHUNK);
        assert_eq!(bytes, b"10\r\nxxxxxxxxxxxxxxxx\r\n0\r\n\r\n");
    }
}
