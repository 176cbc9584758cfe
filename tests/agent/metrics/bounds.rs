//! However many kinds of jobs there are and however slowly somebody reads, it stays small and does
//! its work.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBuf;
use ojs_lifecycle::view::metrics::{MOST_KINDS, MOST_NAME_BYTES};
use ojs_wire::metrics::MOST_BYTES;

use super::ANY_PORT;
use super::scrape::value;
use crate::backend::Endpoint;
use crate::probe_client::Probes;
use crate::stage::{Init, PATIENCE, Stage};
use crate::support::wait::{now, wait_until};

/// Kinds of jobs, more than are told apart.
const KINDS: usize = MOST_KINDS + 16;

/// How long a response may take.
const LONGEST: Duration = Duration::from_secs(5);

/// Bytes that the kernel may keep of it for one connection: 64 KiB, and the packet that does not
/// fit any more.
const MOST_KEPT: usize = 128 << 10;

/// Acks one job and fails the next.
const ALTERNATES: &str = "
link = Link()
link.ready(50)
while True:
    link.ack(link.until('job')['job']['id'])
    link.say('fail', job_id=link.until('job')['job']['id'], error={'message': 'no'})";

/// An init that has seen more kinds of jobs than it tells apart, with the longest names that there
/// can be.
fn with_many_kinds(stage: &Stage) -> (Init, Probes) {
    for kind in 0..KINDS {
        let mut name = format!("{kind:03}");
        (0..2 * MOST_NAME_BYTES).for_each(|_| name.write_str("\\\"").unwrap());
        for number in 0..2 {
            let envelope = format!(
                r#"{{"id":"j{kind}-{number}","type":"{name}","queue":"{name}","args":[],"attempt":0,"max_attempts":1}}"#
            );
            stage.backend.enqueue(&envelope);
        }
    }
    let mut init = stage
        .worker(ALTERNATES)
        .with_all(&[ANY_PORT, ("OJS_CONCURRENCY", "50"), ("OJS_HEARTBEAT_INTERVAL", "200ms")])
        .with("OJS_LOG_LEVEL", "info")
        .start();
    let probes = Probes::of(&mut init);
    stage.wait_for_outcomes();
    (init, probes)
}

#[test]
fn kinds_beyond_the_bound_are_counted_as_other() {
    let stage = Stage::new();
    let (mut init, probes) = with_many_kinds(&stage);
    let others = KINDS - MOST_KINDS;
    let sum = |text: &str| {
        let of = |outcome: &str| {
            let series = format!("ojs_init_jobs_total{{outcome=\"{outcome}\",queue=\"other\",type=\"other\"}}");
            value(text, &series).unwrap_or_default()
        };
        of("acked") + of("failed")
    };
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let expected = (2 * others) as f64;
    let is_counted = wait_until(PATIENCE, || (sum(&probes.scrape()) - expected).abs() < 0.5);
    let text = probes.scrape();
    assert!(is_counted, "{} instead of {expected}", sum(&text));
    assert_eq!(text.matches("\nojs_job_completed_total{").count(), MOST_KINDS + 1);
    assert!(text.len() <= MOST_BYTES, "{} bytes", text.len());
    println!("{} bytes with {MOST_KINDS} kinds of jobs", text.len());
    init.stops();
}

#[test]
fn who_reads_the_metrics_slowly_or_not_at_all_delays_nobody_and_costs_little_memory() {
    let stage = Stage::new();
    let (mut init, probes) = with_many_kinds(&stage);
    let before = init.memory_kib("VmHWM");
    let began = now();
    let mut readers: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = probes.connect().unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
            stream
        })
        .collect();
    assert_eq!(probes.get("/livez").status, 200);
    println!("200 scrapes and a probe in {:?}", began.elapsed());
    let gap = stage.usual_gap(Endpoint::Heartbeat, 10);
    assert!(gap < Duration::from_millis(400), "{gap:?}");
    let grown = init.memory_kib("VmHWM").saturating_sub(before);
    println!("{grown} KiB more");
    // Six copies at most; 64 connections with one each would be far more.
    let most = u64::try_from(8 * MOST_BYTES / 1024).unwrap();
    assert!(grown < most, "{grown} KiB");
    // One who reads a little at a time still gets everything.
    let mut slow = probes.connect().unwrap();
    slow.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut bytes = vec![0; 4096];
    slow.read_exact(&mut bytes).unwrap();
    drop(readers.drain(..));
    slow.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    init.stops();
}

/// Bytes that the kernel keeps for the init to send on this connection; none when the init has it
/// no more.
fn unsent(stream: &TcpStream, probes: Probes) -> Option<usize> {
    let port = |address: &str| u16::from_str_radix(address.rsplit_once(':').unwrap().1, 16).unwrap();
    let ends = (probes.0.port(), stream.local_addr().unwrap().port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (queued, inode) = (fields[4].split_once(':').unwrap().0, fields[9]);
        let is_it = (port(fields[1]), port(fields[2])) == ends && inode != "0";
        is_it.then(|| usize::from_str_radix(queued, 16).unwrap())
    })
}

#[test]
fn of_what_nobody_reads_the_kernel_keeps_little_and_the_connection_ends() {
    let stage = Stage::new();
    let (mut init, probes) = with_many_kinds(&stage);
    let mut deaf = probes.connect().unwrap();
    setsockopt(&deaf, RcvBuf, &4096).unwrap();
    let began = now();
    deaf.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    assert!(wait_until(PATIENCE, || unsent(&deaf, probes).is_some()));
    let mut most = 0;
    let is_over = wait_until(PATIENCE, || {
        let unsent = unsent(&deaf, probes);
        most = most.max(unsent.unwrap_or_default());
        unsent.is_none()
    });
    let took = began.elapsed();
    println!("{} KiB kept for {took:?}", most >> 10);
    assert!(is_over && took > LONGEST / 2 && took < LONGEST * 2, "{took:?}");
    assert!(most > 0 && most <= MOST_KEPT, "{most} bytes");
    init.stops();
}
