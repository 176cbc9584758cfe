//! The head of a request on a kept connection: the request itself, where its body ends, and whether
//! another request may follow.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig};

use crate::http::header_lines::HeaderLines;

/// Longest head of a request in bytes, its empty line included, unless a caller sets a lower limit.
pub const MOST_HEAD_BYTES: usize = 32 << 10;

/// Most header lines of a request.
pub const MOST_HEADER_LINES: usize = 100;

/// The head of a request, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageHead {
    pub method: String,
    /// Path and query, without the host.
    pub target: String,
    /// Every header line in its order, as it was sent.
    pub headers: HeaderLines,
    pub body: BodyLength,
    /// Whether the client accepts a body in chunks: every client since HTTP/1.1.
    pub takes_chunks: bool,
    /// Whether the client keeps the connection for another request.
    pub is_kept: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub awaits_continue: bool,
}

/// How the end of a body is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// The body has this many bytes. Most requests without a body give no length.
    Bytes(u64),
    Chunked,
}

/// Why a request cannot be read. The place of the next one is unknown then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadMessage {
    /// The bytes are no HTTP/1 request, for this reason.
    Malformed(&'static str),
    /// Its head has more bytes than the limit, or more than [`MOST_HEADER_LINES`] lines.
    HeadTooLarge,
    /// The coding of its body is not chunks.
    UnknownCoding,
    /// The request expects something other than `100-continue`.
    UnknownExpectation,
}

/// Reads the head at the beginning of these bytes, and how many of them it has, at most `most`;
/// `None` when its end is still missing.
pub fn read_head(bytes: &[u8], most: usize) -> Option<Result<(MessageHead, usize), BadMessage>> {
    let mut headers = [const { MaybeUninit::<Header<'_>>::uninit() }; MOST_HEADER_LINES];
    let mut request = httparse::Request::new(&mut []);
    match ParserConfig::default().parse_request_with_uninit_headers(&mut request, bytes, &mut headers) {
        Ok(httparse::Status::Complete(length)) if length <= most => {
            Some(understand(&request).map(|head| (head, length)))
        }
        Ok(httparse::Status::Partial) if bytes.len() < most => None,
        Ok(_) | Err(httparse::Error::TooManyHeaders) => Some(Err(BadMessage::HeadTooLarge)),
        Err(_) => Some(Err(BadMessage::Malformed("this is no HTTP/1 request"))),
    }
}

fn understand(request: &httparse::Request<'_, '_>) -> Result<MessageHead, BadMessage> {
    let is_1_1 = request.version == Some(1);
    let headers: &[Header<'_>] = request.headers;
    let said = |name: &str, token: &str| values(headers, name).any(|value| is_listed(value, token));
    let is_kept = if is_1_1 {
        !said("connection", "close")
    } else {
        said("connection", "keep-alive")
    };
    let mut awaits_continue = false;
    for value in values(headers, "expect").filter(|_| is_1_1) {
        if !value.trim_ascii().eq_ignore_ascii_case(b"100-continue") {
            return Err(BadMessage::UnknownExpectation);
        }
        awaits_continue = true;
    }
    Ok(MessageHead {
        method: request.method.unwrap_or_default().to_owned(),
        target: origin_form(request.path.unwrap_or_default())?.to_owned(),
        body: body_length(headers, is_1_1)?,
        headers: HeaderLines::of(headers.iter().map(|header| (header.name, header.value))),
        takes_chunks: is_1_1,
        is_kept,
        awaits_continue,
    })
}

/// The values of all lines of this name, in upper or lower case.
pub(crate) fn values<'h>(headers: &'h [Header<'_>], name: &str) -> impl Iterator<Item = &'h [u8]> {
    let named = headers
        .iter()
        .filter(move |header| header.name.eq_ignore_ascii_case(name));
    named.map(|header| header.value)
}

/// Whether a list of words separated by commas has this one.
pub(crate) fn is_listed(value: &[u8], word: &str) -> bool {
    let mut words = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    words.any(|found| found.eq_ignore_ascii_case(word.as_bytes()))
}

/// A head that marks the end of its body twice is refused: another server on the way may have used
/// the other mark (RFC 9112 6.3).
fn body_length(headers: &[Header<'_>], is_1_1: bool) -> Result<BodyLength, BadMessage> {
    let mut codings = values(headers, "transfer-encoding");
    let coding = codings.next();
    let mut lengths = values(headers, "content-length");
    let length = lengths.next();
    if codings.next().is_some() || lengths.next().is_some() || (coding.is_some() && (length.is_some() || !is_1_1)) {
        return Err(BadMessage::Malformed("the length of its body is told twice"));
    }
    match (coding, length) {
        (Some(coding), _) if coding.trim_ascii().eq_ignore_ascii_case(b"chunked") => Ok(BodyLength::Chunked),
        (Some(_), _) => Err(BadMessage::UnknownCoding),
        // Below 2^63 no sum of two of them overflows.
        (None, Some(length)) => decimal(length.trim_ascii())
            .filter(|length| *length < 1 << 63)
            .map(BodyLength::Bytes)
            .ok_or(BadMessage::Malformed("the length of its body is no number")),
        (None, None) => Ok(BodyLength::Bytes(0)),
    }
}

/// A number of digits and nothing else; below 2^64.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

/// Path and query of a target, which may name the host as well, as to a proxy (RFC 9112 3.2.2). No
/// target has a fragment: servers do not agree on where the rest of it begins.
fn origin_form(target: &str) -> Result<&str, BadMessage> {
    if target.contains('#') {
        return Err(BadMessage::Malformed("its target has a fragment (#)"));
    }
    if target.starts_with('/') {
        return Ok(target);
    }
    let rest = target.split_once("://").filter(|(scheme, _)| {
        let is = |known: &str| scheme.eq_ignore_ascii_case(known);
        is("http") || is("https")
    });
    let path = rest.map(|(_, rest)| rest.find(['/', '?']).and_then(|start| rest.get(start..)).unwrap_or("/"));
    path.filter(|path| path.starts_with('/'))
        .ok_or(BadMessage::Malformed("its target is no path"))
}
