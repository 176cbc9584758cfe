//! Requests of others pass through untouched and in pieces, and take nothing from ours.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use ojs_init::daemon::backend::tunnel::{TunnelFailureKind, TunnelId};
use ojs_init::daemon::backend::tunnels::{MOST_READING_TUNNELS, MOST_TUNNELS, MOST_WAITING_TUNNELS};
use ojs_lifecycle::api::Reply;
use ojs_wire::http::tunnel::TunnelBody;

use crate::raw_server::read_head;
use crate::rig::{PATIENCE, SHORT, TOKEN, beat, settings};
use crate::support::wait;
use crate::tunnel_rig::{Passed, Server, TunnelRig, get, request};

const FINE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

/// More than any buffer on the way.
const MUCH: usize = 64 << 20;

/// Bytes that the system may have on their way between two sockets.
const ON_THE_WAY: u64 = 16 << 20;

/// The lines of a request's head; `None`: there is no request any more.
fn head_lines(reader: &mut impl BufRead) -> io::Result<Option<Vec<String>>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if line == "\r\n" {
            return Ok(Some(lines));
        }
        lines.push(line.trim_end().to_owned());
    }
}

/// Answers each request with these bytes; the connection stays open.
fn answering(answer: impl Into<Vec<u8>>) -> Server {
    let answer = answer.into();
    Server::start(move |stream, _| {
        let mut reader = BufReader::new(stream);
        while read_head(&mut reader)?.is_some() {
            reader.get_mut().write_all(&answer)?;
        }
        Ok(())
    })
}

/// The result of a GET that is answered with these bytes, after which the connection is closed.
fn answered_with(bytes: &[u8]) -> Passed {
    let bytes = bytes.to_vec();
    let server = Server::start(move |stream, _| {
        let mut reader = BufReader::new(stream);
        read_head(&mut reader)?;
        reader.get_mut().write_all(&bytes)
    });
    TunnelRig::of(&server).pass(get("/"), b"")
}

#[test]
fn a_request_and_its_answer_pass_through_and_the_token_is_ours() {
    let (heads, seen) = channel();
    let server = Server::start(move |stream, _| {
        let mut reader = BufReader::new(stream);
        while let Some(head) = head_lines(&mut reader)? {
            let mut body = [0; 5];
            reader.read_exact(&mut body)?;
            heads.send((head, body)).unwrap();
            reader.get_mut().write_all(
                b"HTTP/1.1 201 Made\r\nX-B: 1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
            )?;
        }
        Ok(())
    });
    let mut rig = TunnelRig::new(settings(&format!("{}/prefix", server.url())));
    for _ in 0..2 {
        let passed = rig.pass(request("POST", "/ojs/v1/jobs?a=b", TunnelBody::Length(5)), b"12345");
        assert_eq!(passed.failure(), None);
        let head = passed.head.unwrap();
        assert_eq!(
            (head.status, head.reason.as_str(), head.body),
            (201, "Made", TunnelBody::Chunked)
        );
        assert_eq!(head.headers.as_bytes(), b"X-B: 1\r\n");
        assert_eq!(passed.body, b"abcde");
        let (lines, body) = seen.recv_timeout(PATIENCE).unwrap();
        assert_eq!(
            (lines[0].as_str(), &body),
            ("POST /prefix/ojs/v1/jobs?a=b HTTP/1.1", b"12345")
        );
        let count = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
        assert_eq!(
            [count("Host: "), count("Authorization: "), count("X-Of-The-Worker: 1")],
            [1, 1, 1],
            "{lines:?}"
        );
        assert!(lines.contains(&format!("Authorization: Bearer {TOKEN}")), "{lines:?}");
        assert!(lines.iter().any(|line| line == "X-OJS-Tenant: acme"), "{lines:?}");
    }
    assert_eq!(server.accepted(), 1, "the connection is kept");
}

#[test]
fn a_body_in_chunks_arrives_as_it_was_sent() {
    let (bodies, seen) = channel();
    let server = Server::start(move |stream, _| {
        let mut reader = BufReader::new(stream);
        assert!(
            head_lines(&mut reader)?
                .unwrap()
                .contains(&"Transfer-Encoding: chunked".to_owned())
        );
        bodies.send(read_chunks(&mut reader)?).unwrap();
        reader.get_mut().write_all(FINE)
    });
    let body: Vec<u8> = (0..1_000_000_u32).map(|number| number as u8).collect();
    let passed = TunnelRig::of(&server).pass(request("POST", "/", TunnelBody::Chunked), &body);
    assert_eq!(passed.failure(), None);
    assert!(seen.recv_timeout(PATIENCE).unwrap() == body, "another body");
}

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let size = usize::from_str_radix(line.trim_end(), 16).map_err(io::Error::other)?;
        let mut chunk = vec![0; size + 2];
        reader.read_exact(&mut chunk)?;
        if size == 0 {
            return Ok(body);
        }
        body.extend_from_slice(&chunk[..size]);
    }
}

#[test]
fn a_large_body_passes_in_both_directions_at_once_and_never_is_in_memory() {
    let server = Server::start(|stream, _| {
        let mut reader = BufReader::new(stream.try_clone()?);
        let (_, length) = read_head(&mut reader)?.unwrap();
        (&stream).write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").as_bytes())?;
        io::copy(&mut reader.take(length), &mut &stream).map(drop)
    });
    let mut rig = TunnelRig::of(&server);
    let id = rig.open(request("PUT", "/", TunnelBody::Length(MUCH as u64)));
    let piece = vec![b'x'; 200_000];
    let (mut offered, mut came) = (0, 0);
    rig.until(|rig| {
        let rest = piece.len().min(MUCH - offered);
        offered += rig.backend.tunnels.offer(TunnelId(id), &piece[..rest]);
        came += std::mem::take(&mut rig.passed.get_mut(&id).unwrap().body).len();
        rig.passed[&id].end.is_some()
    });
    assert_eq!((offered, came, rig.passed[&id].failure()), (MUCH, MUCH, None));
}

#[test]
fn who_does_not_take_the_answer_holds_up_the_backend_and_who_does_not_take_the_request_its_sender() {
    let written = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&written);
    let server = Server::start(move |mut stream, _| {
        stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {MUCH}\r\n\r\n").as_bytes())?;
        for _ in 0..MUCH / 4096 {
            stream.write_all(&[b'y'; 4096])?;
            counter.fetch_add(4096, Ordering::SeqCst);
        }
        // Nothing is ever read of the request.
        wait::pause(PATIENCE);
        Ok(())
    });
    let mut rig = TunnelRig::of(&server);
    rig.takes = false;
    let id = rig.open(request("POST", "/", TunnelBody::Chunked));
    let piece = vec![b'x'; 1 << 20];
    let (mut offered, mut quiet_since) = (0_u64, (0, wait::now()));
    rig.until(|rig| {
        let taken = rig.backend.tunnels.offer(TunnelId(id), &piece) as u64;
        offered += taken;
        let now = offered + written.load(Ordering::SeqCst);
        if now > quiet_since.0 {
            quiet_since = (now, wait::now());
        }
        quiet_since.1.elapsed() > SHORT && rig.passed[&id].head.is_some()
    });
    assert!(offered < ON_THE_WAY, "{offered} bytes were taken");
    assert!(written.load(Ordering::SeqCst) < ON_THE_WAY);
    rig.passed.get_mut(&id).unwrap().has_room = false;
    rig.takes = true;
    let mut came = 0;
    rig.until(|rig| {
        came += std::mem::take(&mut rig.passed.get_mut(&id).unwrap().body).len();
        rig.passed[&id].end.is_some()
    });
    assert_eq!(
        (came, rig.passed[&id].failure()),
        (MUCH, None),
        "who takes it gets all of it"
    );
}

#[test]
fn an_answer_without_a_body_has_none_whatever_it_says() {
    for (method, answer, length) in [
        ("HEAD", "200 OK\r\nContent-Length: 700", Some("700")),
        ("HEAD", "200 OK\r\nTransfer-Encoding: chunked", None),
        ("GET", "204 No Content", None),
        ("GET", "304 Not Modified\r\nContent-Length: 9", Some("9")),
    ] {
        let server = answering(format!("HTTP/1.1 {answer}\r\n\r\n"));
        let mut rig = TunnelRig::of(&server);
        for _ in 0..2 {
            let passed = rig.pass(request(method, "/", TunnelBody::None), b"");
            assert_eq!((passed.failure(), passed.body.len()), (None, 0), "{method} {answer}");
            let head = passed.head.unwrap();
            assert_eq!(head.body, TunnelBody::None, "{method} {answer}");
            let found = head.headers.value("Content-Length");
            assert_eq!(found, length.map(str::as_bytes), "{method} {answer}");
        }
        assert_eq!(server.accepted(), 1, "{method} {answer}");
    }
}

#[test]
fn interim_answers_are_not_the_answer_and_another_protocol_is_none() {
    let early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let passed = answered_with(early);
    assert_eq!(
        (passed.failure(), passed.status(), passed.body.as_slice()),
        (None, 200, &b"ok"[..])
    );
    let other = answered_with(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n");
    assert!(other.failure().is_some() && other.head.is_none());
}

#[test]
fn an_answer_that_ends_with_its_connection_is_whole_and_one_that_breaks_off_is_known_to() {
    let whole = answered_with(b"HTTP/1.1 200 OK\r\n\r\nto the end");
    assert_eq!((whole.failure(), whole.body.as_slice()), (None, &b"to the end"[..]));
    assert_eq!(whole.head.unwrap().body, TunnelBody::Chunked);
    for cut_off in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nto the"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nto the\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nto the\r\nxyz\r\n",
    ] {
        let passed = answered_with(cut_off);
        assert_eq!(
            (passed.failure(), passed.status()),
            (Some(TunnelFailureKind::BrokenOff), 200)
        );
    }
    for nothing in [
        &b""[..],
        b"HTTP/1.1 200",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nA: b",
    ] {
        let passed = answered_with(nothing);
        assert_eq!(
            (passed.failure(), passed.head),
            (Some(TunnelFailureKind::Unanswered), None)
        );
    }
}

#[test]
fn a_connection_that_is_reset_at_any_byte_is_told_for_what_it_is() {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let head = ANSWER.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let server = Server::start(move |stream, number| {
        let mut reader = BufReader::new(stream);
        read_head(&mut reader)?;
        let stream = reader.get_mut();
        stream.write_all(&ANSWER[..(number - 1).min(ANSWER.len())])?;
        stream.shutdown(Shutdown::Write)
    });
    let mut rig = TunnelRig::of(&server);
    for sent in 0..=ANSWER.len() {
        let passed = rig.pass(get("/"), b"");
        let expected = match sent {
            _ if sent < head => Some(TunnelFailureKind::Unanswered),
            _ if sent < ANSWER.len() => Some(TunnelFailureKind::BrokenOff),
            _ => None,
        };
        // The very end of a body may be understood before its last byte.
        let is_nearly_whole = sent + 4 >= ANSWER.len() && passed.failure().is_none();
        assert!(passed.failure() == expected || is_nearly_whole, "{sent}: {passed:?}");
        assert!(b"hello".starts_with(&passed.body), "{sent}: {passed:?}");
    }
}

#[test]
fn more_than_an_answer_said_is_no_answer_to_the_next_request() {
    let server =
        answering(*b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
    let mut rig = TunnelRig::of(&server);
    for connections in 1..=3 {
        assert_eq!(rig.pass(get("/"), b"").body, b"{}");
        assert_eq!(server.accepted(), connections);
    }
}

#[test]
fn who_is_answered_early_need_not_send_the_rest() {
    let server = Server::start(|mut stream, _| {
        let mut some = [0; 1000];
        stream.read_exact(&mut some)?;
        stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")?;
        wait::pause(SHORT);
        Ok(())
    });
    let mut rig = TunnelRig::of(&server);
    let passed = rig.pass(request("POST", "/", TunnelBody::Length(MUCH as u64)), &vec![b'x'; MUCH]);
    assert_eq!(
        (passed.failure(), passed.status(), passed.body.as_slice()),
        (None, 413, &b"no"[..])
    );
    let passed = rig.pass(request("POST", "/", TunnelBody::Length(2000)), &[b'x'; 2000]);
    assert_eq!(passed.status(), 413);
    assert_eq!(server.accepted(), 2, "its connection is not used again");
}

#[test]
fn a_body_that_is_shorter_than_it_said_is_told_and_its_connection_reset() {
    let (ends, seen) = channel();
    let server = Server::start(move |stream, _| watch_end(stream, &ends));
    let mut rig = TunnelRig::of(&server);
    let passed = rig.pass(request("POST", "/", TunnelBody::Length(10)), b"12345");
    assert_eq!(passed.failure(), Some(TunnelFailureKind::NotWhole));
    let id = rig.open(request("POST", "/", TunnelBody::Length(10)));
    rig.until(|_| server.accepted() > 0);
    rig.backend.tunnels.offer(TunnelId(id), b"12345");
    rig.until_time(wait::now() + Duration::from_millis(50));
    rig.backend.tunnels.body_done(TunnelId(id));
    assert!(rig.end_of(id).failure().is_some());
    assert_eq!(
        seen.recv_timeout(PATIENCE).unwrap(),
        Some(io::ErrorKind::ConnectionReset)
    );
}

/// Reads until the end, and tells how it was.
fn watch_end(mut stream: TcpStream, ends: &Sender<Option<io::ErrorKind>>) -> io::Result<()> {
    let end = io::copy(&mut stream, &mut io::sink()).err().map(|error| error.kind());
    ends.send(end).map_err(io::Error::other)
}

#[test]
fn a_client_that_goes_resets_the_connection_and_nothing_more_is_told() {
    let (ends, seen) = channel();
    let server = Server::start(move |mut stream, _| {
        let mut some = [0; 10];
        stream.read_exact(&mut some)?;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome")?;
        watch_end(stream, &ends)
    });
    let mut rig = TunnelRig::of(&server);
    let id = rig.open(get("/"));
    rig.until(|rig| rig.passed[&id].body == b"some");
    rig.backend.tunnels.close(TunnelId(id));
    assert_eq!(
        seen.recv_timeout(PATIENCE).unwrap(),
        Some(io::ErrorKind::ConnectionReset)
    );
    rig.until_time(wait::now() + Duration::from_millis(50));
    assert_eq!(rig.passed[&id].end, None);
    assert!(rig.backend.tunnels.body(TunnelId(id)).is_empty());
}

/// Serves one request on its first connection and then closes it, and all on those that follow.
fn closing_the_first() -> Server {
    Server::start(|stream, number| {
        let mut reader = BufReader::new(stream);
        while let Some((_, length)) = read_head(&mut reader)? {
            crate::raw_server::skip(&mut reader, length)?;
            reader
                .get_mut()
                .write_all(b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\n{}")?;
            if number == 1 {
                read_head(&mut reader)?;
                return Ok(());
            }
        }
        Ok(())
    })
}

#[test]
fn what_may_come_twice_is_repeated_when_a_kept_connection_closes_under_it() {
    let server = closing_the_first();
    let mut rig = TunnelRig::of(&server);
    for _ in 0..2 {
        assert_eq!(rig.pass(get("/"), b"").failure(), None);
    }
    assert_eq!(server.accepted(), 2);
}

#[test]
fn what_may_not_come_twice_never_goes_out_on_a_connection_that_may_just_be_closing() {
    let server = closing_the_first();
    let mut rig = TunnelRig::of(&server);
    // A second is what this backend keeps a connection for, and a second is taken off.
    for connections in 1..=3 {
        let passed = rig.pass(request("POST", "/", TunnelBody::Length(2)), b"{}");
        assert_eq!((passed.failure(), server.accepted()), (None, connections));
    }
}

/// Answers everything but what asks for `/hangs`.
fn hanging() -> Server {
    Server::start(|stream, _| {
        let mut reader = BufReader::new(stream);
        while let Some((line, length)) = read_head(&mut reader)? {
            crate::raw_server::skip(&mut reader, length)?;
            if line.contains("/hangs") {
                wait::pause(PATIENCE);
            }
            reader.get_mut().write_all(FINE)?;
        }
        Ok(())
    })
}

#[test]
fn an_abandoned_request_gives_way_to_a_request_that_may_have_its_place_and_to_no_other() {
    let server = hanging();
    let mut rig = TunnelRig::of(&server);
    let _reads = [0; MOST_READING_TUNNELS].map(|_| rig.open(get("/hangs")));
    let change = || request("POST", "/hangs", TunnelBody::None);
    let left = [0; MOST_TUNNELS - MOST_READING_TUNNELS].map(|_| rig.open(change()));
    rig.until(|_| server.accepted() == MOST_TUNNELS);
    rig.abandon(left[0]);
    rig.open(get("/hangs"));
    rig.abandon(left[1]);
    rig.pump();
    assert!(left.iter().all(|id| rig.passed[id].end.is_none()));
    rig.open(change());
    assert_eq!(rig.end_of(left[0]).failure(), Some(TunnelFailureKind::Overloaded));
    assert!(rig.passed[&left[1]].end.is_none());
}

#[test]
fn there_is_a_bound_and_neither_those_under_way_nor_those_that_wait_hold_up_a_heartbeat() {
    let server = hanging();
    let mut rig = TunnelRig::of(&server);
    let hanging: Vec<u64> = (0..MOST_READING_TUNNELS).map(|_| rig.open(get("/hangs"))).collect();
    let waiting: Vec<u64> = (0..MOST_WAITING_TUNNELS).map(|_| rig.open(get("/"))).collect();
    let too_many = rig.open(get("/"));
    assert_eq!(rig.end_of(too_many).failure(), Some(TunnelFailureKind::Overloaded));
    rig.until(|_| server.accepted() == MOST_READING_TUNNELS);
    rig.send(beat());
    rig.until(|rig| !rig.replies.is_empty());
    assert!(matches!(rig.replies[..], [Reply::HeartbeatOk { .. }]));
    assert!(waiting.iter().all(|id| rig.passed[id].head.is_none()), "they wait");
    rig.backend.tunnels.close(TunnelId(hanging[0]));
    for id in waiting {
        assert_eq!(rig.end_of(id).failure(), None);
    }
}

#[test]
fn what_waits_for_its_turn_takes_nothing_of_its_body_and_all_of_it_when_it_has_come() {
    let server = hanging();
    let mut rig = TunnelRig::of(&server);
    let hanging = [0; MOST_TUNNELS].map(|_| rig.open(request("POST", "/hangs", TunnelBody::None)));
    let waiting = rig.open(request("POST", "/", TunnelBody::Length(5)));
    assert_eq!(rig.backend.tunnels.offer(TunnelId(waiting), b"12345"), 0);
    rig.backend.tunnels.close(TunnelId(hanging[0]));
    rig.until(|rig| rig.passed[&waiting].has_room);
    rig.offer_all(waiting, &mut b"12345".as_slice());
    assert_eq!(rig.end_of(waiting).failure(), None);
}

#[test]
fn a_backend_that_is_not_there_has_got_nothing() {
    let listener = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let passed = TunnelRig::new(settings(&url)).pass(get("/"), b"");
    assert_eq!(passed.failure(), Some(TunnelFailureKind::NotSent));
}

#[test]
fn what_takes_no_connection_in_time_has_got_nothing() {
    // The line of those that want in is full: what comes now is dropped.
    let socket = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
    let address = socket.local_addr().unwrap();
    nix::sys::socket::listen(&socket, nix::sys::socket::Backlog::new(0).unwrap()).unwrap();
    let _inside: Vec<TcpStream> = std::iter::from_fn(|| TcpStream::connect_timeout(&address, SHORT).ok()).collect();
    let mut settings = settings(&format!("http://{address}"));
    settings.backend.connect_timeout = SHORT;
    let passed = TunnelRig::new(settings).pass(get("/"), b"");
    assert_eq!(passed.failure(), Some(TunnelFailureKind::NotSent));
}
