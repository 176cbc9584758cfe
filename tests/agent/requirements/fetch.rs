//! FETCH: what is asked for, when, and when not.

use std::time::Duration;

use super::{OBEYS, WORKS};
use crate::backend::{Behaviour, Endpoint, Outcome};
use crate::stage::{PATIENCE, Stage, never};

#[test]
fn f_01_jobs_are_polled_for_and_a_backend_may_hold_a_fetch_up() {
    let stage = Stage::new();
    let held_up = Duration::from_millis(300);
    stage.backend.always(Endpoint::Fetch, Behaviour::Delay(held_up));
    let mut init = stage.worker(WORKS).start();
    stage.backend.wait_for_count(Endpoint::Fetch, 2, PATIENCE);
    stage.enqueue([1]);
    stage.wait_for_outcomes();
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    init.stops();
    // Never two at a time.
    let fetches = stage.backend.records_of(Endpoint::Fetch);
    for pair in fetches.windows(2) {
        assert!(pair[1].at - pair[0].at >= held_up, "{:?}", pair[1].at - pair[0].at);
    }
}

#[test]
fn f_02_a_fetch_names_the_queues_in_their_order_and_the_free_slots() {
    let stage = Stage::new();
    let mut init = stage
        .worker(OBEYS)
        .with_all(&[("OJS_QUEUES", "urgent,default,bulk"), ("OJS_CONCURRENCY", "4")])
        .start();
    stage.backend.wait_for_count(Endpoint::Fetch, 2, PATIENCE);
    for fetch in stage.backend.records_of(Endpoint::Fetch) {
        assert_eq!(fetch.json()["queues"], serde_json::json!(["urgent", "default", "bulk"]));
        assert_eq!(fetch.json()["count"], 4);
    }
    init.stops();
}

#[test]
fn f_02_without_a_setting_the_queue_is_default() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    stage.backend.wait_for_count(Endpoint::Fetch, 1, PATIENCE);
    let fetch = stage.backend.records_of(Endpoint::Fetch).remove(0).json();
    assert_eq!(fetch["queues"], serde_json::json!(["default"]));
    init.stops();
}

#[test]
fn f_03_a_list_of_queues_without_a_queue_is_a_configuration_error() {
    let stage = Stage::new();
    let mut init = stage.worker(WORKS).with("OJS_QUEUES", ",").start();
    init.ends_with(2);
    let log = init.log();
    assert!(log.contains("worker.queues") && log.contains("OJS_QUEUES"), "{log}");
    assert!(stage.backend.records().is_empty());
    assert!(init.notes().is_empty(), "the worker was started");
}

#[test]
fn f_04_an_answer_without_a_job_is_no_error() {
    for empty in [
        Behaviour::body(r#"{"jobs":[]}"#),
        Behaviour::body(r#"{"jobs":null}"#),
        Behaviour::status(204),
    ] {
        let stage = Stage::new();
        stage.backend.always(Endpoint::Fetch, empty);
        let mut init = stage.worker(WORKS).start();
        stage.backend.wait_for_count(Endpoint::Fetch, 5, PATIENCE);
        stage.backend.always(Endpoint::Fetch, Behaviour::Normal);
        stage.enqueue([1]);
        stage.wait_for_outcomes();
        init.stops();
        assert!(init.complaints().is_empty(), "{:?}", init.complaints());
    }
}

#[test]
fn f_05_there_is_no_fetch_in_quiet_and_none_in_terminate() {
    let stage = Stage::new();
    stage.enqueue([1]);
    // So seldom that no two heartbeats are on their way at the same time: which one is noted first
    // would be chance.
    let mut init = stage.worker(OBEYS).with("OJS_HEARTBEAT_INTERVAL", "1s").start();
    init.notes_line("job j1");
    stage.wait_for_more(Endpoint::Fetch, 2);
    init.signal(libc::SIGTSTP);
    stage.states_become(&["running", "quiet"]);
    stage.fetches_have_stopped();
    let before = stage.count(Endpoint::Fetch);
    stage.enqueue([2]);
    init.signal(libc::SIGTERM);
    stage.states_become(&["running", "quiet", "terminate"]);
    never("a FETCH in terminate", || stage.count(Endpoint::Fetch) > before);
    init.order("ack j1");
    init.ends_with(0);
    assert_eq!(stage.count(Endpoint::Fetch), before);
    assert!(stage.outcomes("j2").is_empty());
}

#[test]
fn f_06_jobs_of_a_fetch_that_was_on_its_way_go_back_untouched() {
    for is_quiet in [false, true] {
        let stage = Stage::new();
        stage
            .backend
            .once(Endpoint::Fetch, Behaviour::Delay(Duration::from_millis(700)));
        stage.enqueue([1]);
        let mut init = stage.worker(OBEYS).start();
        stage.backend.wait_for_count(Endpoint::Fetch, 1, PATIENCE);
        if is_quiet {
            init.signal(libc::SIGTSTP);
            stage.backend.wait_for_count(Endpoint::Nack, 1, PATIENCE);
            stage.wait_for_outcomes();
            assert!(init.is_running());
        } else {
            init.stops();
        }
        assert_eq!(stage.outcomes("j1"), [Outcome::Requeued], "{}", init.story());
        assert_eq!(stage.count(Endpoint::Fetch), 1);
        assert!(!init.notes().contains(&"job j1".to_owned()));
    }
}

#[test]
fn f_07_an_idle_worker_fetches_at_the_polling_interval() {
    let stage = Stage::new();
    let mut init = stage.worker(WORKS).with("OJS_POLL_INTERVAL", "200ms").start();
    // At least three quarters of it: many workers shall not ask at the same moment.
    let gap = stage.usual_gap(Endpoint::Fetch, 7);
    assert!(
        gap > Duration::from_millis(140) && gap < Duration::from_millis(400),
        "{gap:?}"
    );
    init.stops();
}

#[test]
fn f_07_after_a_job_the_next_fetch_does_not_wait_for_the_polling_interval() {
    let stage = Stage::new();
    stage.enqueue(1..=6);
    let mut init = stage
        .worker(WORKS)
        .with_all(&[("OJS_CONCURRENCY", "1"), ("OJS_POLL_INTERVAL", "30s")])
        .start();
    stage.wait_for_outcomes();
    init.stops();
}
