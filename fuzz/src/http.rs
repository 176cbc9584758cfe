//! HTTP/1.1 of both sides: the requests of a gateway's client, and the answers of the backend.

use ojs_wire::gateway::{AnswerForm, passed_head, route};
use ojs_wire::http::answer_head::{self, AnswerBody, AnswerFraming};
use ojs_wire::http::body::{BodyReader, BodyStep};
use ojs_wire::http::message::{BadMessage, BodyLength, MOST_HEAD_BYTES, MessageHead};
use ojs_wire::http::request_reader::RequestReader;
use ojs_wire::http::tunnel::{LAST_CHUNK, OwnLines, TunnelBody, TunnelHead, TunnelRequest, push_chunk};
use ojs_wire::http::{connect, probe};

use super::answer_by_library::read_by_a_library;
use super::pieces::same_in_any_pieces;

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRequest {
    pub head: MessageHead,
    /// The payload that was received.
    pub body: Vec<u8>,
    /// Whether that is all of it.
    pub is_whole: bool,
}

/// Why no more requests are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Bytes are missing.
    Waits,
    /// The client or its version of HTTP closes the connection.
    Closes,
    Bad(BadMessage),
    BadChunk,
}

/// The bytes of a connection to the gateway. The requests are the same in pieces of any size, and
/// each of them is still the only one when it is passed on.
pub fn requests(data: &[u8]) {
    let _ = probe::read(data);
    let (requests, _) = same_in_any_pieces(data, |pieces| {
        let (requests, end) = read_requests(pieces);
        // A head that makes no sense may be noticed only at the end of its line.
        let waits = matches!(end, End::Waits | End::Bad(BadMessage::Malformed(_)));
        (requests, (!waits).then_some(end))
    });
    for request in &requests {
        check_framing(&request.head);
        let _ = route(&request.head.method, &request.head.target);
        if request.is_whole {
            let (again, end) = read_requests(&[&passed_on(request)]);
            let [again] = again.as_slice() else {
                panic!("passed on as {} requests: {end:?}", again.len());
            };
            assert!(again.is_whole && again.body == request.body && again.head.method == request.head.method);
            assert_eq!(again.head.target, format!("/prefix{}", request.head.target));
        }
    }
    if let Some(first) = requests.first() {
        compare_with_httparse(data, &first.head);
    }
}

/// Reads requests as the gateway does.
pub fn read_requests(pieces: &[&[u8]]) -> (Vec<ReadRequest>, End) {
    let mut reader = RequestReader::default();
    let mut requests: Vec<ReadRequest> = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            // The reader always has room, or is at an end.
            assert!(reader.room() > 0);
            let (now, later) = rest.split_at(rest.len().min(reader.room()));
            reader.add(now);
            rest = later;
            if let Some(end) = read_all(&mut reader, &mut requests) {
                return (requests, end);
            }
            assert!(reader.room() <= MOST_HEAD_BYTES);
        }
    }
    (requests, End::Waits)
}

/// Reads what is there. `None`: more bytes are needed.
fn read_all(reader: &mut RequestReader, requests: &mut Vec<ReadRequest>) -> Option<End> {
    loop {
        if let Some(request) = requests.last_mut().filter(|request| !request.is_whole) {
            loop {
                let taken = match reader.payload() {
                    Err(_) => return Some(End::BadChunk),
                    Ok(BodyStep::Unfinished) => return None,
                    Ok(BodyStep::Over) => break,
                    Ok(BodyStep::Payload(payload)) => {
                        assert!(!payload.is_empty());
                        request.body.extend_from_slice(payload);
                        payload.len()
                    }
                };
                reader.took(taken);
            }
            request.is_whole = true;
            if !request.head.is_kept {
                return Some(End::Closes);
            }
        }
        match reader.next_head()? {
            Err(bad) => return Some(End::Bad(bad)),
            Ok(head) => requests.push(ReadRequest {
                head,
                body: Vec::new(),
                is_whole: false,
            }),
        }
    }
}

/// Asserts that the end of the body is marked once, and with a mark that every server reads alike.
fn check_framing(head: &MessageHead) {
    let named = |name: &str| -> Vec<String> {
        let lines = head.headers.iter();
        let lines = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()));
        lines
            .map(|(_, value)| String::from_utf8_lossy(value).to_ascii_lowercase())
            .collect()
    };
    let (lengths, codings) = (named("content-length"), named("transfer-encoding"));
    let lengths: Vec<&str> = lengths.iter().map(|length| length.trim()).collect();
    let codings: Vec<&str> = codings.iter().map(|coding| coding.trim()).collect();
    match head.body {
        BodyLength::Chunked => assert!(codings == ["chunked"] && lengths.is_empty() && head.takes_chunks),
        BodyLength::Bytes(0) if lengths.is_empty() => assert!(codings.is_empty()),
        BodyLength::Bytes(length) => {
            let [spelled] = lengths.as_slice() else {
                panic!("{lengths:?}");
            };
            assert!(codings.is_empty() && spelled.bytes().all(|byte| byte.is_ascii_digit()));
            assert_eq!(spelled.parse(), Ok(length));
        }
    }
}

/// Asserts that httparse finds the same head.
fn compare_with_httparse(data: &[u8], head: &MessageHead) {
    let mut headers = [httparse::EMPTY_HEADER; 100];
    let mut request = httparse::Request::new(&mut headers);
    let read = request.parse(data);
    assert!(matches!(read, Ok(httparse::Status::Complete(_))), "{read:?}");
    let target = request.path.unwrap_or_default();
    assert_eq!(request.method, Some(head.method.as_str()));
    assert!(target.ends_with(&head.target) || head.target == "/", "{target}");
    assert_eq!(request.version == Some(1), head.takes_chunks);
    let found = request.headers.iter().map(|line| (line.name.as_bytes(), line.value));
    assert!(head.headers.iter().eq(found));
}

/// The bytes of a request as the backend gets it.
pub fn passed_on(request: &ReadRequest) -> Vec<u8> {
    let own = OwnLines {
        prefix: "/prefix".to_owned(),
        host: "backend:8080".to_owned(),
        headers: vec![("X-Own".to_owned(), "1".to_owned())],
    };
    let head = &request.head;
    let body = match head.body {
        BodyLength::Bytes(0) => TunnelBody::None,
        BodyLength::Bytes(length) => TunnelBody::Length(length),
        BodyLength::Chunked => TunnelBody::Chunked,
    };
    let passed = TunnelRequest {
        method: head.method.clone(),
        target: head.target.clone(),
        headers: head.headers.clone(),
        body,
    };
    let mut bytes = passed.head(&own, Some("token"));
    push_body(&mut bytes, body, &request.body);
    bytes
}

fn push_body(bytes: &mut Vec<u8>, coding: TunnelBody, body: &[u8]) {
    if coding == TunnelBody::Chunked {
        for piece in body.chunks(7) {
            push_chunk(bytes, piece);
        }
        bytes.extend_from_slice(LAST_CHUNK);
    } else {
        bytes.extend_from_slice(body);
    }
}

/// An answer of the backend.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ReadAnswer {
    head: TunnelHead,
    leaves_open: bool,
    body: Vec<u8>,
    is_whole: bool,
    is_bad: bool,
    /// Bytes behind the answer.
    rest: usize,
}

/// The bytes of a connection to the backend, with one answer. It is the same in pieces of any size,
/// the same that the engine of an HTTP client reads, and still one answer when it is passed on.
pub fn answers(data: &[u8]) {
    let _ = connect::read(data);
    for is_head_alone in [false, true] {
        let answer = same_in_any_pieces(data, |pieces| Some(read_answer(pieces, is_head_alone)?.0));
        compare_with_client(data, is_head_alone);
        let Some(answer) = answer.filter(|answer| answer.is_whole && answer.head.status != 101) else {
            continue;
        };
        let coding = answer.head.body;
        let form = AnswerForm {
            wants_body: !is_head_alone,
            is_kept: true,
            is_kept_by_itself: true,
        };
        let mut bytes = passed_head(&answer.head, true, form);
        push_body(&mut bytes, coding, &answer.body);
        let (again, _) = read_answer(&[&bytes], is_head_alone).unwrap();
        assert!(again.is_whole && again.rest == 0 && again.leaves_open, "{again:?}");
        assert_eq!((again.head.status, &again.body), (answer.head.status, &answer.body));
    }
}

/// Asserts that the engine of an HTTP client reads the same answer. It reads no header with other
/// characters than those of ASCII.
fn compare_with_client(data: &[u8], is_head_alone: bool) {
    if !data.is_ascii() {
        return;
    }
    let (ours, unread) = read_answer(&[data], is_head_alone).unzip();
    let theirs = read_by_a_library(data, is_head_alone);
    // The engine takes no header lines in a 100.
    if theirs.is_none() && ours.is_some() && data.windows(4).any(|word| word == b" 100") {
        return;
    }
    // The engine takes shorter extensions of a chunk.
    if matches!(theirs, Some((_, _, false))) && data.contains(&b';') {
        return;
    }
    let is_refused = ours.as_ref().is_some_and(|answer| answer.is_bad);
    if is_refused && unread.is_some_and(|unread| is_lenient_size(&unread)) {
        return;
    }
    let of_theirs = theirs.as_ref().map(|(status, _, is_whole)| (*status, *is_whole));
    let of_ours = ours.as_ref().map(|answer| (answer.head.status, answer.is_whole));
    assert_eq!(of_ours, of_theirs);
    if let (Some(ours), Some((_, theirs, true))) = (&ours, &theirs) {
        assert_eq!(&ours.body, theirs);
    }
}

/// Whether these bytes begin with a size of a chunk that the engine takes and HTTP does not know.
/// It has a sign, or other white space around it than HTTP allows behind it.
fn is_lenient_size(bytes: &[u8]) -> bool {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n").unwrap_or(bytes.len());
    let line = String::from_utf8_lossy(&bytes[..end]);
    let size = line.split(';').next().unwrap_or_default();
    let digits = size.trim_end_matches([' ', '\t']);
    let is_strict = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    usize::from_str_radix(size.trim(), 16).is_ok() && !is_strict
}

/// The answer, and the bytes that have not been read. `None`: there is no answer.
fn read_answer(pieces: &[&[u8]], is_head_alone: bool) -> Option<(ReadAnswer, Vec<u8>)> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut answer: Option<(ReadAnswer, BodyReader)> = None;
    for piece in pieces {
        bytes.extend_from_slice(piece);
        while answer.is_none() {
            let head = answer_head::read(&bytes, is_head_alone, |response, length, framing| match framing {
                AnswerFraming::Interim => (length, None),
                AnswerFraming::Final { body, leaves_open } => {
                    let read = ReadAnswer {
                        head: TunnelHead::of(response, coding(body)),
                        leaves_open,
                        body: Vec::new(),
                        is_whole: false,
                        is_bad: false,
                        rest: 0,
                    };
                    (length, Some((read, BodyReader::of_answer(body))))
                }
            });
            let Some((length, found)) = head.ok()? else { break };
            assert!(length > 0);
            bytes.drain(..length);
            answer = found;
        }
        if let Some((answer, reader)) = &mut answer {
            let mut rest = bytes.as_slice();
            while !answer.is_whole && !answer.is_bad {
                match reader.step(&mut rest) {
                    Err(_) => answer.is_bad = true,
                    Ok(BodyStep::Over) => answer.is_whole = true,
                    Ok(BodyStep::Unfinished) => break,
                    Ok(BodyStep::Payload(payload)) => {
                        let length = payload.len();
                        answer.body.extend_from_slice(payload);
                        rest = &rest[length..];
                        reader.took(length);
                    }
                }
            }
            let used = bytes.len() - rest.len();
            bytes.drain(..used);
        }
    }
    let (mut answer, reader) = answer?;
    // Which of these bytes arrive with the broken chunk depends on the pieces.
    answer.rest = if answer.is_bad { 0 } else { bytes.len() };
    if !answer.is_bad {
        answer.is_whole |= reader.is_whole_if_closed(true);
    }
    Some((answer, bytes))
}

fn coding(body: AnswerBody) -> TunnelBody {
    match body {
        AnswerBody::None => TunnelBody::None,
        AnswerBody::Bytes(length) => TunnelBody::Length(length),
        AnswerBody::Chunked | AnswerBody::ToTheEnd => TunnelBody::Chunked,
    }
}
