//! Answers are what anybody may send: each is read within its bounds of time and size, and the next
//! request works.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ojs_lifecycle::api::{BackendTraits, Call, Failure, Reply};

use crate::backend::Endpoint;
use crate::raw_server::{Asked, Part, RawServer};
use crate::rig::*;
use crate::support::wait;

const UNANSWERED: Reply = Reply::Failed(Failure::Unanswered);

const FINE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

/// More bytes than any answer that is read, and than what is on its way besides.
const MUCH: u64 = 64 << 20;

/// Bytes that the system may have on their way between two sockets.
const ON_THE_WAY: u64 = 16 << 20;

fn ok(body: impl AsRef<[u8]>) -> Vec<u8> {
    with_headers("", body)
}

fn with_headers(headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let length = body.as_ref().len();
    let head = format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: {length}\r\n\r\n");
    [head.as_bytes(), body.as_ref()].concat()
}

/// Answers the first request like this and each further one properly.
fn once(answer: impl Fn(&mut TcpStream) -> io::Result<()> + Send + Sync + 'static) -> RawServer {
    let is_done = AtomicBool::new(false);
    RawServer::start(move |stream: &mut TcpStream, _: &Asked| {
        if is_done.swap(true, Ordering::SeqCst) {
            return stream.write_all(FINE);
        }
        answer(stream)
    })
}

/// The result of this call when it is answered like this; then that the lane works.
fn reply_to(
    call: Call,
    patience: Duration,
    answer: impl Fn(&mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
) -> Reply {
    let server = once(answer);
    let mut rig = Rig::new(settings(&server.url()));
    let latest = wait::now() + patience + SLACK;
    rig.send(call.clone(), patience);
    let (_, reply, at) = rig.answers.recv_timeout(PATIENCE).unwrap();
    assert!(at < latest, "{call:?}: too late");
    let is_closed = wait::wait_until(PATIENCE, || server.ended() > 0);
    assert!(
        is_closed,
        "whoever answers like this is not asked again on this connection"
    );
    let next = rig.ask(call.clone());
    assert_eq!(next, fine(&call), "the next request must work");
    assert!(!LOG.lock().unwrap().contains("internal error"));
    reply
}

/// The meaning of `{}` to a call.
fn fine(call: &Call) -> Reply {
    match call {
        Call::Heartbeat { .. } => Reply::HeartbeatOk {
            directive: None,
            extended: None,
        },
        Call::Fetch { .. } => Reply::Fetched(Vec::new()),
        Call::Register { .. } => Reply::Registered {
            heartbeat_interval: None,
            longest_interval: None,
        },
        Call::GetJob { .. } => UNANSWERED,
        Call::Listen { .. } => Reply::Failed(Failure::NotFromBackend),
        Call::Manifest => Reply::Manifest(BackendTraits::default()),
        Call::Report { .. } | Call::Progress { .. } | Call::Checkpoint { .. } | Call::Deregister { .. } => {
            Reply::Accepted
        }
    }
}

/// The result of these bytes, after which the server hangs up.
fn reply_to_bytes(call: Call, bytes: &[u8]) -> Reply {
    let bytes = bytes.to_vec();
    reply_to(call, PATIENCE, move |stream| {
        stream.write_all(&bytes)?;
        Err(io::ErrorKind::ConnectionAborted.into())
    })
}

fn ids(reply: &Reply) -> Vec<String> {
    let Reply::Fetched(deliveries) = reply else {
        return vec![format!("{reply:?}")];
    };
    deliveries
        .iter()
        .map(|delivery| delivery.subject.id.0.to_string())
        .collect()
}

#[test]
fn what_is_no_answer_of_http_leaves_open_whether_it_was_done() {
    let flood_of_headers = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(5000));
    let long_line = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n{{}}", "x".repeat(2 << 20));
    let long_status = format!("HTTP/1.1 200 {}\r\n\r\n{{}}", "x".repeat(2 << 20));
    let cases: [&[u8]; 12] = [
        b"",
        b"\0\0\0\0",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n{}",
        flood_of_headers.as_bytes(),
        long_line.as_bytes(),
        long_status.as_bytes(),
    ];
    for bytes in cases {
        for call in [ack("a"), beat(), fetch(1), look("a")] {
            let start = String::from_utf8_lossy(bytes.get(..40.min(bytes.len())).unwrap()).into_owned();
            assert_eq!(reply_to_bytes(call.clone(), bytes), UNANSWERED, "{start:?} to {call:?}");
        }
    }
}

#[test]
fn old_and_odd_http_is_understood() {
    let body = r#"{"jobs":[{"id":"a"}]}"#;
    let length = body.len();
    let answers = [
        format!("HTTP/1.0 200 OK\r\n\r\n{body}"),
        format!("HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"),
        format!("HTTP/1.1 200\r\nContent-Length: {length}\r\n\r\n{body}"),
        format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{body}"),
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"),
        format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"),
    ];
    for answer in answers {
        assert_eq!(ids(&reply_to_bytes(fetch(1), answer.as_bytes())), ["a"], "{answer}");
    }
    let empty = b"HTTP/1.1 204 No Content\r\n\r\n";
    for call in [fetch(1), beat(), ack("a")] {
        assert_eq!(reply_to_bytes(call.clone(), empty), fine(&call));
    }
}

#[test]
fn a_wrong_length_costs_no_job_that_can_be_read() {
    let body = r#"{"jobs":[{"id":"a"},{"id":"b"}]}"#;
    let too_long = format!("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{body}");
    assert_eq!(ids(&reply_to_bytes(fetch(2), too_long.as_bytes())), ["a", "b"]);
    let too_short = format!("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{body}");
    assert_eq!(ids(&reply_to_bytes(fetch(2), too_short.as_bytes())), ["a"]);
    for chunks in [
        "zz\r\n",
        "ffffffffffffffffffff\r\n",
        "-1\r\n",
        "5\r\n{\"job",
        "\r\n\r\n",
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
        assert_eq!(reply_to_bytes(fetch(2), answer.as_bytes()), UNANSWERED, "{chunks:?}");
        // An answer that begins as one of the backend is one; what never began is none.
        let of_ack = if chunks.contains('{') {
            Reply::Accepted
        } else {
            UNANSWERED
        };
        assert_eq!(reply_to_bytes(ack("a"), answer.as_bytes()), of_ack, "{chunks:?}");
    }
}

/// More than is read of any answer that brings no jobs, in bytes.
const MOST_READ: usize = 5 << 20;

#[test]
fn what_is_no_json_that_we_read_is_no_job_and_no_trouble() {
    let deep = |opening: &str| opening.repeat(1 << 20);
    let deep_job = format!(r#"{{"jobs":[{{"id":"a","args":{}"#, deep("["));
    let deep_whole = format!(
        r#"{{"jobs":[{{"id":"a","args":{}{}}}]}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let cases: [(&[u8], &[&str]); 12] = [
        (b"{\"jobs\":[{\"id\":\"a\xff\"}]}", &["Failed(Unanswered)"]),
        (b"\xef\xbb\xbf{\"jobs\":[]}", &["Failed(NotFromBackend)"]),
        (br#"{"jobs":[{"id":"a","timeout_ms":NaN}]}"#, &["Failed(Unanswered)"]),
        (br#"{"jobs":[{"id":"a","timeout_ms":1e999}]}"#, &["a"]),
        (br#"{"jobs":[{"id":"a","id":"b"}]}"#, &["b"]),
        (br#"{"jobs":[{"id":"a"}],"jobs":[{"id":"b"}]}"#, &["a", "b"]),
        (br#"{"jobs":null}"#, &[]),
        (b"<html>", &["Failed(NotFromBackend)"]),
        (deep_job.as_bytes(), &["Failed(Unanswered)"]),
        (deep_whole.as_bytes(), &["a"]),
        (&vec![b'['; 1 << 20], &["Failed(NotFromBackend)"]),
        (&deep("{\"jobs\":").into_bytes(), &["Failed(Unanswered)"]),
    ];
    for (body, expected) in cases {
        let start = String::from_utf8_lossy(body.get(..60.min(body.len())).unwrap()).into_owned();
        assert_eq!(ids(&reply_to_bytes(fetch(1), &ok(body))), expected, "{start}");
        let is_object = !expected.iter().any(|answer| answer.starts_with("Failed"));
        for call in [beat(), register(), ack("a")] {
            // An answer to a report that is longer than we read counts by how it begins.
            let is_long_report = matches!(call, Call::Report { .. }) && body.len() > 64 << 10 && body.starts_with(b"{");
            let is_cut_off = !matches!(call, Call::Report { .. }) && body.len() > MOST_READ && body.starts_with(b"{");
            let expected = if is_object || is_long_report {
                fine(&call)
            } else if is_cut_off {
                UNANSWERED
            } else {
                failed(Failure::NotFromBackend)
            };
            assert_eq!(reply_to_bytes(call, &ok(body)), expected, "{start}");
        }
        let of_look = if is_object || (body.len() > MOST_READ && body.starts_with(b"{")) {
            UNANSWERED
        } else {
            failed(Failure::NotFromBackend)
        };
        assert_eq!(reply_to_bytes(look("a"), &ok(body)), of_look, "{start}");
    }
    for opening in ["{\"error\":", "{\"details\":", "["] {
        let refusal = [b"HTTP/1.1 409 Conflict\r\n\r\n".as_slice(), deep(opening).as_bytes()].concat();
        let unsaid = Failure::Conflict { was_sent_twice: false };
        assert_eq!(reply_to_bytes(ack("a"), &refusal), failed(unsaid));
    }
}

#[test]
fn an_encoding_that_nobody_asked_for_is_not_decoded() {
    let packed = with_headers(
        "Content-Encoding: gzip\r\n",
        b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xab\xae\x05\0\x43\xbf\xa6\xa3\x02\0\0\0",
    );
    assert_eq!(reply_to_bytes(fetch(1), &packed), failed(Failure::NotFromBackend));
    assert_eq!(reply_to_bytes(ack("a"), &packed), failed(Failure::NotFromBackend));
}

#[test]
fn what_trickles_in_without_an_end_is_given_up_in_time() {
    let trickle = |start: &'static str, drop: &'static str| {
        move |stream: &mut TcpStream| {
            stream.write_all(start.as_bytes())?;
            loop {
                stream.write_all(drop.as_bytes())?;
                wait::pause(Duration::from_millis(5));
            }
        }
    };
    for (start, drop, of_fetch, of_ack) in [
        ("", "H", UNANSWERED, UNANSWERED),
        ("HTTP/1.1 200 OK\r\n", "a: b\r\n", UNANSWERED, UNANSWERED),
        ("", "HTTP/1.1 100 Continue\r\n\r\n", UNANSWERED, UNANSWERED),
        ("HTTP/1.1 200 OK\r\n\r\n", " ", UNANSWERED, UNANSWERED),
        ("HTTP/1.1 200 OK\r\n\r\n{", " ", UNANSWERED, Reply::Accepted),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "1\r\n \r\n",
            UNANSWERED,
            UNANSWERED,
        ),
    ] {
        assert_eq!(
            reply_to(fetch(1), SHORT, trickle(start, drop)),
            of_fetch,
            "{start:?} {drop:?}"
        );
        assert_eq!(
            reply_to(ack("a"), SHORT, trickle(start, drop)),
            of_ack,
            "{start:?} {drop:?}"
        );
    }
}

#[test]
fn what_floods_in_without_an_end_is_read_to_its_bound_only() {
    for (start, drop) in [
        ("HTTP/1.1 200 OK\r\n\r\n", "          "),
        ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "          "),
        ("HTTP/1.1 200 OK\r\nX: ", "xxxxxxxxxx"),
        ("", "HTTP/1.1 100 Continue\r\n\r\n"),
    ] {
        for call in [beat(), fetch(1), ack("a")] {
            let taken = Arc::new(AtomicU64::new(0));
            let count = Arc::clone(&taken);
            let reply = reply_to(call.clone(), SHORT, move |stream| {
                let much = drop.repeat(6000);
                stream.write_all(start.as_bytes())?;
                while count.load(Ordering::SeqCst) < MUCH {
                    stream.write_all(much.as_bytes())?;
                    count.fetch_add(much.len() as u64, Ordering::SeqCst);
                }
                Err(io::ErrorKind::ConnectionAborted.into())
            });
            let is_plausible =
                matches!(reply, Reply::Failed(Failure::Unanswered) | Reply::Accepted) || reply == fine(&call);
            assert!(is_plausible, "{call:?}: {reply:?}");
            let taken = taken.load(Ordering::SeqCst);
            assert!(taken < ON_THE_WAY, "{call:?}, {start:?}: {taken} bytes were taken");
        }
    }
}

#[test]
fn an_answer_behind_a_hundred_interim_ones_counts() {
    let interim = "HTTP/1.1 102 Processing\r\nX-Progress: some\r\n\r\n".repeat(100);
    let server = RawServer::start(move |stream, _| stream.write_all(&[interim.as_bytes(), FINE].concat()));
    let mut rig = Rig::new(settings(&server.url()));
    for call in [beat(), beat()] {
        assert_eq!(rig.ask(call.clone()), fine(&call));
    }
}

#[test]
fn an_answer_before_the_request_was_read_counts() {
    // 413 and the like come early; a proxy then reads on for a while.
    let server = RawServer::start_reading(Part::Head, |stream, _| {
        stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
        io::copy(stream, &mut io::sink())?;
        Ok(())
    });
    assert_eq!(
        Rig::new(settings(&server.url())).ask(large_ack(3 << 20)),
        failed(Failure::Refused)
    );
}

#[test]
fn every_endpoint_survives_every_status() {
    let server = RawServer::start(|stream, asked| {
        let status = asked.line.len() % 7 * 100;
        stream.write_all(format!("HTTP/1.1 {status:03} X\r\nRetry-After: x\r\nContent-Length: 1\r\n\r\n\"").as_bytes())
    });
    let mut rig = Rig::new(settings(&server.url()));
    for (endpoint, call) in one_of_each() {
        assert!(endpoint != Endpoint::Other);
        rig.ask(call);
    }
    assert!(!LOG.lock().unwrap().contains("internal error"));
}

#[test]
fn an_outcome_is_answered_although_the_end_of_a_long_answer_to_it_is_late() {
    let server = RawServer::start(|stream: &mut TcpStream, _: &Asked| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n{")?;
        stream.write_all(&[b' '; 100_000])?;
        // Until ojs-init hangs up.
        let _ = stream.read(&mut [0]);
        Ok(())
    });
    let mut rig = Rig::new(settings(&server.url()));
    let began = wait::now();
    rig.send(ack("a"), PATIENCE);
    assert_eq!(rig.next().1, Reply::Accepted);
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
}
