//! Streams of events: what they tell, and that whatever is on the other side costs no more than its
//! bounds.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ojs_lifecycle::api::{Call, Failure, Reply, StreamNews, StreamTopic};

use crate::raw_server::{Asked, RawServer};
use crate::rig::*;
use crate::support::wait::{self, wait_until};

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

const AVAILABLE: &str =
    "id: 1\nevent: job.state_changed\ndata: {\"job_id\":\"a\",\"queue\":\"default\",\"to\":\"available\"}\n\n";

const CANCELLED: &str = "event: job.state_changed\r\ndata: {\"to\":\"cancelled\",\"job_id\":\"a\"}\r\n\r\n";

/// How long a peer keeps connections that are idle. Two ends are then further apart than those of a
/// server that leaves.
const IDLE_LIMIT: Duration = Duration::from_millis(1_200);

/// More bytes than any stream may tell at once.
const MUCH: u64 = 64 << 20;

/// Bytes that a stream may tell before it is closed, with those on their way between two sockets,
/// in bytes.
const MOST_READ: u64 = 16 << 20;

fn listen() -> Call {
    Call::Listen {
        topic: StreamTopic::Queue("default".into()),
    }
}

/// A server that does this with the request for a stream, and answers all others.
fn server(stream: impl Fn(&mut TcpStream) -> io::Result<()> + Send + Sync + 'static) -> RawServer {
    server_that_answers(stream, |connection| {
        connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    })
}

/// A server that does the one with the request for a stream, and the other with all others.
fn server_that_answers(
    stream: impl Fn(&mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
    others: impl Fn(&mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
) -> RawServer {
    RawServer::start(move |connection: &mut TcpStream, asked: &Asked| {
        if asked.line.contains("/events") {
            stream(connection)
        } else {
            others(connection)
        }
    })
}

/// One that answers it with these bytes, and hangs up.
fn answers(bytes: impl Into<Vec<u8>>) -> RawServer {
    let bytes = bytes.into();
    server(move |connection| {
        connection.write_all(&bytes)?;
        Err(io::ErrorKind::ConnectionAborted.into())
    })
}

fn chunked(pieces: &[&str]) -> String {
    let chunks = pieces.iter().map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len()));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream;charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";
    head.to_owned() + &chunks.collect::<String>()
}

/// News of a stream, in its order, and what it ends with.
fn told(server: &RawServer) -> (Vec<StreamNews>, Reply) {
    let mut rig = Rig::new(settings(&server.url()));
    let id = rig.send(listen(), PATIENCE);
    let (ended, reply) = rig.next();
    assert_eq!(ended, id);
    let news = rig.news.try_iter().map(|(of, news)| {
        assert_eq!(of, id);
        news
    });
    (news.collect(), reply)
}

#[test]
fn a_stream_tells_of_jobs_until_it_ends_however_it_is_cut() {
    let expected = [
        StreamNews::Opened,
        StreamNews::JobAvailable {
            job: Some(job("a")),
            came_due: false,
        },
        StreamNews::JobCancelled(job("a")),
    ];
    let text = format!("retry: 3000\n\n:heartbeat\n\n{AVAILABLE}{CANCELLED}");
    let bytes: Vec<&str> = (0..text.len()).map(|at| &text[at..=at]).collect();
    for answer in [
        format!("{HEAD}{text}"),
        chunked(&[&text]),
        chunked(&bytes) + "0\r\n\r\n",
        format!("HTTP/1.1 103 X\r\n\r\n{HEAD}{text}"),
    ] {
        let (news, end) = told(&answers(answer.as_bytes()));
        assert_eq!(
            (news.as_slice(), end),
            (&expected[..], failed(Failure::Unanswered)),
            "{answer}"
        );
    }
}

#[test]
fn a_stream_is_asked_for_with_its_type_where_the_queue_is() {
    let backend = crate::backend::Backend::start();
    let mut rig = Rig::of(&backend);
    assert_eq!(rig.ask(listen()), failed(Failure::NotFound));
    let queues = vec!["a".into(), "b/c".into()];
    let topic = StreamTopic::Queues(queues);
    assert_eq!(rig.ask(Call::Listen { topic }), failed(Failure::NotFound));
    let records = backend.records();
    let asked = records
        .iter()
        .map(|record| (record.request.path.as_str(), record.request.header("accept")));
    let accept = Some("text/event-stream");
    let expected = [
        ("/ojs/v1/queues/default/events", accept),
        ("/ojs/v1/events?queues=a,b%2Fc", accept),
    ];
    assert_eq!(asked.collect::<Vec<_>>(), expected);
    assert_eq!(records[0].request.header("authorization"), Some("Bearer hunter2-token"));
}

#[test]
fn what_is_no_stream_says_why_there_is_none() {
    let json = |status: u16, body: &str| {
        format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let error = r#"{"error":{"code":"not_found","message":"no"}}"#;
    let page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<html></html>";
    for (answer, failure) in [
        (json(404, error), Failure::NotFound),
        (json(404, "404 page not found"), Failure::Unsupported),
        (json(405, ""), Failure::Unsupported),
        (json(501, ""), Failure::Unsupported),
        (json(401, "{}"), Failure::Unauthorized),
        (json(403, "{}"), Failure::Unauthorized),
        (json(400, "{}"), Failure::Refused),
        (json(500, "{}"), Failure::ServerError),
        (json(503, "{}"), Failure::RetryLater { retry_after: None }),
        (json(302, ""), Failure::Redirected),
        (json(200, "{}"), Failure::NotFromBackend),
        (json(204, ""), Failure::NotFromBackend),
        (page.to_owned(), Failure::NotFromBackend),
        (String::new(), Failure::Unanswered),
        ("HTTP/1.1 200 OK\r\nContent-Ty".to_owned(), Failure::Unanswered),
    ] {
        assert_eq!(told(&answers(answer.as_bytes())), (vec![], failed(failure)), "{answer}");
    }
    let mut rig = Rig::new(settings("http://127.0.0.1:1"));
    assert_eq!(rig.ask(listen()), failed(Failure::NotSent));
}

#[test]
fn a_stream_of_which_not_even_the_head_comes_is_given_up_in_time() {
    let server = server(|_| Ok(()));
    let mut rig = Rig::new(settings(&server.url()));
    let latest = wait::now() + SHORT + SLACK;
    rig.send(listen(), SHORT);
    let (_, reply, at) = rig.answers.recv_timeout(PATIENCE).unwrap();
    assert_eq!(reply, failed(Failure::Unanswered));
    assert!(at < latest, "too late");
}

#[test]
fn a_stream_that_is_there_outlasts_the_time_of_a_request_and_is_closed_when_it_is_given_up() {
    let server = server(|connection| connection.write_all(HEAD.as_bytes()));
    let mut rig = Rig::new(settings(&server.url()));
    let id = rig.send(listen(), SHORT);
    assert_eq!(rig.news.recv_timeout(PATIENCE).unwrap(), (id, StreamNews::Opened));
    // In the time that a request has it does not end.
    assert!(rig.answers.recv_timeout(2 * SHORT).is_err());
    assert_eq!(server.ended(), 0);
    rig.abandon(id);
    assert_eq!(rig.next(), (id, failed(Failure::Unanswered)));
    assert!(wait_until(PATIENCE, || server.ended() > 0), "its connection is closed");
}

#[test]
fn streams_delay_no_other_request_and_have_connections_of_their_own() {
    let server = server(|connection| connection.write_all(HEAD.as_bytes()));
    let mut rig = Rig::new(settings(&server.url()));
    assert!(matches!(rig.ask(beat()), Reply::HeartbeatOk { .. }));
    for _ in 0..17 {
        rig.send(listen(), PATIENCE);
    }
    for _ in 0..17 {
        assert_eq!(rig.news.recv_timeout(PATIENCE).unwrap().1, StreamNews::Opened);
    }
    assert_eq!(rig.ask(listen()), failed(Failure::Overloaded), "there is a bound");
    assert!(matches!(rig.ask(beat()), Reply::HeartbeatOk { .. }));
    assert_eq!(rig.ask(fetch(1)), Reply::Fetched(vec![]));
    assert_eq!(rig.ask(ack("a")), Reply::Accepted);
    let asked = server.asked();
    let (streams, others): (Vec<&Asked>, Vec<&Asked>) = asked.iter().partition(|asked| asked.line.contains("/events"));
    let of_streams: std::collections::BTreeSet<usize> = streams.iter().map(|asked| asked.connection).collect();
    assert_eq!(of_streams.len(), 17);
    assert!(others.iter().all(|asked| !of_streams.contains(&asked.connection)));
}

#[test]
fn a_stream_that_floods_is_closed_before_it_costs_much() {
    let written = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&written);
    let server = server(move |connection| {
        connection.write_all(HEAD.as_bytes())?;
        let flood = AVAILABLE.repeat(500);
        while count.load(Ordering::Relaxed) < MUCH {
            connection.write_all(flood.as_bytes())?;
            count.fetch_add(flood.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    });
    let mut rig = Rig::new(settings(&server.url()));
    rig.send(listen(), PATIENCE);
    let flooded = rig.next().1;
    assert!(matches!(rig.ask(beat()), Reply::HeartbeatOk { .. }));
    assert_eq!(flooded, failed(Failure::Overloaded));
    assert!(wait_until(PATIENCE, || server.ended() > 0));
    assert!(written.load(Ordering::Relaxed) < MOST_READ);
    let news: Vec<StreamNews> = rig.news.try_iter().map(|(_, news)| news).collect();
    assert!(
        news.len() <= 10,
        "what is told a thousand times is told a few times: {}",
        news.len()
    );
}

#[test]
fn half_a_line_a_huge_event_and_a_line_without_an_end_tell_nothing() {
    let opened = vec![StreamNews::Opened];
    let half = &AVAILABLE[..AVAILABLE.len() - 2];
    let huge = format!("event: job_available\ndata: {}\n\n", "x".repeat(100 << 10));
    for text in [half.to_owned(), huge, "data: ".to_owned() + &"x".repeat(200 << 10)] {
        let answer = format!("{HEAD}{text}");
        assert_eq!(told(&answers(answer)), (opened.clone(), failed(Failure::Unanswered)));
    }
    let endless = format!("{HEAD}{}", "x".repeat(1 << 20));
    assert_eq!(told(&answers(endless)), (opened, failed(Failure::Overloaded)));
}

#[test]
fn what_others_are_answered_is_no_stream_whatever_it_says() {
    let server = RawServer::start(|connection: &mut TcpStream, _: &Asked| {
        connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 2\r\n\r\n{}")
    });
    let mut rig = Rig::new(settings(&server.url()));
    assert!(matches!(rig.ask(beat()), Reply::HeartbeatOk { .. }));
    assert_eq!(rig.ask(ack("a")), Reply::Accepted);
    assert!(rig.news.try_recv().is_err());
}

#[test]
fn a_peer_that_closes_what_is_idle_sooner_than_is_usual_ends_no_stream_for_that_a_second_time() {
    let server = server_that_answers(
        |connection| connection.write_all(HEAD.as_bytes()),
        |connection| {
            connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")?;
            connection.set_read_timeout(Some(IDLE_LIMIT))
        },
    );
    let mut rig = Rig::new(settings(&server.url()));
    let id = rig.send(listen(), PATIENCE);
    assert_eq!(rig.news.recv_timeout(PATIENCE).unwrap(), (id, StreamNews::Opened));
    assert!(matches!(rig.ask(beat()), Reply::HeartbeatOk { .. }));
    // Nothing tells this end from that of a server that leaves.
    assert_eq!(
        rig.news.recv_timeout(PATIENCE).unwrap(),
        (id, StreamNews::BackendLeaves)
    );
    for ended in 2..4 {
        assert!(matches!(rig.ask(beat()), Reply::HeartbeatOk { .. }));
        assert!(wait_until(PATIENCE, || server.ended() == ended));
    }
    // The end was noticed, so this request has another connection.
    assert!(matches!(rig.ask(beat()), Reply::HeartbeatOk { .. }));
    assert_eq!(rig.news.try_iter().collect::<Vec<_>>(), []);
}
