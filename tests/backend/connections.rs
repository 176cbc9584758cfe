//! Connections that hang, in every way that one can: no heartbeat waits for them.

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use ojs_lifecycle::api::{Failure, Reply};

use crate::backend::{Backend, Behaviour, Endpoint};
use crate::raw_server::{Asked, Part, RawServer, read_head, skip};
use crate::rig::*;
use crate::support::wait;

/// Between two heartbeats, and how much longer it may be at the backend on a busy machine. What
/// hangs, hangs for longer.
const INTERVAL: Duration = Duration::from_millis(100);
const DELAY: Duration = Duration::from_secs(3);

const BEATS: usize = 10;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

/// Sends heartbeats at their interval, each of which must be answered before the next one; when
/// each was answered. Of `others` those stay that are not answered meanwhile.
fn beat_steadily(rig: &mut Rig, others: &mut Vec<u64>) -> Vec<Instant> {
    let mut answered = Vec::new();
    for _ in 0..BEATS {
        let id = rig.send(beat(), PATIENCE);
        let at = loop {
            let (answer, reply, at) = rig.answers.recv_timeout(PATIENCE).unwrap();
            if answer == id {
                assert!(matches!(reply, Reply::HeartbeatOk { .. }), "{reply:?}");
                break at;
            }
            assert!(others.contains(&answer));
            others.retain(|other| *other != answer);
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
fn heartbeats_keep_their_interval_while_every_other_request_waits_for_its_answer() {
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
    let mut hanging = calls.map(|call| rig.send(call, PATIENCE)).to_vec();
    beat_steadily(&mut rig, &mut hanging);
    let beats: Vec<Instant> = backend
        .records_of(Endpoint::Heartbeat)
        .iter()
        .map(|record| record.at)
        .collect();
    assert_eq!(beats.len(), BEATS);
    assert_steady(&beats);
}

#[test]
fn heartbeats_keep_their_interval_while_nobody_reads_the_other_requests() {
    let server = RawServer::start_reading(Part::HeadUnlessBeat, |stream, asked| {
        if asked.is_beat() {
            return stream.write_all(ANSWER);
        }
        // Reads no further, and answers nothing, until the other side is gone.
        wait::wait_until(PATIENCE, || stream.take_error().map_or(true, |error| error.is_some()));
        Err(io::ErrorKind::ConnectionAborted.into())
    });
    let mut rig = Rig::new(settings(&server.url()));
    let calls = [large_ack(32 << 20), fetch(1), progress("a")];
    let mut hanging = calls.map(|call| rig.send(call, PATIENCE)).to_vec();
    assert_steady(&beat_steadily(&mut rig, &mut hanging));
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
    slow.backend.connect_timeout = DELAY * 2;
    let mut rig = Rig::new(slow);
    assert!(matches!(rig.ask(beat()), Reply::HeartbeatOk { .. }));
    // A connection that is queued is never taken.
    let queued: Vec<TcpStream> = std::iter::from_fn(|| TcpStream::connect_timeout(&address, SHORT).ok()).collect();
    let calls = [fetch(1), ack("a"), fail("b"), look("c"), progress("d")];
    let mut stuck = calls.map(|call| rig.send(call, PATIENCE)).to_vec();
    let times = beat_steadily(&mut rig, &mut stuck);
    assert_steady(&times);
    assert_eq!(answered.load(Ordering::SeqCst), BEATS + 1);
    // Each of the others is answered in time.
    let latest = wait::now() + DELAY * 2 + SLACK;
    for _ in stuck {
        let (_, reply, at) = rig.answers.recv_timeout(PATIENCE).unwrap();
        assert_eq!(reply, failed(Failure::NotSent));
        assert!(at < latest, "a connection that cannot be had is given up in time");
    }
    drop(queued);
}

#[test]
fn requests_for_which_no_new_connection_can_be_had_take_turns_on_the_one_there_is() {
    const REPORTS: usize = 20;
    let (address, answered) = full_after_one();
    let mut patient = settings(&format!("http://{address}"));
    patient.backend.connect_timeout = PATIENCE * 2;
    let mut rig = Rig::new(patient);
    assert_eq!(rig.ask(ack("a")), Reply::Accepted);
    // A connection that is queued is never taken.
    let queued: Vec<TcpStream> = std::iter::from_fn(|| TcpStream::connect_timeout(&address, SHORT).ok()).collect();
    rig.send_many(REPORTS, &ack("a"), PATIENCE);
    assert!(rig.rest(REPORTS).values().all(|reply| *reply == Reply::Accepted));
    assert_eq!(answered.load(Ordering::SeqCst), REPORTS + 1);
    drop(queued);
}

/// A FETCH whose connection is made while nothing runs for `DELAY`, and that connection.
fn connected_while_we_stood_still(connect_timeout: Duration, patience: Duration) -> (Rig, u64, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(0).unwrap()).unwrap();
    let queued: Vec<TcpStream> = std::iter::from_fn(|| TcpStream::connect_timeout(&address, SHORT).ok()).collect();
    let mut slow = settings(&format!("http://{address}"));
    slow.backend.connect_timeout = connect_timeout;
    let mut rig = Rig::new(slow);
    let id = rig.send(fetch(1), patience);
    let held = rig.stand_still();
    let since = wait::now();
    for _ in &queued {
        listener.accept().unwrap();
    }
    let (stream, _) = listener.accept().unwrap();
    wait::wait_until(PATIENCE, || since.elapsed() > DELAY);
    drop(held);
    (rig, id, stream)
}

#[test]
fn a_request_whose_time_is_over_when_its_connection_is_there_is_not_sent() {
    let (rig, id, mut stream) = connected_while_we_stood_still(PATIENCE, DELAY);
    assert_eq!(rig.next(), (id, failed(Failure::NotSent)));
    let mut sent = Vec::new();
    let _ = stream.read_to_end(&mut sent);
    assert_eq!(String::from_utf8_lossy(&sent), "");
}

#[test]
fn a_connection_that_was_made_while_we_stood_still_is_used_although_its_time_is_over() {
    let (rig, id, mut stream) = connected_while_we_stood_still(DELAY, PATIENCE);
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (_, length) = read_head(&mut reader).unwrap().unwrap();
    skip(&mut reader, length).unwrap();
    stream.write_all(ANSWER).unwrap();
    let (answered, reply) = rig.next();
    assert_eq!(answered, id);
    assert!(matches!(reply, Reply::Fetched(_)), "{reply:?}");
}

#[test]
fn answers_that_came_while_we_stood_still_count_although_their_time_is_over() {
    const REQUESTS: usize = 40;
    let gate = Arc::new(RwLock::new(()));
    let closed = gate.write().unwrap();
    let (asked, answered) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let server = {
        let (gate, asked, answered) = (Arc::clone(&gate), Arc::clone(&asked), Arc::clone(&answered));
        RawServer::start(move |stream: &mut TcpStream, _: &Asked| {
            asked.fetch_add(1, Ordering::SeqCst);
            drop(gate.read());
            stream.write_all(ANSWER)?;
            answered.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })
    };
    let mut settings = settings(&server.url());
    settings.identity.concurrency = 64;
    let mut rig = Rig::new(settings);
    let since = wait::now();
    rig.send_many(REQUESTS, &ack("a"), DELAY);
    assert!(wait::wait_until(DELAY, || asked.load(Ordering::SeqCst) == REQUESTS));
    let held = rig.stand_still();
    assert!(wait::wait_until(PATIENCE, || since.elapsed() > DELAY));
    drop(closed);
    assert!(wait::wait_until(PATIENCE, || answered.load(Ordering::SeqCst) >= REQUESTS));
    drop(held);
    let replies = rig.rest(REQUESTS);
    assert!(replies.values().all(|reply| *reply == Reply::Accepted), "{replies:?}");
}

/// A server that hangs up on each connection when the second request on it was read: as if it had
/// been closed just when it was used again.
fn closing_on_reuse() -> RawServer {
    let last = AtomicUsize::new(0);
    RawServer::start(move |stream: &mut TcpStream, asked: &Asked| {
        if last.swap(asked.connection, Ordering::SeqCst) == asked.connection {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        stream.write_all(ANSWER)
    })
}

#[test]
fn a_kept_connection_that_is_closed_when_it_is_used_again_costs_no_request_that_may_come_twice() {
    for call in [
        ack("a"),
        beat(),
        register(),
        progress("a"),
        checkpoint("a"),
        deregister(),
    ] {
        let server = closing_on_reuse();
        let mut rig = Rig::new(settings(&server.url()));
        let first = rig.ask(call.clone());
        assert!(!matches!(first, Reply::Failed(_)));
        assert_eq!(rig.ask(call.clone()), first, "{call:?}");
        let connections: Vec<usize> = server.asked().iter().map(|asked| asked.connection).collect();
        assert_eq!(connections, [1, 1, 2], "{call:?}");
    }
}

#[test]
fn a_fetch_a_fail_and_a_requeue_are_never_repeated_behind_the_lifecycles_back() {
    for call in [fetch(1), fail("a"), requeue("a")] {
        let server = closing_on_reuse();
        let mut rig = Rig::new(settings(&server.url()));
        rig.ask(call.clone());
        assert_eq!(rig.ask(call.clone()), failed(Failure::Unanswered), "{call:?}");
        assert_eq!(server.asked().len(), 2, "{call:?}");
    }
}

#[test]
fn a_fresh_connection_that_breaks_is_not_followed_by_another_one() {
    let server = RawServer::start(|_, _| Err(io::ErrorKind::ConnectionAborted.into()));
    let mut rig = Rig::new(settings(&server.url()));
    for call in [ack("a"), beat()] {
        assert_eq!(rig.ask(call), failed(Failure::Unanswered));
    }
    assert_eq!(server.asked().len(), 2);
}

#[test]
fn a_connection_that_the_backend_closed_while_idle_is_not_used_again() {
    // No call may come twice here: it is seen before anything is sent.
    let server = RawServer::start(|stream, _| {
        stream.write_all(ANSWER)?;
        Err(io::ErrorKind::ConnectionAborted.into())
    });
    let mut rig = Rig::new(settings(&server.url()));
    for round in 1..=20 {
        assert_eq!(rig.ask(fetch(1)), Reply::Fetched(Vec::new()));
        assert!(wait::wait_until(PATIENCE, || server.ended() == round));
    }
}

/// Answers, but not on the connections that were there when it was told to stop them; and one that
/// has that many.
fn with_stopped_connections(count: usize) -> (RawServer, Rig) {
    let stopped = Arc::new(AtomicUsize::new(0));
    let (waits, until) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&stopped));
    let server = RawServer::start(move |stream, asked| {
        if asked.connection <= until.load(Ordering::SeqCst) {
            wait::wait_until(PATIENCE, || stream.take_error().map_or(true, |error| error.is_some()));
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        // At first each of them gets its request before any has an answer: so there are that many.
        waits.fetch_add(1, Ordering::SeqCst);
        wait::wait_until(PATIENCE, || waits.load(Ordering::SeqCst) >= count);
        stream.write_all(ANSWER)
    });
    let mut settings = settings(&server.url());
    settings.identity.concurrency = 20;
    let mut rig = Rig::new(settings);
    let first: Vec<u64> = (0..count).map(|_| rig.send(ack("first"), PATIENCE)).collect();
    for _ in first {
        assert_eq!(rig.next().1, Reply::Accepted);
    }
    stopped.store(count, Ordering::SeqCst);
    (server, rig)
}

#[test]
fn what_goes_out_again_because_it_hangs_goes_on_no_connection_of_that_age() {
    let (server, mut rig) = with_stopped_connections(4);
    rig.send(ack("a"), PATIENCE);
    assert!(wait::wait_until(PATIENCE, || server.asked().len() == 5));
    let again = rig.send_again(ack("a"));
    assert_eq!(rig.next(), (again, Reply::Accepted));
    assert_eq!(server.asked().last().unwrap().connection, 5);
}

#[test]
fn a_heartbeat_after_one_that_hangs_goes_on_no_connection_of_that_age() {
    let (server, mut rig) = with_stopped_connections(4);
    rig.send(beat(), PATIENCE);
    assert!(wait::wait_until(PATIENCE, || server.asked().len() == 5));
    // Sooner it would not be known that the first one hangs.
    wait::pause(INTERVAL);
    let next = rig.send(beat(), PATIENCE);
    let (id, reply) = rig.next();
    assert!(id == next && matches!(reply, Reply::HeartbeatOk { .. }), "{reply:?}");
}

#[test]
fn one_request_without_an_answer_is_the_end_of_all_connections_that_nobody_has_used_since() {
    for (first, next) in [(ack("a"), ack("b")), (fetch(1), fetch(1)), (beat(), beat())] {
        let (server, mut rig) = with_stopped_connections(4);
        let id = rig.send(first, SHORT);
        assert_eq!(rig.next(), (id, failed(Failure::Unanswered)));
        let reply = rig.ask(next);
        assert!(!matches!(reply, Reply::Failed(_)), "{reply:?}");
        assert_eq!(server.asked().last().unwrap().connection, 5);
        assert!(wait::wait_until(PATIENCE, || server.ended() == 4));
    }
}
