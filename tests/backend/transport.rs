//! The fate of connections: resets after every byte, half-closed ones, one that is abandoned,
//! hundreds at once.

use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use ojs_lifecycle::api::{Failure, Reply};

use crate::backend::{Backend, Behaviour, Endpoint};
use crate::raw_server::{Part, RawServer, read_head, skip};
use crate::rig::*;
use crate::support::wait;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

/// Reads the head of one request on each connection, and its body if that is wanted; then the
/// connection is `serve`d, with how many there were before, and closed.
fn serving(
    address: &str,
    reads_body: bool,
    serve: impl Fn(usize, &mut TcpStream) -> io::Result<()> + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let Ok(Some((_, length))) = read_head(&mut reader) else {
                continue;
            };
            if !reads_body || skip(&mut reader, length).is_ok() {
                // A connection that breaks is the other side's business.
                let _ = serve(number, &mut stream);
            }
        }
    });
    address
}

fn reset(stream: &TcpStream) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(&stream.as_fd(), sockopt::Linger, &linger).unwrap();
}

fn rig(address: SocketAddr) -> Rig {
    Rig::new(settings(&format!("http://{address}")))
}

#[test]
fn an_answer_that_is_reset_after_any_byte_counts_as_far_as_it_goes() {
    let address = serving("127.0.0.2:0", true, |number, stream| {
        stream.write_all(ANSWER.get(..number.min(ANSWER.len())).unwrap())?;
        reset(stream);
        Ok(())
    });
    let mut rig = rig(address);
    let body = ANSWER.len() - 2;
    for length in 0..=ANSWER.len() {
        let expected = if length > body {
            Reply::Accepted
        } else {
            failed(Failure::Unanswered)
        };
        assert_eq!(rig.ask(fail("a")), expected, "after {length} bytes");
    }
}

#[test]
fn a_backend_that_closes_its_side_after_the_answer_has_answered() {
    let address = serving("127.0.0.2:0", true, |_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n{}")?;
        stream.shutdown(Shutdown::Write)?;
        // Until the other side is gone too.
        io::copy(stream, &mut io::sink()).map(drop)
    });
    assert_eq!(rig(address).ask(ack("a")), Reply::Accepted);
    let address = serving("127.0.0.2:0", true, |_, stream| {
        stream.shutdown(Shutdown::Write)?;
        io::copy(stream, &mut io::sink()).map(drop)
    });
    assert_eq!(rig(address).ask(ack("a")), failed(Failure::Unanswered));
}

#[test]
fn an_answer_counts_also_where_the_backend_hangs_up_before_it_has_read_the_request() {
    let address = serving("127.0.0.2:0", false, |_, stream| {
        stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
    });
    let mut rig = rig(address);
    for _ in 0..5 {
        assert_eq!(rig.ask(large_ack(8 << 20)), failed(Failure::Refused));
    }
}

#[test]
fn a_backend_that_hangs_up_before_it_has_read_the_request_has_not_got_it() {
    let address = serving("127.0.0.2:0", false, |_, _| Ok(()));
    assert_eq!(rig(address).ask(large_ack(32 << 20)), failed(Failure::NotSent));
}

#[test]
fn a_backend_with_an_ipv6_address_only_is_reached() {
    let address = serving("[::1]:0", true, |_, stream| stream.write_all(ANSWER));
    assert_eq!(rig(address).ask(ack("a")), Reply::Accepted);
}

#[test]
fn a_name_with_one_address_at_which_nobody_listens_leads_to_the_other_one() {
    let address = serving("127.0.0.1:0", true, |_, stream| stream.write_all(ANSWER));
    let mut rig = Rig::new(settings(&format!("http://localhost:{}", address.port())));
    assert_eq!(rig.ask(ack("a")), Reply::Accepted);
}

#[test]
fn an_abandoned_request_is_answered_once_as_it_is_true_and_its_connection_closed() {
    let server = RawServer::start(|stream, asked| {
        if asked.is_beat() {
            return stream.write_all(ANSWER);
        }
        io::copy(stream, &mut io::sink()).and(Err(io::ErrorKind::ConnectionAborted.into()))
    });
    let mut rig = Rig::new(settings(&server.url()));
    let first = rig.send(fetch(1), PATIENCE);
    assert!(wait::wait_until(PATIENCE, || server.asked().len() == 1));
    let waiting = rig.send(fetch(1), PATIENCE);
    rig.abandon(waiting);
    assert_eq!(rig.next(), (waiting, failed(Failure::NotSent)), "others went first");
    rig.abandon(first);
    assert_eq!(rig.next(), (first, failed(Failure::Unanswered)));
    assert!(wait::wait_until(PATIENCE, || server.ended() == 1));
    rig.abandon(first);
    assert!(matches!(rig.ask(beat()), Reply::HeartbeatOk { .. }));
    assert!(rig.answers.try_recv().is_err(), "each is answered once");
    assert_eq!(server.asked().len(), 2, "what waited was never sent");
}

#[test]
fn the_connection_of_a_request_that_is_given_up_is_reset_so_that_nothing_arrives_later() {
    let (told, ends) = mpsc::channel();
    let server = RawServer::start(move |stream, _| {
        let end = io::copy(stream, &mut io::sink());
        told.send(end.map_err(|error| error.kind())).map_err(io::Error::other)?;
        Err(io::ErrorKind::ConnectionAborted.into())
    });
    let mut rig = Rig::new(settings(&server.url()));
    let id = rig.send(fetch(1), PATIENCE);
    assert!(wait::wait_until(PATIENCE, || server.asked().len() == 1));
    rig.abandon(id);
    assert_eq!(
        ends.recv_timeout(PATIENCE).unwrap(),
        Err(io::ErrorKind::ConnectionReset)
    );
}

#[test]
fn hundreds_of_requests_at_once_are_answered_each_once_over_some_connections() {
    let backend = Backend::start();
    let mut settings = settings(&backend.url());
    settings.identity.concurrency = 500;
    let mut rig = Rig::new(settings);
    let withheld = wait::Withheld::measure();
    for number in 0..600 {
        rig.send(ack(&format!("job-{number}")), PATIENCE);
    }
    let answers = rig.rest(600);
    assert!(answers.values().all(|reply| *reply == failed(Failure::NotFound)));
    // As many as may be under way. Where answers take longer than a request may before it counts
    // as slow, others go in its place.
    let most = if withheld.so_far() < Duration::from_millis(50) {
        80
    } else {
        160
    };
    let connections = backend.records().iter().map(|record| record.connection).max();
    assert!(connections <= Some(most), "{connections:?}");
}

#[test]
fn what_hangs_delays_only_itself() {
    let backend = Backend::start();
    let mut settings = settings(&backend.url());
    settings.identity.concurrency = 20;
    let mut rig = Rig::new(settings);
    backend.always(Endpoint::Nack, Behaviour::Hang);
    for _ in 0..20 {
        rig.send(fail("a"), PATIENCE);
    }
    backend.wait_for_count(Endpoint::Nack, 20, PATIENCE);
    for _ in 0..50 {
        assert_eq!(rig.ask(ack("a")), failed(Failure::NotFound));
        assert!(matches!(rig.ask(beat()), Reply::HeartbeatOk { .. }));
    }
}

#[test]
fn a_connection_that_the_backend_may_be_closing_carries_only_what_may_come_twice() {
    let server = RawServer::start(|stream, _| {
        // No longer than the request is on its way.
        stream.write_all(b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1, max=100\r\nContent-Length: 2\r\n\r\n{}")
    });
    let mut rig = Rig::new(settings(&server.url()));
    for call in [ack("a"), ack("b"), fetch(1), fail("c"), requeue("d"), ack("e")] {
        rig.ask(call);
    }
    let connections: Vec<usize> = server.asked().iter().map(|asked| asked.connection).collect();
    assert_eq!(connections, [1, 1, 2, 3, 4, 4]);
}

#[test]
fn bytes_that_nobody_asked_for_end_a_kept_connection_and_are_no_answer_to_the_next_request() {
    let server = RawServer::start_reading(Part::All, |stream, asked| {
        stream.write_all(ANSWER)?;
        if asked.connection == 1 {
            wait::pause(Duration::from_millis(20));
            stream.write_all(b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n")?;
        }
        Ok(())
    });
    let mut rig = Rig::new(settings(&server.url()));
    assert_eq!(rig.ask(fetch(1)), Reply::Fetched(Vec::new()));
    assert!(
        wait::wait_until(PATIENCE, || server.ended() == 1),
        "it is closed as soon as they come"
    );
    assert_eq!(rig.ask(fetch(1)), Reply::Fetched(Vec::new()));
}
