//! Clients that want no answer: they delay neither heartbeats nor other probes nor the end, and
//! cost little memory.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::{ANY_PORT, WORKS};
use crate::backend::Endpoint;
use crate::probe_client::Probes;
use crate::stage::{PATIENCE, Stage};
use crate::support::proc;
use crate::support::wait::{Stopwatch, now, pause, wait_until};

/// Connections that the init keeps at most.
const MOST_KEPT: usize = 64;

/// As docs/health.md says, in KiB.
const MOST_MEMORY_KIB: u64 = 1024;

/// Far more than are kept.
const HALF_OPEN: usize = 500;

/// How long it waits for a whole request.
const LONGEST: Duration = Duration::from_secs(5);

/// Heartbeats whose usual distance is measured.
const BEATS: usize = 10;

const OFTEN: (&str, &str) = ("OJS_HEARTBEAT_INTERVAL", "200ms");

fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    match stream.read(&mut [0; 16]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

#[test]
fn five_hundred_half_open_connections_delay_no_heartbeat_no_probe_and_not_the_end_and_cost_little_memory() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(WORKS).with_all(&[ANY_PORT, OFTEN]).start();
    let probes = Probes::of(&mut init);
    probes.become_([200, 200, 200]);
    let before = proc::descriptors(init.pid).len();
    let memory = init.memory_kib("VmHWM");
    let unfinished = format!("GET /livez HTTP/1.1\r\nx: {}", "y".repeat(4000));
    let mut half_open: Vec<TcpStream> = (0..HALF_OPEN)
        .map(|_| {
            let mut stream = probes.connect().unwrap();
            // The connection that has to go for the next may be gone by now.
            let _ = stream.write_all(unfinished.as_bytes());
            stream
        })
        .collect();
    let gap = stage.usual_gap(Endpoint::Heartbeat, BEATS);
    assert!(gap < Duration::from_millis(300), "{gap:?}");
    let began = Stopwatch::start();
    assert_eq!(probes.get("/livez").status, 200);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let kept = proc::descriptors(init.pid).len() - before;
    assert!(kept <= MOST_KEPT + 4, "{kept} more descriptors");
    let closed = half_open
        .iter_mut()
        .filter_map(|stream| is_closed(stream).then_some(()))
        .count();
    assert!(closed >= HALF_OPEN - MOST_KEPT, "{closed}");
    let grown = init.memory_kib("VmHWM").saturating_sub(memory);
    println!("{grown} KiB for {HALF_OPEN} half-open connections");
    assert!(grown <= MOST_MEMORY_KIB, "{grown} KiB");
    let began = Stopwatch::start();
    init.stops();
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[test]
fn a_client_that_connects_again_and_again_delays_no_heartbeat_and_no_probe() {
    let stage = Stage::new();
    let mut init = stage
        .worker(WORKS)
        .with_all(&[ANY_PORT, OFTEN, ("OJS_LOG_LEVEL", "info")])
        .start();
    let probes = Probes::of(&mut init);
    probes.become_([200, 200, 200]);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let flood = || {
        let mut count = 0;
        while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
            let Ok(mut stream) = probes.connect() else { continue };
            // Whether anybody reads it is not waited for.
            let _ = stream.write_all(b"GET /readyz HTTP/1.1\r\n\r\nGET");
            count += 1;
        }
        count
    };
    std::thread::scope(|scope| {
        let floods = [scope.spawn(flood), scope.spawn(flood)];
        let gap = stage.usual_gap(Endpoint::Heartbeat, BEATS);
        let answers = (0..20).filter(|_| probes.try_get("/livez").is_some_and(|answer| answer.status == 200));
        let answered = answers.count();
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        let connections: usize = floods.map(|flood| flood.join().unwrap()).iter().sum();
        println!("{connections} connections; heartbeats every {gap:?}; {answered} of 20 probes answered");
        assert!(gap < Duration::from_millis(300), "{gap:?}");
        assert_eq!(answered, 20);
    });
    assert!(init.complaints().is_empty(), "{:?}", init.complaints());
    assert!(init.memory_kib("VmHWM") < 32 << 10, "{} KiB", init.memory_kib("VmHWM"));
    init.stops();
}

/// From another address of this machine, as one more pod would: connects, says nothing, and keeps
/// many open.
fn flood_silently(probes: Probes, is_over: &AtomicBool) -> usize {
    let from = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 0));
    let (mut kept, mut count) = (VecDeque::new(), 0);
    while !is_over.load(Ordering::Relaxed) {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&from.into()).unwrap();
        if socket.connect_timeout(&probes.0.into(), PATIENCE).is_ok() {
            kept.push_back(socket);
            count += 1;
        }
        if kept.len() > 500 {
            kept.pop_front();
        }
    }
    count
}

#[test]
fn a_flood_of_silent_connections_from_elsewhere_keeps_no_slow_probe_from_its_answer() {
    let stage = Stage::new();
    let mut init = stage.worker(WORKS).with_all(&[ANY_PORT, OFTEN]).start();
    let probes = Probes::of(&mut init);
    probes.become_([200, 200, 200]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| flood_silently(probes, &is_over));
        let slow = |wait| {
            let mut stream = probes.connect().unwrap();
            pause(wait);
            stream.write_all(b"GET /livez HTTP/1.1\r\n\r\n").ok()?;
            let mut text = String::new();
            stream.read_to_string(&mut text).ok()?;
            text.starts_with("HTTP/1.1 200").then_some(())
        };
        let waits = [5, 50, 300].map(Duration::from_millis);
        let answered = (0..30).filter_map(|number| slow(waits[number % 3])).count();
        let gap = stage.usual_gap(Endpoint::Heartbeat, BEATS);
        is_over.store(true, Ordering::Relaxed);
        let connections = flood.join().unwrap();
        println!("{connections} connections; heartbeats every {gap:?}; {answered} of 30 slow probes answered");
        assert!(connections > 1000, "{connections}");
        assert_eq!(answered, 30);
        assert!(gap < Duration::from_millis(300), "{gap:?}");
    });
    init.stops();
}

#[test]
fn who_sends_a_request_slowly_or_not_at_all_is_cut_off() {
    let stage = Stage::new();
    let mut init = stage.worker(WORKS).with(ANY_PORT.0, ANY_PORT.1).start();
    let probes = Probes::of(&mut init);
    let began = now();
    let (mut silent, mut slow) = (probes.connect().unwrap(), probes.connect().unwrap());
    let head = b"GET /livez HTTP/1.1\r\nA: ";
    slow.write_all(head).unwrap();
    let is_cut = wait_until(PATIENCE, || {
        pause(Duration::from_millis(50));
        slow.write_all(b"a").is_err() || is_closed(&mut slow)
    });
    let took = began.elapsed();
    assert!(is_cut && took > LONGEST / 2 && took < LONGEST * 2, "{took:?}");
    assert!(wait_until(PATIENCE, || is_closed(&mut silent)));
    init.stops();
}

#[test]
fn who_does_not_close_behind_the_answer_is_cut_off() {
    let stage = Stage::new();
    let mut init = stage.worker(WORKS).with(ANY_PORT.0, ANY_PORT.1).start();
    let probes = Probes::of(&mut init);
    let mut stays = probes.connect().unwrap();
    stays.write_all(b"GET /livez HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    stays.read_to_string(&mut text).unwrap();
    let began = now();
    let is_cut = wait_until(PATIENCE, || {
        pause(Duration::from_millis(50));
        stays.write_all(b"a").is_err()
    });
    assert!(is_cut && began.elapsed() < LONGEST / 2, "{:?}", began.elapsed());
    init.stops();
}

#[test]
fn without_descriptors_probes_wait_and_are_answered_when_there_are_some_again() {
    let stage = Stage::new();
    let mut init = stage
        .worker(WORKS)
        .with_all(&[ANY_PORT, OFTEN])
        .through(&["sh", "-c", "ulimit -n 40; exec \"$@\"", "sh"])
        .start();
    let probes = Probes::of(&mut init);
    probes.become_([200, 200, 200]);
    let hoard: Vec<TcpStream> = (0..60).map(|_| probes.connect().unwrap()).collect();
    init.logs("health endpoints: cannot accept a connection");
    drop(hoard);
    probes.become_([200, 200, 200]);
    init.stops();
}
