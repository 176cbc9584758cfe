//! Answers in pieces of every size, and the usable part of those that break off.
#![allow(clippy::unwrap_used, reason = "a test without its answer has failed")]

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use by_library::read_by_a_library;

// The fuzz targets have the same file.
#[path = "../../../tests/support/answer_by_library.rs"]
mod by_library;

const LIMIT: usize = 1 << 20;

fn reader() -> AnswerReader {
    AnswerReader::new(LIMIT)
}

/// Reads these bytes, so many at a time, and then the end.
fn read(bytes: &[u8], piece: usize) -> Result<Received, Fault> {
    seen(reader(), bytes, piece, true)
}

fn body_of(received: &Received) -> &str {
    std::str::from_utf8(&received.body).unwrap()
}

const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nTrailer: x\r\n\r\n";

#[test]
fn an_answer_is_the_same_in_pieces_of_every_size() {
    let answers = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!", true),
        (CHUNKED, true),
        (
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\nhello!",
            false,
        ),
        ("HTTP/1.1 200 OK\r\n\r\nhello!", false),
        ("HTTP/1.0 200 OK\r\n\r\nhello!", false),
        (
            "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 6\r\n\r\nhello!",
            true,
        ),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!",
            true,
        ),
        (
            "HTTP/1.1 100 Continue\r\nServer: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!",
            true,
        ),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!",
            true,
        ),
        ("HTTP/1.1 200 OK\nContent-Length: 6\n\nhello!", true),
    ];
    for (answer, leaves_open) in answers {
        for piece in 1..=answer.len() {
            let received = read(answer.as_bytes(), piece).unwrap();
            assert_eq!(body_of(&received), "hello!", "{answer} by {piece}");
            assert!(received.is_whole, "{answer} by {piece}");
            assert_eq!(received.leaves_connection_open, leaves_open, "{answer} by {piece}");
        }
    }
}

#[test]
fn an_answer_that_breaks_off_anywhere_is_none_or_one_that_is_not_whole() {
    for answer in [CHUNKED, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!"] {
        let head = answer.find("\r\n\r\n").unwrap() + 4;
        for end in 0..answer.len() {
            let result = read(answer.get(..end).unwrap().as_bytes(), usize::MAX);
            if end < head {
                assert!(matches!(result, Err(Fault::Closed)), "{end}");
                continue;
            }
            let received = result.unwrap();
            assert!("hello!".starts_with(body_of(&received)), "{end}");
            assert!(!received.leaves_connection_open, "{end}");
            // All chunks are there as soon as the last one was announced.
            let is_last_chunk_there = answer.get(..end).unwrap().contains("\r\n0\r\n");
            assert_eq!(received.is_whole, is_last_chunk_there, "{end}");
        }
    }
}

#[test]
fn a_connection_with_more_than_an_answer_on_it_is_not_used_again() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}x",
        "HTTP/1.1 204 No Content\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    ] {
        let received = read(answer.as_bytes(), usize::MAX).unwrap();
        assert!(received.is_whole && !received.leaves_connection_open, "{answer}");
    }
    let empty = read(b"HTTP/1.1 204 No Content\r\n\r\n", usize::MAX).unwrap();
    assert!(empty.leaves_connection_open);
}

#[test]
fn lengths_that_lie_are_read_to_the_bound() {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", u64::MAX);
    let mut reader = reader();
    assert!(!reader.push(head.as_bytes()).unwrap());
    let much = vec![b'x'; LIMIT / 4];
    let mut pushed = 0;
    while !reader.push(&much).unwrap() {
        pushed += 1;
    }
    assert_eq!(pushed, 3);
    let received = reader.cut_off().unwrap();
    assert_eq!((received.body.len(), received.is_whole), (LIMIT, false));
    for length in ["18446744073709551616", "-1", "1, 2", "0x10", ""] {
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\nx");
        assert!(
            matches!(read(answer.as_bytes(), usize::MAX), Err(Fault::NotHttp)),
            "{length}"
        );
    }
    for chunk in ["ffffffffffffffff\r\n", "1\r\nxx\r\n", "+\r\n", "\r\n"] {
        let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}");
        let result = read(answer.as_bytes(), usize::MAX);
        let is_whole = matches!(result, Ok(Received { is_whole: true, .. }));
        assert!(!is_whole, "{chunk:?}");
    }
}

#[test]
fn whatever_does_not_end_has_a_bound() {
    let endless = |start: &str, more: &str| {
        let mut reader = reader();
        let mut came = start.len();
        let mut result = reader.push(start.as_bytes());
        while let Ok(false) = result {
            assert!(came < 1 << 20, "{start:?} {more:?}");
            came += more.len();
            result = reader.push(more.as_bytes());
        }
        result.unwrap_err()
    };
    assert!(matches!(
        endless("", "HTTP/1.1 100 Continue\r\n\r\n"),
        Fault::EndlessHead
    ));
    assert!(matches!(endless("HTTP/1.1 200 OK\r\nX: ", "xxxxxxxx"), Fault::LongHead));
    assert!(matches!(endless("HTTP/1.1 200 OK\r\n", "X: x\r\n"), Fault::NotHttp));
    // Lines of a chunk without the line break that ends them.
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert!(matches!(endless(chunked, "1\n"), Fault::NotHttp));
    assert!(matches!(endless(chunked, " "), Fault::NotHttp));
}

#[test]
fn a_head_is_as_long_as_it_may_be_and_no_longer() {
    let answer = |length: usize| {
        let frame = "HTTP/1.1 204 No Content\r\nX: \r\n\r\n".len();
        format!("HTTP/1.1 204 No Content\r\nX: {}\r\n\r\n", "x".repeat(length - frame))
    };
    for piece in [1000, usize::MAX] {
        assert!(read(answer(MOST_HEAD_BYTES).as_bytes(), piece).is_ok());
        let result = read(answer(MOST_HEAD_BYTES + 1).as_bytes(), piece);
        assert!(matches!(result, Err(Fault::LongHead)), "{piece}");
    }
}

#[test]
fn what_the_head_says_is_kept() {
    let answer =
        "HTTP/1.1 307 X\r\nRetry-After: 5\r\nLocation: /x\r\nKeep-Alive: max=3, timeout=7\r\nContent-Length: 0\r\n\r\n";
    let received = read(answer.as_bytes(), usize::MAX).unwrap();
    let expected = AnswerHead {
        status: 307,
        retry_after: Some("5".to_owned()),
        location: Some("/x".to_owned()),
        is_event_stream: false,
        keep_alive: Some(Duration::from_secs(7)),
    };
    assert_eq!(received.head, expected);
    assert!(received.leaves_connection_open);
}

#[test]
fn a_stream_of_events_is_known_by_its_status_and_its_type() {
    for (status, kind, is_stream) in [
        (200, "text/event-stream", true),
        (200, "Text/Event-Stream; charset=utf-8", true),
        (200, "text/html", false),
        (200, "text/event-streams", false),
        (404, "text/event-stream", false),
    ] {
        let answer = format!("HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: 0\r\n\r\n");
        let received = read(answer.as_bytes(), usize::MAX).unwrap();
        assert_eq!(received.head.is_event_stream, is_stream, "{status} {kind}");
    }
}

#[test]
fn no_byte_of_an_answer_with_large_jobs_is_lost_and_its_limit_is_the_same() {
    let job = format!(r#"{{"id":"j","args":["{}"]}}"#, "x".repeat(LARGE_JOB));
    let body = format!(r#"{{"jobs":[{job},{{"id":"small"}},{job}]}}"#);
    let length = body.len();
    let (begin, end) = body.split_at(LARGE_JOB + 50);
    let counted = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{begin}\r\n{:x}\r\n{end}\r\n0\r\n\r\n",
        begin.len(),
        end.len()
    );
    for answer in [&counted, &chunked] {
        for piece in [7, 4096, usize::MAX] {
            for limit in [length + 1, length - 1, LARGE_JOB + 10, 100] {
                let received = seen(AnswerReader::of_jobs(limit), answer.as_bytes(), piece, true).unwrap();
                assert_eq!(received.is_whole, limit > length, "{limit} by {piece}");
                let read = received.jobs.map_or(received.body, JobsBody::join);
                assert_eq!(read, &body.as_bytes()[..limit.min(length)], "{limit} by {piece}");
            }
        }
    }
}

#[test]
fn the_rest_of_a_long_answer_is_dropped_up_to_a_bound_and_its_connection_lasts() {
    let body = "x".repeat(100);
    let counted = format!("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{body}");
    let chunked = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n{body}\r\n0\r\n\r\n");
    for answer in [&counted, &chunked] {
        for piece in [1, 7, usize::MAX] {
            for (droppable, is_read) in [(0, false), (89, false), (91, true), (1000, true)] {
                let reader = AnswerReader::new(10).dropping(droppable);
                let received = seen(reader, answer.as_bytes(), piece, true).unwrap();
                assert_eq!((body_of(&received), received.is_whole), (&body[..10], false));
                assert_eq!(received.leaves_connection_open, is_read, "{droppable} by {piece}");
            }
            let whole = seen(AnswerReader::new(101).dropping(9), answer.as_bytes(), piece, true).unwrap();
            assert!(whole.is_whole && whole.leaves_connection_open);
        }
    }
}

/// The answer in pieces of this size, and then the end of its connection.
fn seen(mut reader: AnswerReader, bytes: &[u8], piece: usize, is_clean: bool) -> Result<Received, Fault> {
    for piece in bytes.chunks(piece) {
        if reader.push(piece)? {
            return Ok(reader.cut_off().unwrap());
        }
    }
    reader.end(is_clean)?;
    Ok(reader.cut_off().unwrap())
}

const STATUS_LINES: &[&str] = &[
    "HTTP/1.1 200 OK",
    "HTTP/1.1 200",
    "HTTP/1.1 201 Created",
    "HTTP/1.1 204 No Content",
    "HTTP/1.1 205 Reset Content",
    "HTTP/1.1 304 Not Modified",
    "HTTP/1.1 307 Elsewhere",
    "HTTP/1.1 404 \u{fc}",
    "HTTP/1.1 503 Later",
    "HTTP/1.1 799 What",
    "HTTP/1.0 200 OK",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK",
    "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK",
    "HTTP/1.1 101 Switching Protocols",
    "HTTP/2 200",
];

const LINES: &[&str] = &[
    "Content-Length: 6",
    "content-length:6",
    "CONTENT-LENGTH: 006",
    "Content-Length: 0",
    "Content-Length: 6, 6",
    "Content-Length: +6",
    "Content-Length: 7",
    "Content-Length: 18446744073709551615",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: identity",
    "Transfer-Encoding: gzip, chunked",
    "Connection: close",
    "Connection: Keep-Alive",
    "Connection: keep-alive, X-A",
    "Connection: upgrade",
    "Keep-Alive: timeout=5, max=100",
    "Retry-After: 3",
    "Retry-After: \u{fc}",
    "Location: /elsewhere",
    "Content-Type: text/event-stream; charset=utf-8",
    "Content-Type: application/json",
    "X-A: 1",
    "X-Empty:",
    "No colon",
    "X : space",
    " folded",
    "X: \u{7f}",
];

const BODIES: &[&str] = &["", "hello!", "hello! and more", "6\r\nhello!\r\n0\r\n\r\n", "hel"];

proptest! {
    /// An answer means the same in pieces of every size, passed on or not.
    #[test]
    fn an_answer_is_the_same_however_it_comes(
        (status, lines, line_end, body) in (
            select(STATUS_LINES), vec(select(LINES), 0..5), select(&["\r\n", "\n"][..]), select(BODIES)),
        piece in 1_usize..200,
        limit in select(&[3_usize, 6, LIMIT][..]),
        is_clean in any::<bool>(),
    ) {
        let answer = answer(status, &lines, line_end, body);
        // Bytes behind an answer are noticed only if they arrive with it.
        let all_of = |reader, piece| {
            let received = seen(reader, &answer, piece, is_clean).map_err(|fault| format!("{fault:?}"));
            received.map(|received| (received.head, received.body, received.is_whole))
        };
        let whole = all_of(AnswerReader::new(limit), usize::MAX);
        prop_assert_eq!(&whole, &all_of(AnswerReader::new(limit), piece));
        let passed = AnswerReader { limit, ..AnswerReader::of_tunnel(false) };
        prop_assert_eq!(&whole, &all_of(passed, piece));
    }

    /// An HTTP library reads the same answer from the same bytes.
    #[test]
    fn an_answer_is_the_one_that_a_library_reads(
        (status, lines, line_end, body) in (
            select(STATUS_LINES), vec(select(LINES), 0..5), select(&["\r\n", "\n"][..]), select(BODIES)),
        is_head_alone in any::<bool>(),
    ) {
        let answer = answer(status, &lines, line_end, body);
        let reader = AnswerReader { is_head_alone, ..reader() };
        prop_assert_eq!(what_is_left(reader, &answer), read_by_a_library(&answer, is_head_alone));
    }
}

fn answer(status: &str, lines: &[&str], line_end: &str, body: &str) -> Vec<u8> {
    let head: String = lines.iter().map(|line| format!("{line}{line_end}")).collect();
    format!("{status}{line_end}{head}{line_end}{body}").into_bytes()
}

/// The status, the body and whether that is all of it; `None`: no answer. Chunks that make no sense
/// end the body, and so does the end of the connection.
fn what_is_left(mut reader: AnswerReader, answer: &[u8]) -> Option<(u16, Vec<u8>, bool)> {
    if reader.push(answer).is_ok() {
        reader.end(true).ok()?;
    }
    let received = reader.cut_off()?;
    Some((received.head.status, received.body, received.is_whole))
}
