//! Heartbeats keep their time, whatever hangs beside them.

use std::time::Duration;

use ojs_devserver::{Event, Fault, FaultRule, Operation, Server};

use super::*;

/// The interval of these tests. A fifth of it is allowed for, which a busy machine needs.
const INTERVAL: Duration = Duration::from_secs(2);

/// How long they watch.
const WATCH: Duration = Duration::from_secs(30);

/// A worker that holds its jobs for longer than the test.
const SLOW: &str = "import sys, threading; sys.path.insert(0, 'clients/python')
from ojs_worker import Worker
worker = Worker(concurrency=50)
@worker.job('t')
def handle(job): job.cancelled.wait()
worker.run()";

/// Every test of this file.
pub const ALL: [(&str, fn()); 2] = [
    (
        "heartbeats_come_at_their_interval_while_a_fetch_hangs_for_30_seconds",
        beside_a_hanging_fetch,
    ),
    (
        "accepted_heartbeats_are_at_most_two_intervals_apart_while_every_second_one_hangs",
        every_second_one_hangs,
    ),
];

/// Runs a worker with three jobs for [`WATCH`] after this fault begins; the heartbeats of that
/// time.
fn heartbeats_with(server: &Server, fault: FaultRule) -> Vec<Event> {
    let stage = Stage::new();
    enqueue(server, 3, "");
    let mut init = with_python(&stage, server, SLOW)
        .with("OJS_HEARTBEAT_INTERVAL", "2s")
        .with("OJS_REQUEST_TIMEOUT", "40s")
        .with("OJS_SHUTDOWN_GRACE_PERIOD", "0s")
        .start();
    let names_three = |event: &Event| event.operation == "heartbeat" && event.jobs.len() == 3;
    let is_busy = server.wait(PATIENCE, |server| server.events().iter().any(names_three));
    assert!(is_busy, "{}", init.story());
    let before = server.events().last().unwrap().number;
    server.fault(fault).unwrap();
    lasts(WATCH);
    server.clear_faults();
    let events = server.events();
    init.stops();
    let later = events.into_iter().filter(|event| event.number > before);
    later.filter(|event| event.operation == "heartbeat").collect()
}

/// The longest time between two of these, and between the first or last and the edges of the test.
fn longest_gap<'a>(events: impl Iterator<Item = &'a Event>) -> Duration {
    let at: Vec<f64> = events.map(|event| event.ms).collect();
    let gaps = at.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(
        // Where every second one hangs, the first and the last may each be two intervals from the
        // edge.
        at.last().unwrap() - at[0] >= (WATCH - 5 * INTERVAL).as_secs_f64() * 1e3,
        "{at:?}"
    );
    Duration::from_secs_f64(gaps.fold(0.0, f64::max) / 1e3)
}

fn beside_a_hanging_fetch() {
    let server = patient();
    let beats = heartbeats_with(&server, FaultRule::on(Operation::Fetch, Fault::Hang));
    let hanging = server.events().into_iter().filter(|event| event.fault == Some("hang"));
    assert_eq!(
        hanging.map(|event| event.operation).collect::<Vec<_>>(),
        ["fetch"],
        "one FETCH hung all the time"
    );
    assert!(
        beats
            .iter()
            .all(|beat| beat.status == Some(200) && beat.jobs.len() == 3)
    );
    let gap = longest_gap(beats.iter());
    assert!(gap <= INTERVAL * 6 / 5, "{gap:?}");
}

fn every_second_one_hangs() {
    let server = patient();
    let beats = heartbeats_with(&server, FaultRule::on(Operation::Heartbeat, Fault::Hang).every(2));
    let hung = beats.iter().filter(|beat| beat.fault == Some("hang")).count();
    assert!(hung * 3 >= beats.len(), "{hung} of {} hung", beats.len());
    let gap = longest_gap(beats.iter());
    assert!(gap <= INTERVAL * 6 / 5, "sent: {gap:?}");
    let gap = longest_gap(beats.iter().filter(|beat| beat.status == Some(200)));
    assert!(gap <= INTERVAL * 11 / 5, "accepted: {gap:?}");
}
