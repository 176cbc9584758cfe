//! Registration and deregistration.

use std::time::Duration;

use super::{OBEYS, OFTEN, WORKS};
use crate::backend::{Behaviour, Endpoint, Outcome, Record};
use crate::stage::{PATIENCE, Stage, never};
use crate::support::wait::wait_until;

fn registered_as(stage: &Stage) -> Vec<String> {
    let registered = stage.backend.records_of(Endpoint::Register);
    registered
        .iter()
        .filter_map(|record| record.text("worker_id"))
        .collect()
}

#[test]
fn r_01_the_first_request_registers() {
    let stage = Stage::new();
    stage
        .backend
        .once(Endpoint::Register, Behaviour::Delay(Duration::from_millis(500)));
    stage.enqueue([1]);
    let mut init = stage.worker(WORKS).start();
    stage.wait_for_outcomes();
    init.stops();
    let records = stage.backend.records();
    assert_eq!(records[0].endpoint, Endpoint::Register);
    // Nothing else is asked before the answer.
    assert!(records[1].at - records[0].at > Duration::from_millis(490));
    assert_eq!(stage.count(Endpoint::Register), 1);
}

#[test]
fn r_01_a_backend_without_registration_gets_its_worker_all_the_same() {
    for status in [404, 405, 501] {
        let stage = Stage::new();
        stage.backend.always(Endpoint::Register, Behaviour::status(status));
        stage.backend.always(Endpoint::Deregister, Behaviour::status(status));
        stage.enqueue([1]);
        let mut init = stage.worker(WORKS).start();
        stage.wait_for_outcomes();
        assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
        init.stops();
        assert_eq!(stage.count(Endpoint::Register), 1);
        assert!(init.complaints().is_empty(), "{:?}", init.complaints());
    }
}

#[test]
fn r_02_the_registration_says_who_this_is_and_what_it_takes() {
    let stage = Stage::new();
    let mut init = stage
        .worker(WORKS)
        .with_all(&[("OJS_QUEUES", "urgent,default,bulk"), ("OJS_CONCURRENCY", "3")])
        .start();
    stage.backend.wait_for_count(Endpoint::Register, 1, PATIENCE);
    init.notes_line("ready");
    let said = stage.backend.records_of(Endpoint::Register).remove(0).json();
    assert!(!said["worker_id"].as_str().unwrap().is_empty());
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(said["hostname"], hostname.trim());
    // In its own namespace.
    assert_eq!(said["pid"], 1);
    assert_eq!(said["queues"], serde_json::json!(["urgent", "default", "bulk"]));
    assert_eq!(said["concurrency"], 3);
    init.stops();
}

#[test]
fn r_03_the_labels_are_told() {
    for (labels, expected) in [
        (None, serde_json::json!([])),
        (Some("blue,eu-1"), serde_json::json!(["blue", "eu-1"])),
    ] {
        let stage = Stage::new();
        let mut start = stage.worker(WORKS);
        if let Some(labels) = labels {
            start = start.with("OJS_LABELS", labels);
        }
        let mut init = start.start();
        stage.backend.wait_for_count(Endpoint::Heartbeat, 1, PATIENCE);
        for endpoint in [Endpoint::Register, Endpoint::Heartbeat] {
            assert_eq!(stage.backend.records_of(endpoint)[0].json()["labels"], expected);
        }
        init.stops();
    }
}

#[test]
fn r_04_each_incarnation_has_a_name_of_its_own() {
    let stage = Stage::new();
    let dies_once = "
link = Link()
link.ready()
if open(os.environ['NOTES']).read().count('ready') == 1:
    die()
link.note_all()";
    let mut restarted = stage
        .worker(dies_once)
        .named("one")
        .with("OJS_RESTART", "on-failure")
        .start();
    let mut other = stage.worker(WORKS).named("other").start();
    stage.backend.wait_for_count(Endpoint::Register, 3, PATIENCE);
    let names = registered_as(&stage);
    assert_eq!(names.len(), 3);
    let mut different = names.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), 3, "{names:?}");
    for name in &names {
        // A UUID of version 7, which sorts by time.
        assert_eq!((name.len(), name.as_bytes()[14]), (36, b'7'), "{name}");
    }
    restarted.notes_times("ready", 2);
    restarted.stops();
    other.notes_line("ready");
    other.stops();
}

#[test]
fn r_03_the_time_of_the_start_is_told_and_stays_the_same() {
    let stage = Stage::new();
    let mut init = stage.worker(WORKS).with(OFTEN.0, OFTEN.1).start();
    stage.backend.wait_for_count(Endpoint::Heartbeat, 3, PATIENCE);
    let registered = stage.backend.records_of(Endpoint::Register).remove(0).json();
    let started_at: jiff::Timestamp = registered["started_at"].as_str().unwrap().parse().unwrap();
    let ago = jiff::Timestamp::now().as_second() - started_at.as_second();
    assert!((0..60).contains(&ago), "{started_at}");
    for beat in stage.backend.records_of(Endpoint::Heartbeat) {
        assert_eq!(beat.json()["started_at"], registered["started_at"]);
    }
    init.stops();
}

/// The answer of a backend that knows registration; `more` begins with a comma.
fn answer(more: &str) -> Behaviour {
    Behaviour::body(format!(
        r#"{{"ok":true,"server_time":"2026-01-01T00:00:00Z","visibility_timeout_default":1800{more}}}"#
    ))
}

#[test]
fn r_05_the_recommended_interval_is_followed() {
    let stage = Stage::new();
    stage.backend.always(
        Endpoint::Register,
        answer(r#","heartbeat_interval":0.2,"heartbeat_timeout":30"#),
    );
    let mut init = stage.worker(WORKS).start();
    let gap = stage.usual_gap(Endpoint::Heartbeat, 6);
    assert!(
        gap > Duration::from_millis(150) && gap < Duration::from_millis(1500),
        "{gap:?}"
    );
    init.stops();
}

#[test]
fn r_05_an_interval_that_was_configured_goes_before_the_recommended_one() {
    let stage = Stage::new();
    stage
        .backend
        .always(Endpoint::Register, answer(r#","heartbeat_interval":20"#));
    let mut init = stage.worker(WORKS).with(OFTEN.0, OFTEN.1).start();
    stage.wait_for_more(Endpoint::Heartbeat, 4);
    init.stops();
}

#[test]
fn r_05_whom_the_backend_does_not_accept_waits_and_asks_again() {
    let stage = Stage::new();
    let no = || Behaviour::body(r#"{"ok":false}"#);
    stage.backend.once(Endpoint::Register, no());
    stage.backend.once(Endpoint::Register, no());
    stage.enqueue([1]);
    let mut init = stage.worker(WORKS).start();
    stage.wait_for_outcomes();
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    init.logs("it answered the registration with ok: false");
    init.stops();
    let asked: Vec<Endpoint> = stage.backend.records().iter().map(|record| record.endpoint).collect();
    assert_eq!(
        asked[..3],
        [Endpoint::Register; 3],
        "something was asked before it was accepted"
    );
    assert!(!asked[3..].contains(&Endpoint::Register));
}

#[test]
fn r_06_deregistering_is_the_last_word_after_the_last_outcome() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let mut init = stage
        .worker(OBEYS)
        .with(OFTEN.0, OFTEN.1)
        .with("OJS_GRACE_PERIOD", "1s")
        .start();
    init.notes_line("job j1");
    init.notes_line("job j2");
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    init.order("ack j1");
    init.ends_with(0);
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    assert_eq!(stage.failure("j2")["type"], "ShutdownError");
    let records = stage.backend.records();
    let [.., before, last] = records.as_slice() else {
        panic!("{records:?}")
    };
    assert_eq!(last.endpoint, Endpoint::Deregister);
    assert_eq!(last.text("worker_id"), Some(registered_as(&stage).remove(0)));
    assert_eq!(last.text("state").as_deref(), Some("terminated"));
    // The last heartbeat comes between the last outcome and that.
    assert_eq!(before.endpoint, Endpoint::Heartbeat);
    assert_eq!(before.text("state").as_deref(), Some("terminate"));
    assert_eq!(before.json()["active_job_ids"], serde_json::json!([]));
    let is_outcome = |record: &Record| matches!(record.endpoint, Endpoint::Ack | Endpoint::Nack);
    assert!(records.iter().rfind(|record| is_outcome(record)).unwrap().at < before.at);
    assert_eq!(stage.count(Endpoint::Deregister), 1);
}

#[test]
fn r_07_who_is_unknown_registers_again_under_the_same_name_and_keeps_its_job() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(OBEYS).with(OFTEN.0, OFTEN.1).start();
    init.notes_line("job j1");
    let unknown = r#"{"error":{"code":"not_found","message":"unknown worker","retryable":false}}"#;
    stage.backend.once(
        Endpoint::Heartbeat,
        Behaviour::Answer(404, unknown.to_owned(), Vec::new()),
    );
    stage.backend.wait_for_count(Endpoint::Register, 2, PATIENCE);
    let names = registered_as(&stage);
    assert_eq!(names[0], names[1]);
    stage.wait_for_more(Endpoint::Heartbeat, 3);
    init.order("ack j1");
    stage.wait_for_outcomes();
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    assert_eq!(stage.states(), ["running"]);
    init.stops();
    assert_eq!(stage.count(Endpoint::Register), 2);
}

#[test]
fn r_07_a_backend_without_heartbeats_is_not_registered_with_again() {
    let stage = Stage::new();
    stage.backend.always(Endpoint::Heartbeat, Behaviour::status(404));
    stage.enqueue([1]);
    let init = stage.worker(WORKS).with(OFTEN.0, OFTEN.1).start();
    stage.wait_for_outcomes();
    stage.wait_for_more(Endpoint::Heartbeat, 3);
    never("another registration", || stage.count(Endpoint::Register) > 1);
    assert!(wait_until(PATIENCE, || init.log().contains("does not offer it")));
}

#[test]
fn c_16_a_backend_that_takes_no_deregister_gets_a_delete() {
    for status in [404, 405, 501] {
        let stage = Stage::new();
        stage.backend.always(Endpoint::Deregister, Behaviour::status(status));
        let mut init = stage.worker(WORKS).start();
        init.notes_line("ready");
        stage.backend.wait_for_count(Endpoint::Heartbeat, 1, PATIENCE);
        init.stops();
        let last = stage.backend.records().pop().unwrap().request;
        let path = format!("/ojs/v1/workers/{}", registered_as(&stage)[0]);
        assert_eq!((last.method.as_str(), last.path), ("DELETE", path));
        assert!(init.complaints().is_empty(), "{:?}", init.complaints());
    }
}

#[test]
fn r_05_the_visibility_timeout_of_the_backend_holds_three_heartbeats() {
    let stage = Stage::new();
    let named = r#"{"ok":true,"heartbeat_interval":20,"visibility_timeout_default":0.9}"#;
    stage.backend.always(Endpoint::Register, Behaviour::body(named));
    let mut init = stage.worker(WORKS).start();
    let gap = stage.usual_gap(Endpoint::Heartbeat, 5);
    assert!(
        gap > Duration::from_millis(200) && gap < Duration::from_millis(450),
        "{gap:?}"
    );
    init.stops();
}
