//! Workers and inits that are killed in the middle of their jobs.

use std::time::Duration;

use ojs_devserver::{Options, Server};

use super::*;
use crate::support::{proc, sys};

const JOBS: usize = 1_000;

/// Every test of this file.
pub const ALL: [(&str, fn()); 2] = [
    (
        "no_job_is_lost_or_done_twice_when_the_worker_is_killed_again_and_again",
        the_worker_is_killed,
    ),
    (
        "no_job_is_lost_when_the_init_itself_is_killed_and_another_one_is_started",
        the_init_is_killed,
    ),
];

/// A worker with jobs in its hands at any moment.
const BUSY: &str = "import sys, time; sys.path.insert(0, 'clients/python')
from ojs_worker import Worker
worker = Worker(concurrency=50)
@worker.job('t')
def handle(job): time.sleep(0.02); return job.args
worker.run()";

/// Attempts without end and without a pause between them.
const RETRIES: &str = r#","retry":{"max_attempts":1000,"initial_interval":"PT0.05S","backoff_strategy":"constant"}"#;

/// A backend that soon gives up on who says nothing.
fn impatient() -> Server {
    Server::start(Options {
        heartbeat_interval: Duration::from_millis(300),
        heartbeat_timeout: Duration::from_secs(2),
        ..Options::default()
    })
    .unwrap()
}

fn the_worker_is_killed() {
    let server = impatient();
    enqueue(&server, JOBS, RETRIES);
    let stage = Stage::new();
    let mut init = with_python(&stage, &server, BUSY)
        .with("OJS_RESTART", "on-failure")
        .start();
    for killed in 1..=3 {
        let enough = JOBS / 5 * killed;
        let is_busy = server.wait(PATIENCE, |server| done(server) >= enough);
        assert!(is_busy && init.is_running(), "{}", init.story());
        let worker = proc::descendants(init.pid)[0];
        sys::send(worker, libc::SIGKILL).unwrap();
    }
    let jobs = all_are_done(&server, JOBS);
    init.stops();
    once_each_and_never_too_many(&server, &jobs);
    let cut_off: Vec<&String> = jobs.iter().flat_map(|job| &job.errors).collect();
    assert!(!cut_off.is_empty(), "the worker was killed with jobs in its hands");
    let is_ours = |error: &&&String| error.contains("worker_death");
    let odd: Vec<_> = cut_off.iter().filter(|error| !is_ours(error)).collect();
    assert!(odd.is_empty(), "{odd:?}");
}

/// Nobody is left who could say anything: the backend notices that the heartbeats have stopped.
fn the_init_is_killed() {
    let server = impatient();
    enqueue(&server, JOBS, RETRIES);
    for (name, enough) in [("first", JOBS / 4), ("second", JOBS / 2)] {
        let stage = Stage::new();
        let init = with_python(&stage, &server, BUSY).named(name).start();
        let is_busy = server.wait(PATIENCE, |server| done(server) >= enough);
        assert!(is_busy, "{}", init.story());
        // Dropping it is SIGKILL to it and so to everything in its namespace.
        drop(init);
    }
    let stage = Stage::new();
    let mut init = with_python(&stage, &server, BUSY).start();
    let jobs = all_are_done(&server, JOBS);
    init.stops();
    once_each_and_never_too_many(&server, &jobs);
    let recovered = jobs.iter().filter(|job| job.times_delivered > 1).count();
    assert!(recovered > 0, "the inits were killed with jobs in their hands");
}
