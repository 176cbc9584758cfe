//! How many jobs and which queues: what the worker asks for is what the backend hears and what
//! there is room for.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::backend::{Behaviour, Endpoint, Record};
use crate::gateway::worker;
use crate::stage::{PATIENCE, Stage};
use crate::support::wait::{wait_for, wait_until};

/// How long the backend takes for a FAIL: less than what counts as hanging.
const SLOW: Duration = Duration::from_millis(200);

/// Connections for the outcomes of a worker with ten jobs: twice as many, and as many again in
/// place of those that hang.
const MOST_FOR_TEN_JOBS: usize = 40;

/// A field of the last request to this endpoint.
fn last(stage: &Stage, endpoint: Endpoint, field: &str) -> Value {
    let records = stage.backend.records_of(endpoint);
    records
        .last()
        .map(|record| record.json()[field].clone())
        .unwrap_or_default()
}

#[test]
fn hundreds_of_jobs_that_are_cut_off_are_reported_on_more_connections_than_ten_jobs_need() {
    let stage = Stage::new();
    stage.enqueue(1..=200);
    stage.backend.always(Endpoint::Nack, Behaviour::Delay(SLOW));
    let script = r#"
link = Link()
held = 0
while held < 200:
    held += len(json.loads(link.ask(fetch(count=200 - held))[2])["jobs"])
note("has", "all")
rest()
"#;
    let mut init = worker(&stage, script).with("OJS_SHUTDOWN_GRACE_PERIOD", "0s").start();
    init.noted("has");
    init.stops();
    stage.wait_for_outcomes();
    let nacks = stage.backend.records_of(Endpoint::Nack);
    let connections: BTreeSet<u64> = nacks.iter().map(|record| record.connection).collect();
    assert!(connections.len() > MOST_FOR_TEN_JOBS, "{}", connections.len());
}

#[test]
fn the_backend_hears_the_queues_and_the_most_jobs_that_the_worker_has_asked_for() {
    let stage = Stage::new();
    let envelope = |id: &str| format!(r#"{{"id":"{id}","type":"t","queue":"mail","args":[],"attempt":0}}"#);
    stage.backend.enqueue(&envelope("j1"));
    let script = r#"
link = Link()
mail = lambda count: json.loads(link.ask(fetch(queues=["mail"], count=count))[2])["jobs"]
while not mail(4):
    time.sleep(0.02)
note("has", "one")
orders("more")
mail(6)
link.ask(fetch(queues=["sms"], count=1))
note("asked", "more")
rest()
"#;
    let mut init = worker(&stage, script)
        .with("OJS_HEARTBEAT_INTERVAL", "100ms")
        .with("OJS_SHUTDOWN_GRACE_PERIOD", "0s")
        .start();
    init.noted("has");
    assert_eq!(last(&stage, Endpoint::Register, "concurrency"), json!(4));
    assert_eq!(last(&stage, Endpoint::Register, "queues"), json!(["mail"]));
    stage.wait_for_more(Endpoint::Heartbeat, 2);
    assert_eq!(last(&stage, Endpoint::Heartbeat, "concurrency"), json!(4));
    assert_eq!(last(&stage, Endpoint::Heartbeat, "queues"), json!(["mail"]));
    init.order("more");
    init.noted("asked");
    // One that it has and six that it asks for.
    let both = || last(&stage, Endpoint::Heartbeat, "concurrency") == json!(7);
    assert!(
        wait_until(PATIENCE, both),
        "{:?}",
        last(&stage, Endpoint::Heartbeat, "concurrency")
    );
    assert_eq!(last(&stage, Endpoint::Heartbeat, "queues"), json!(["mail", "sms"]));
    init.logs("for as many jobs as it asks for");
    assert!(!init.log().contains("for up to"), "{}", init.log());
    init.stops();
}

#[test]
fn a_concurrency_that_is_set_is_what_the_backend_hears() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = r#"
link = Link()
link.job()
note("has", "one")
rest()
"#;
    let mut init = worker(&stage, script)
        .with("OJS_CONCURRENCY", "1000")
        .with("OJS_SHUTDOWN_GRACE_PERIOD", "0s")
        .start();
    init.noted("has");
    assert_eq!(last(&stage, Endpoint::Register, "concurrency"), json!(1000));
    init.logs("for up to 1000 jobs at once");
    init.stops();
}

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
