//! Connections that hang, in every way that one can: no heartbeat waits for them.

use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ojs_init::lifecycle::event::{Failure, Reply};

use crate::backend::{Backend, Behaviour, Endpoint};
use crate::lanes::*;
use crate::raw_server::{Asked, Part, RawServer, read_head, skip};
use crate::wait;

/// Between two heartbeats, and how much longer it may be at the backend on a busy machine.
const INTERVAL: Duration = Duration::from_millis(100);
const DELAY: Duration = Duration::from_millis(400);

const BEATS: usize = 10;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

/// Sends heartbeats at their interval, each of which must be answered before the next one; when each was answered.
fn beat_steadily(rig: &mut Rig, others: &[u64]) -> Vec<Instant> {
    let mut answered = Vec::new();
    for _ in 0..BEATS {
        let id = rig.send(beat(), PATIENCE);
        let at = loop {
            let (answer, reply, at) = rig.answers.recv_timeout(PATIENCE).unwrap();
            if answer == id {
                assert!(matches!(reply, Reply::Beaten { .. }), "{reply:?}");
                break at;
            }
            assert!(others.contains(&answer));
        };
        answered.push(at);
        wait::pause(INTERVAL);
    }
    answered
}

fn assert_steady(times: &[Instant]) {
    let longest = times
        .windows(2)
        .map(|pair| *pair.last().unwrap() - *pair.first().unwrap())
        .max();
    assert!(longest < Some(INTERVAL + DELAY), "between two heartbeats: {longest:?}");
}

#[test]
fn heartbeats_keep_their_interval_while_every_other_lane_waits_for_its_answer() {
    let backend = Backend::start();
    for endpoint in [
        Endpoint::Fetch,
        Endpoint::Ack,
        Endpoint::Nack,
        Endpoint::Progress,
        Endpoint::Job,
    ] {
        backend.always(endpoint, Behaviour::Hang);
    }
    let mut rig = Rig::of(&backend);
    let calls = [
        fetch(1),
        ack("a"),
        ack("b"),
        fail("c"),
        requeue("d"),
        look("e"),
        progress("f"),
        progress("g"),
    ];
    let hanging = calls.map(|call| rig.send(call, PATIENCE));
    beat_steadily(&mut rig, &hanging);
    let beats: Vec<Instant> = backend
        .records_of(Endpoint::Heartbeat)
        .iter()
        .map(|record| record.at)
        .collect();
    assert_eq!(beats.len(), BEATS);
    assert_steady(&beats);
}

#[test]
fn heartbeats_keep_their_interval_while_nobody_reads_what_the_other_lanes_send() {
    let server = RawServer::start_reading(Part::HeadUnlessBeat, |stream, asked| {
        if asked.is_beat() {
            return stream.write_all(ANSWER);
        }
        // Reads no further, and answers nothing, until the other side is gone.
        wait::wait_until(PATIENCE, || stream.take_error().map_or(true, |error| error.is_some()));
        Err(io::ErrorKind::ConnectionAborted.into())
    });
    let mut rig = Rig::new(settings(&server.url()));
    let patience = INTERVAL * 5;
    let large = rig.send(large_ack(32 << 20), patience);
    let hanging = [large, rig.send(fetch(1), PATIENCE), rig.send(progress("a"), PATIENCE)];
    assert_steady(&beat_steadily(&mut rig, &hanging));
    let again = rig.send(large_ack(32 << 20), SHORT);
    let (id, reply, _) = rig.answers.recv_timeout(PATIENCE).unwrap();
    assert_eq!(
        (id, reply),
        (again, failed(Failure::NotSent)),
        "its last byte never left"
    );
}

/// Answers on the first connection only, and counts; nobody ever takes a further one.
fn full_after_one() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answered = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&answered);
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // The shortest queue that the system has.
        nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(0).unwrap()).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Ok(Some((_, length))) = read_head(&mut reader) {
            skip(&mut reader, length).unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            stream.write_all(ANSWER).unwrap();
        }
        drop(listener);
    });
    (address, answered)
}

#[test]
fn heartbeats_keep_their_interval_while_no_new_connection_can_be_had() {
    let (address, answered) = full_after_one();
    let mut slow = settings(&format!("http://{address}"));
    slow.backend.connect_timeout = SHORT;
    let mut rig = Rig::new(slow);
    assert!(matches!(rig.ask(beat()), Reply::Beaten { .. }));
    // Whoever is queued is never taken.
    let queued: Vec<TcpStream> = std::iter::from_fn(|| TcpStream::connect_timeout(&address, SHORT).ok()).collect();
    let calls = [fetch(1), ack("a"), fail("b"), look("c"), progress("d")];
    let stuck = calls.map(|call| rig.send(call, PATIENCE));
    let times = beat_steadily(&mut rig, &stuck);
    assert_steady(&times);
    assert_eq!(answered.load(Ordering::SeqCst), BEATS + 1);
    // Each of the others was answered meanwhile, or is now.
    let latest = wait::now() + SHORT + SLACK;
    let again = rig.send(fetch(1), PATIENCE);
    loop {
        let (id, reply, at) = rig.answers.recv_timeout(PATIENCE).unwrap();
        assert_eq!(reply, failed(Failure::NotSent));
        if id == again {
            assert!(
                at < latest + INTERVAL * 20,
                "a connection that cannot be had is given up in time"
            );
            break;
        }
    }
}

#[test]
fn an_idle_connection_that_the_backend_closes_costs_no_request() {
    // Each connection takes one request, and is closed a moment after its answer, as by an impatient proxy.
    let server = RawServer::start(|stream: &mut TcpStream, _: &Asked| {
        stream.write_all(ANSWER)?;
        Err(io::ErrorKind::ConnectionAborted.into())
    });
    let mut rig = Rig::new(settings(&server.url()));
    for _ in 0..50 {
        assert_eq!(rig.ask(ack("a")), Reply::Accepted);
        wait::pause(Duration::from_millis(2));
    }
}

#[test]
fn a_request_is_never_repeated_behind_the_lifecycles_back() {
    // The connection is closed when the request was read: whether it was carried out is open.
    let server = RawServer::start(|stream, asked| {
        if asked.connection == 1 {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        stream.write_all(ANSWER)
    });
    let mut rig = Rig::new(settings(&server.url()));
    assert_eq!(rig.ask(fetch(1)), failed(Failure::Unanswered));
    assert_eq!(server.asked().len(), 1);
}
