//! How many jobs and which queues: what the worker asks for is what the backend hears and what there is room for.

use std::collections::BTreeSet;

use crate::backend::{Endpoint, Record};
use crate::gateway::worker;
use crate::stage::{PATIENCE, Stage};
use crate::support::wait::wait_for;

#[test]
fn each_of_a_hundred_queues_is_asked_for_in_its_turn() {
    let stage = Stage::new();
    let script = r#"
link = Link()
while True:
    link.ask(fetch(queues=[f"q{number}" for number in range(100)]))
    time.sleep(0.02)
"#;
    let mut init = worker(&stage, script).start();
    let names = |record: &Record| {
        let queues = record.json()["queues"].as_array().cloned().unwrap_or_default();
        let names = queues.iter().map(|queue| queue.as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    let asked = wait_for(PATIENCE, || {
        let fetches = stage.backend.records_of(Endpoint::Fetch);
        let asked: BTreeSet<String> = fetches.iter().flat_map(names).collect();
        (asked.len() == 100).then_some(fetches)
    });
    let fetches = asked.expect("some queue is never asked for");
    let number = |name: &String| name[1..].parse::<u32>().unwrap();
    for fetch in &fetches {
        assert!(names(fetch).iter().map(number).is_sorted(), "{:?}", names(fetch));
    }
    init.stops();
}

#[test]
fn nobody_listens_to_events_where_the_worker_asks_for_its_jobs_itself() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = r#"
link = Link()
link.ask(post("ack", job_id=link.job()["id"]))
rest()
"#;
    let mut init = worker(&stage, script).with("OJS_HEARTBEAT_INTERVAL", "100ms").start();
    stage.wait_for_outcomes();
    stage.wait_for_more(Endpoint::Heartbeat, 2);
    let others = stage.backend.records_of(Endpoint::Other);
    let streams = others.iter().filter(|record| record.request.path.contains("events"));
    assert_eq!(streams.count(), 0, "{others:?}");
    init.stops();
}
