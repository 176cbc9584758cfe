//! Heartbeats: what they say, how often, and that nothing depends on their success.

use std::time::Duration;

use super::{OBEYS, OFTEN, REGULAR, WORKS};
use crate::backend::{Behaviour, Endpoint, Outcome};
use crate::stage::{Init, PATIENCE, Stage};
use crate::support::wait::wait_until;

#[test]
fn h_01_heartbeats_come_at_regular_intervals_with_and_without_a_job() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).with("OJS_HEARTBEAT_INTERVAL", "200ms").start();
    for job in 0..=1 {
        let gap = stage.usual_gap(Endpoint::Heartbeat, 5);
        let is_regular = gap > Duration::from_millis(150) && gap < Duration::from_millis(400);
        assert!(is_regular, "{gap:?} with {job} jobs");
        stage.enqueue([job]);
        init.notes_line(&format!("job j{job}"));
    }
}

#[test]
fn h_02_they_come_every_five_seconds_when_nobody_says_how_often() {
    let stage = Stage::new();
    let mut init = stage.worker(WORKS).start();
    stage.backend.wait_for_count(Endpoint::Heartbeat, 2, PATIENCE);
    let beats = stage.backend.records_of(Endpoint::Heartbeat);
    let gap = beats[1].at - beats[0].at;
    assert!(
        gap > Duration::from_millis(4500) && gap < Duration::from_secs(7),
        "{gap:?}"
    );
    init.stops();
}

#[test]
fn h_03_a_heartbeat_says_who_is_in_what_state_with_which_jobs() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let mut init = stage.worker(OBEYS).with(OFTEN.0, OFTEN.1).start();
    init.notes_line("job j1");
    init.notes_line("job j2");
    stage.wait_for_more(Endpoint::Heartbeat, 2);
    let register = stage.backend.records_of(Endpoint::Register).remove(0);
    let beat = stage.backend.records_of(Endpoint::Heartbeat).pop().unwrap().json();
    assert_eq!(beat["worker_id"], register.json()["worker_id"]);
    assert_eq!(beat["state"], "running");
    assert_eq!(beat["active_job_ids"], serde_json::json!(["j1", "j2"]));
    // The binding's name for the same; the number that the worker protocol wants here no backend
    // can read.
    assert_eq!(beat["active_jobs"], beat["active_job_ids"]);
}

#[test]
fn h_04_without_a_job_the_list_is_there_and_empty() {
    let stage = Stage::new();
    let mut init = stage.worker(WORKS).with(OFTEN.0, OFTEN.1).start();
    stage.backend.wait_for_count(Endpoint::Heartbeat, 3, PATIENCE);
    init.stops();
    for beat in stage.backend.records_of(Endpoint::Heartbeat) {
        assert_eq!(beat.json()["active_job_ids"], serde_json::json!([]));
    }
}

#[test]
fn h_05_a_heartbeat_introduces_the_worker_as_its_registration_does() {
    let stage = Stage::new();
    let mut init = stage
        .worker(WORKS)
        .with_all(&[("OJS_QUEUES", "b,a"), ("OJS_CONCURRENCY", "4"), ("OJS_LABELS", "eu")])
        .start();
    stage.backend.wait_for_count(Endpoint::Heartbeat, 1, PATIENCE);
    let registered = stage.backend.records_of(Endpoint::Register).remove(0).json();
    let beat = stage.backend.records_of(Endpoint::Heartbeat).remove(0).json();
    for field in ["hostname", "pid", "queues", "concurrency", "labels", "started_at"] {
        assert!(!beat[field].is_null(), "{field}");
        assert_eq!(beat[field], registered[field], "{field}");
    }
    init.stops();
}

#[test]
fn h_06_the_state_in_the_reply_is_followed_as_far_as_the_transitions_allow() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).with(REGULAR.0, REGULAR.1).start();
    stage.states_become(&["running"]);
    // Words that nobody knows ask for nothing.
    stage.backend.direct("confused", "dance");
    stage.wait_for_more(Endpoint::Heartbeat, 3);
    assert_eq!(stage.states(), ["running"]);
    // The severest of the two fields counts.
    stage.backend.direct("quiet", "continue");
    stage.states_become(&["running", "quiet"]);
    stage.backend.direct("running", "running");
    stage.wait_for_more(Endpoint::Heartbeat, 3);
    assert_eq!(stage.states(), ["running", "quiet"]);
    stage.backend.direct("running", "terminate");
    init.ends_with(0);
    assert_eq!(stage.states(), ["running", "quiet", "terminate"]);
}

#[test]
fn h_06_with_server_resume_a_server_lifts_the_quiet_that_it_made_and_no_other() {
    let stage = Stage::new();
    let mut init = stage
        .worker(OBEYS)
        .with(REGULAR.0, REGULAR.1)
        .with("OJS_SERVER_RESUME", "true")
        .start();
    init.notes_line("ready");
    stage.states_become(&["running"]);
    stage.backend.direct("quiet", "quiet");
    init.notes_line("lifecycle quiet server");
    stage.backend.direct("running", "continue");
    init.notes_line("lifecycle running server");
    init.signal(libc::SIGTSTP);
    init.notes_line("lifecycle quiet sigtstp");
    stage.backend.direct("quiet", "quiet");
    stage.wait_for_more(Endpoint::Heartbeat, 2);
    stage.backend.direct("running", "continue");
    stage.wait_for_more(Endpoint::Heartbeat, 3);
    assert_eq!(stage.states(), ["running", "quiet", "running", "quiet"]);
    init.stops();
}

/// Whether the worker was told of any other state than running.
fn was_told(init: &Init) -> bool {
    init.notes().iter().any(|line| line.starts_with("lifecycle"))
}

#[test]
fn h_07_while_the_backend_is_away_work_goes_on_and_is_reported_later() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(OBEYS).with(OFTEN.0, OFTEN.1).start();
    init.notes_line("job j1");
    stage.backend.refuse_connections();
    init.order("ack j1");
    init.logs("heartbeat failed");
    wait_until(Duration::from_secs(1), || !init.is_running());
    assert!(init.is_running());
    assert!(stage.outcomes("j1").is_empty());
    stage.backend.accept_connections();
    stage.wait_for_outcomes();
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    assert_eq!(stage.count(Endpoint::Ack), 1);
    stage.wait_for_more(Endpoint::Heartbeat, 2);
    assert_eq!(stage.states(), ["running"]);
    assert!(!was_told(&init), "{}", init.story());
    init.stops();
}

#[test]
fn h_07_a_heartbeat_that_failed_is_followed_by_the_next_one_an_interval_later() {
    let stage = Stage::new();
    stage.backend.always(Endpoint::Heartbeat, Behaviour::status(503));
    let mut init = stage.worker(WORKS).with("OJS_HEARTBEAT_INTERVAL", "200ms").start();
    let gap = stage.usual_gap(Endpoint::Heartbeat, 6);
    assert!(
        gap > Duration::from_millis(150) && gap < Duration::from_millis(400),
        "{gap:?}"
    );
    init.stops();
}

#[test]
fn h_08_a_heartbeat_that_failed_is_a_warning_in_the_log() {
    let stage = Stage::new();
    // Each has its interval for its answer: a busy machine does not make one fail that was not told
    // to.
    let mut init = stage.worker(WORKS).with(OFTEN.0, "1s").start();
    stage.wait_for_more(Endpoint::Heartbeat, 2);
    assert!(!init.log().contains("heartbeat failed"), "{}", init.log());
    stage.backend.once(Endpoint::Heartbeat, Behaviour::status(500));
    let failed = format!("ojs-init: warn: backend {}: status 500", stage.backend.url());
    init.logs(&failed);
    init.stops();
}

#[test]
fn h_09_heartbeats_that_fail_change_no_state_and_stop_no_fetch() {
    for failing in [Behaviour::status(500), Behaviour::status(503), Behaviour::Close] {
        let stage = Stage::new();
        let mut init = stage.worker(OBEYS).with(OFTEN.0, OFTEN.1).start();
        stage.states_become(&["running"]);
        stage.backend.always(Endpoint::Heartbeat, failing);
        stage.wait_for_more(Endpoint::Heartbeat, 8);
        stage.enqueue([1]);
        init.notes_line("job j1");
        init.order("ack j1");
        stage.wait_for_outcomes();
        stage.wait_for_more(Endpoint::Fetch, 3);
        assert_eq!(stage.states(), ["running"]);
        assert!(!was_told(&init), "{}", init.story());
        assert!(init.is_running());
    }
}

#[test]
fn h_10_at_least_three_heartbeats_fit_into_the_timeout_that_the_backend_names() {
    let stage = Stage::new();
    let named = Behaviour::body(r#"{"ok":true,"heartbeat_interval":20,"heartbeat_timeout":0.9}"#);
    stage.backend.always(Endpoint::Register, named);
    // Although another interval is configured.
    let mut init = stage.worker(WORKS).with("OJS_HEARTBEAT_INTERVAL", "20s").start();
    let gap = stage.usual_gap(Endpoint::Heartbeat, 5);
    assert!(
        gap > Duration::from_millis(200) && gap < Duration::from_millis(450),
        "{gap:?}"
    );
    init.stops();
}

#[test]
fn h_11_in_the_drain_a_heartbeat_lists_exactly_the_jobs_that_still_run() {
    let stage = Stage::new();
    stage.enqueue([1, 2, 3]);
    let mut init = stage.worker(OBEYS).with(OFTEN.0, OFTEN.1).start();
    for number in 1..=3 {
        init.notes_line(&format!("job j{number}"));
    }
    init.signal(libc::SIGTERM);
    stage.states_become(&["running", "quiet", "terminate"]);
    for (done, left) in [("", "j1 j2 j3"), ("j2", "j1 j3"), ("j1", "j3")] {
        if !done.is_empty() {
            init.order(&format!("ack {done}"));
            init.notes_line(&format!("ok {done} ack"));
        }
        // Two may have been on their way.
        stage.wait_for_more(Endpoint::Heartbeat, 3);
        let beat = stage.backend.records_of(Endpoint::Heartbeat).pop().unwrap().json();
        assert_eq!(beat["state"], "terminate");
        let listed = left.split(' ').collect::<Vec<_>>();
        assert_eq!(beat["active_job_ids"], serde_json::json!(listed));
    }
    init.order("ack j3");
    init.ends_with(0);
    let last = stage.backend.records_of(Endpoint::Heartbeat).pop().unwrap().json();
    assert_eq!(last["active_job_ids"], serde_json::json!([]));
}

#[test]
fn c_08_a_heartbeat_that_is_refused_is_said_in_another_form_and_the_one_that_worked_is_kept() {
    let stage = Stage::new();
    stage.enqueue([1]);
    // The number of jobs is refused by itself, as by every backend.
    stage.backend.once(Endpoint::Heartbeat, Behaviour::status(400));
    let mut init = stage.worker(OBEYS).with(REGULAR.0, REGULAR.1).start();
    init.notes_line("job j1");
    stage.backend.wait_for_count(Endpoint::Heartbeat, 5, PATIENCE);
    let said: Vec<_> = stage
        .backend
        .records_of(Endpoint::Heartbeat)
        .iter()
        .map(|beat| beat.json())
        .collect();
    assert!(
        said[0]["active_jobs"].is_array() && !said[0]["state"].is_null(),
        "{:?}",
        said[0]
    );
    assert!(
        said[1]["active_jobs"].is_number() && said[1]["active_job_ids"].is_array(),
        "{:?}",
        said[1]
    );
    assert!(
        said[2]["active_jobs"].is_number() && said[2].get("visibility_timeout_ms").is_none(),
        "{:?}",
        said[2]
    );
    for bare in &said[3..] {
        let mut fields: Vec<&String> = bare.as_object().unwrap().keys().collect();
        fields.sort();
        assert_eq!(fields, ["active_jobs", "visibility_timeout_ms", "worker_id"]);
        assert!(bare["active_jobs"].is_array());
    }
    assert_eq!(said.last().unwrap()["active_jobs"], serde_json::json!(["j1"]));
}
