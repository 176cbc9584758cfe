//! Every way to speak that a backend may have.

use std::time::Duration;

use ojs_devserver::{Dialect, Event, Options, Server};

use super::*;

/// Every test of this file.
pub const ALL: [(&str, fn()); 4] = [
    (
        "jobs_are_done_and_heartbeats_accepted_by_a_backend_of_the_specification",
        spec,
    ),
    (
        "jobs_are_done_and_heartbeats_accepted_by_a_backend_like_those_in_go",
        go,
    ),
    (
        "jobs_are_done_and_heartbeats_accepted_by_a_backend_that_wants_a_number",
        integer,
    ),
    (
        "jobs_are_done_and_heartbeats_accepted_by_a_backend_that_is_strict",
        strict,
    ),
];

/// Silence after which this backend declares a worker dead.
const SILENCE: Duration = Duration::from_secs(2);

/// One job takes longer than a silent worker lives.
const SLOW_AND_QUICK: &str = "import sys, time; sys.path.insert(0, 'clients/python')
from ojs_worker import Worker
worker = Worker(concurrency=50)
@worker.job('t')
def handle(job): time.sleep(4 if job.args == [0] else 0); return job.args
worker.run()";

fn spec() {
    speaks(Dialect::Spec, 0);
}

fn go() {
    speaks(Dialect::Go, 0);
}

fn integer() {
    speaks(Dialect::Integer, 1);
}

fn strict() {
    speaks(Dialect::Strict, 3);
}

/// A hundred jobs; heartbeats of so many forms are refused before the one that is remembered.
fn speaks(dialect: Dialect, refused_forms: usize) {
    let server = Server::start(Options {
        dialect,
        heartbeat_timeout: SILENCE,
        ..Options::default()
    })
    .unwrap();
    enqueue(&server, 100, "");
    let stage = Stage::new();
    let mut init = with_python(&stage, &server, SLOW_AND_QUICK)
        .with("OJS_HEARTBEAT_INTERVAL", "500ms")
        .start();
    let jobs = all_are_done(&server, 100);
    init.stops();
    delivered_once_each(&server, &jobs);
    let heartbeats: Vec<Event> = server.events();
    let heartbeats: Vec<&Event> = heartbeats
        .iter()
        .filter(|event| event.operation == "heartbeat")
        .collect();
    let refused = heartbeats.iter().filter(|event| event.status == Some(400)).count();
    assert_eq!(refused, refused_forms, "{heartbeats:#?}");
    assert!(
        heartbeats[refused_forms..]
            .iter()
            .all(|event| event.status == Some(200))
    );
    assert!(heartbeats.len() > 6, "{heartbeats:#?}");
}
