#![allow(clippy::unwrap_used, reason = "a test without its request has failed")]

use proptest::prelude::*;

use super::*;
use crate::http::message::{BodyLength, MOST_HEADER_LINES};

/// The requests of a connection, each with its body, and the reason of an early end.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    requests: Vec<(MessageHead, Vec<u8>)>,
    is_body_over: bool,
    bad: Option<BadMessage>,
    bad_chunk: bool,
}

fn read(pieces: &[&[u8]]) -> Read {
    let mut reader = RequestReader::default();
    let mut found = Read::default();
    for piece in pieces {
        let mut piece = *piece;
        while !piece.is_empty() {
            let (now, later) = piece.split_at(piece.len().min(reader.room()));
            assert!(!now.is_empty(), "a reader without room cannot go on");
            reader.add(now);
            piece = later;
            take(&mut reader, &mut found);
            if found.bad.is_some() || found.bad_chunk {
                return found;
            }
        }
    }
    found
}

fn take(reader: &mut RequestReader, found: &mut Read) {
    loop {
        if let Some((_, body)) = found.requests.last_mut().filter(|_| !found.is_body_over) {
            match reader.payload() {
                Ok(BodyStep::Payload(payload)) => {
                    body.extend_from_slice(payload);
                    let count = payload.len();
                    reader.took(count);
                }
                Ok(BodyStep::Unfinished) => return,
                Ok(BodyStep::Over) => found.is_body_over = true,
                Err(BadChunk) => return found.bad_chunk = true,
            }
            continue;
        }
        match reader.next_head() {
            None => return,
            Some(Ok(head)) => {
                found.requests.push((head, Vec::new()));
                found.is_body_over = false;
            }
            Some(Err(bad)) => return found.bad = Some(bad),
        }
    }
}

const PIPELINE: &str = "\r\nPOST /ojs/v1/workers/fetch HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n{ }\
                        POST /b?x=1 HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n5;name=value\r\nhello\r\nA\r\n worldwide\r\n0\r\nA: b\r\n\r\n\
                        GET http://h:1/c HTTP/1.0\r\nConnection: x, Keep-Alive\r\n\r\n\
                        HEAD / HTTP/1.1\r\nConnection: close\r\nExpect: 100-Continue\r\n\r\n";

#[test]
fn requests_on_one_connection_are_told_apart() {
    let found = read(&[PIPELINE.as_bytes()]);
    assert_eq!(found.bad, None);
    let bodies: Vec<&[u8]> = found.requests.iter().map(|(_, body)| body.as_slice()).collect();
    assert_eq!(bodies, [&b"{ }"[..], b"hello worldwide", b"", b""]);
    let targets: Vec<&str> = found.requests.iter().map(|(head, _)| head.target.as_str()).collect();
    assert_eq!(targets, ["/ojs/v1/workers/fetch", "/b?x=1", "/c", "/"]);
    let manners: Vec<_> = found
        .requests
        .iter()
        .map(|(head, _)| (head.is_kept, head.takes_chunks, head.awaits_continue))
        .collect();
    assert_eq!(
        manners,
        [
            (true, true, false),
            (true, true, false),
            (true, false, false),
            (false, true, true)
        ]
    );
    assert!(found.is_body_over);
}

#[test]
fn a_body_that_is_not_whole_is_not_over() {
    for cut in [
        "5\r\nhell",
        "5\r\nhello",
        "5\r\nhello\r\n",
        "0\r\n",
        "0\r\nA: b\r\n",
        "5",
    ] {
        let request = format!("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{cut}");
        let found = read(&[request.as_bytes()]);
        assert!(!found.is_body_over && !found.bad_chunk, "{cut:?}");
    }
}

fn bad(head: &str) -> BadMessage {
    read(&[head.as_bytes()]).bad.unwrap()
}

#[test]
fn a_body_whose_end_is_told_in_two_ways_is_refused() {
    for headers in [
        "Content-Length: 3\r\nTransfer-Encoding: chunked",
        "Content-Length: 3\r\nContent-Length: 3",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Content-Length: 3, 3",
        "Content-Length: +3",
        "Content-Length: -1",
        "Content-Length: 0x3",
        "Content-Length:",
        "Content-Length: 18446744073709551615",
    ] {
        let found = bad(&format!("POST / HTTP/1.1\r\n{headers}\r\n\r\nabc"));
        assert!(matches!(found, BadMessage::Malformed(_)), "{headers}");
    }
    assert!(matches!(
        bad("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
        BadMessage::Malformed(_)
    ));
    for coding in ["gzip", "gzip, chunked", "chunked, gzip", ""] {
        let head = format!("POST / HTTP/1.1\r\nTransfer-Encoding: {coding}\r\n\r\n");
        assert_eq!(bad(&head), BadMessage::UnknownCoding, "{coding}");
    }
}

#[test]
fn what_is_no_request_is_refused_at_its_first_bytes() {
    for bytes in [
        "\u{16}\u{3}\u{1}",
        "{\"type\":1}",
        "GET /\u{1} ",
        "GET / HTTP/2.0\r\n",
        "PRI * HTTP/2.0\r\n",
    ] {
        assert!(matches!(bad(bytes), BadMessage::Malformed(_)), "{bytes:?}");
    }
    for target in ["*", "host:80", "ftp://a/b", "x", "/a#b", "http://a#b/c", "/#"] {
        let head = format!("GET {target} HTTP/1.1\r\n\r\n");
        assert!(matches!(bad(&head), BadMessage::Malformed(_)), "{target}");
    }
    assert_eq!(
        bad("POST / HTTP/1.1\r\nExpect: wonders\r\n\r\n"),
        BadMessage::UnknownExpectation
    );
}

#[test]
fn a_head_is_bounded_in_bytes_and_in_lines() {
    let long = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(MOST_HEAD_BYTES));
    assert_eq!(bad(&long), BadMessage::HeadTooLarge);
    let lines = |count: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(count));
    assert_eq!(bad(&lines(MOST_HEADER_LINES + 1)), BadMessage::HeadTooLarge);
    assert_eq!(read(&[lines(MOST_HEADER_LINES).as_bytes()]).requests.len(), 1);
}

#[test]
fn chunks_that_make_no_sense_are_refused() {
    for chunks in [
        "x\r\n",
        "\r\n",
        " 3\r\n",
        "-1\r\n",
        "ffffffffffffffff\r\n",
        "10000000000000000\r\n",
        "3\r\nabcd\r\n",
        "3\r\nabc\n\n",
    ] {
        let request = format!("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
        assert!(read(&[request.as_bytes()]).bad_chunk, "{chunks:?}");
    }
    let extension = format!("3;{}\r\n", "x".repeat(2000));
    let trailer = format!("0\r\n{}", "A: b\r\n".repeat(2000));
    for chunks in [extension, trailer, format!("0\r\n{}", "x".repeat(9000))] {
        let request = format!("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
        assert!(read(&[request.as_bytes()]).bad_chunk);
    }
}

#[test]
fn the_trailer_of_a_body_is_neither_payload_nor_a_header_nor_the_next_request() {
    let request = "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Checksum: 1\r\nA: b\r\n\r\nGET /b HTTP/1.1\r\n\r\n";
    let found = read(&[request.as_bytes()]);
    let [(head, body), (next, _)] = found.requests.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!((body.as_slice(), &*next.target), (&b"{}"[..], "/b"));
    assert_eq!(head.headers.value("x-checksum"), None);
}

#[test]
fn a_line_of_a_trailer_that_ends_with_a_bare_line_feed_is_refused() {
    for trailer in ["\n", "X: 1\n\r\n", "X: 1\r\n\n"] {
        let request =
            format!("POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n{trailer}GET /b HTTP/1.1\r\n\r\n");
        let found = read(&[request.as_bytes()]);
        assert!(found.bad_chunk && found.requests.len() == 1, "{trailer:?} {found:?}");
    }
}

#[test]
fn a_line_feed_within_the_extension_of_a_chunk_is_refused() {
    for extension in [";x=y\nz", ";\n", "\nz"] {
        let request = format!("POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1{extension}\r\n!\r\n0\r\n\r\n");
        assert!(read(&[request.as_bytes()]).bad_chunk, "{extension:?}");
    }
}

#[test]
fn empty_lines_before_a_request_are_skipped_and_a_bare_carriage_return_is_none() {
    for (before, is_good) in [("\r\n", true), ("\n\r\n\n", true), ("\r", false), ("\r\r\n", false)] {
        let found = read(&[format!("{before}GET /a HTTP/1.1\r\n\r\n").as_bytes()]);
        assert_eq!(found.requests.len(), usize::from(is_good), "{before:?}");
        assert_eq!(found.bad.is_some(), !is_good, "{before:?}");
    }
}

#[test]
fn a_connection_that_is_idle_holds_nothing() {
    let mut reader = RequestReader::default();
    reader.add(b"GET / HTTP/1.1\r\n\r\n");
    assert!(reader.next_head().unwrap().is_ok());
    assert_eq!(reader.payload(), Ok(BodyStep::Over));
    assert_eq!(reader.bytes.capacity(), 0);
    assert!(reader.body.is_none());
}

proptest! {
    #[test]
    fn any_chunking_of_the_bytes_gives_the_same_requests(cuts in prop::collection::vec(1..40_usize, 1..200)) {
        let mut rest = PIPELINE.as_bytes();
        let mut pieces = Vec::new();
        for cut in cuts {
            let (piece, later) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = later;
        }
        pieces.push(rest);
        prop_assert_eq!(read(&pieces), read(&[PIPELINE.as_bytes()]));
    }

    #[test]
    fn any_bytes_are_read_without_harm_and_the_reader_never_stands_still(
        bytes in prop::collection::vec(any::<u8>(), 0..4096),
        begin in prop::sample::select(vec![
            "", "POST / HTTP/1.1\r\n", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "GET / HTTP/1.1\r\nContent-Length: 9\r\n\r\n",
        ]),
    ) {
        let whole = [begin.as_bytes(), &bytes].concat();
        let found = read(&[&whole]);
        for (head, body) in &found.requests {
            if let BodyLength::Bytes(length) = head.body {
                prop_assert!(body.len() as u64 <= length);
            }
        }
    }
}
