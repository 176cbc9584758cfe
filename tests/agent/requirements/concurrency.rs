//! Concurrency: never more jobs than allowed, however many there are.

use std::time::Duration;

use super::{OBEYS, OFTEN};
use crate::backend::{Endpoint, Outcome};
use crate::stage::{PATIENCE, Stage, never};
use crate::support::wait::{now, wait_until};

#[test]
fn n_01_ten_jobs_run_at_once_or_as_many_as_configured() {
    for (configured, most) in [(None, 10), (Some("3"), 3)] {
        let stage = Stage::new();
        stage.enqueue(1..=15);
        let mut start = stage.worker("link = Link(); link.ready(100); link.obey()");
        if let Some(configured) = configured {
            start = start.with("OJS_CONCURRENCY", configured);
        }
        let init = start.start();
        let running = || init.notes().iter().filter(|line| line.starts_with("job ")).count();
        assert!(wait_until(PATIENCE, || running() == most), "{}", init.story());
        never("one more job", || running() > most);
        assert_eq!(stage.backend.most_active(), most);
        let registered = stage.backend.records_of(Endpoint::Register).remove(0).json();
        assert_eq!(registered["concurrency"], most);
    }
}

#[test]
fn n_02_no_more_jobs_are_active_than_the_concurrency_whatever_the_connections_could_take() {
    let stage = Stage::new();
    stage.enqueue(0..60);
    let script = r#"
def serve():
    link = Link()
    link.ready(5)
    held = []
    while True:
        held.append(link.job())
        if len(held) > 5:
            note("too many")
        time.sleep(0.005)
        link.ack(held.pop(0))

for _ in range(4):
    child(serve)
rest()
"#;
    let mut init = stage.worker(script).with("OJS_CONCURRENCY", "7").start();
    stage.wait_for_outcomes();
    assert!(stage.backend.most_active() <= 7, "{}", stage.backend.most_active());
    let counts = stage.backend.records_of(Endpoint::Fetch);
    assert!(
        counts
            .iter()
            .all(|fetch| (1..=7).contains(&fetch.json()["count"].as_u64().unwrap_or(1)))
    );
    assert!(!init.notes().contains(&"too many".to_owned()));
    init.stops();
}

#[test]
fn n_03_with_every_slot_taken_there_is_no_fetch_and_then_one_for_the_free_slots() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let mut init = stage
        .worker(OBEYS)
        .with(OFTEN.0, OFTEN.1)
        .with("OJS_CONCURRENCY", "2")
        .start();
    init.notes_line("job j1");
    init.notes_line("job j2");
    let before = stage.count(Endpoint::Fetch);
    never("a FETCH without a free slot", || stage.count(Endpoint::Fetch) > before);
    init.order("ack j1");
    stage.wait_for_more(Endpoint::Fetch, 2);
    for fetch in &stage.backend.records_of(Endpoint::Fetch)[before..] {
        assert_eq!(fetch.json()["count"], 1);
        assert!(fetch.at > stage.settled_at("j1"), "before the backend had the outcome");
    }
    stage.enqueue([3]);
    init.notes_line("job j3");
    assert_eq!(stage.backend.most_active(), 2);
}

#[test]
fn n_04_a_queue_that_gives_less_than_is_asked_for_is_not_pressed() {
    let stage = Stage::new();
    stage.backend.limit_active(1);
    stage.enqueue(1..=5);
    let poll = Duration::from_millis(100);
    let mut init = stage.worker(OBEYS).with("OJS_POLL_INTERVAL", "100ms").start();
    let began = now();
    for number in 1..=5 {
        init.notes_line(&format!("job j{number}"));
        wait_until(Duration::from_millis(300), || false);
        init.order(&format!("ack j{number}"));
    }
    stage.wait_for_outcomes();
    let took = began.elapsed();
    let fetches = stage.count(Endpoint::Fetch);
    init.stops();
    // One for each pause, which is at least three quarters of the interval, and one for each job
    // and each outcome.
    let most = took.as_millis() / (poll.as_millis() * 3 / 4) + 12;
    assert!(fetches as u128 <= most, "{fetches} FETCHes in {took:?}");
    assert_eq!(stage.backend.most_active(), 1);
    assert!(
        stage
            .backend
            .outcomes()
            .values()
            .all(|all| all == &[Outcome::Acked(None)])
    );
}
