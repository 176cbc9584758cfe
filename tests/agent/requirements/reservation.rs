//! Reservations: how they are kept, and what becomes of one that is lost.

use std::time::Duration;

use super::{OBEYS, OFTEN, SELDOM};
use crate::backend::{Behaviour, Endpoint, Outcome};
use crate::stage::{PATIENCE, Stage, job, never};
use crate::support::wait::wait_until;

#[test]
fn v_01_a_job_of_three_times_its_reservation_is_kept_by_heartbeats() {
    let stage = Stage::new();
    stage.backend.reserve_for(Duration::from_secs(1));
    stage.enqueue([1]);
    let mut init = stage.worker(OBEYS).with(OFTEN.0, OFTEN.1).start();
    init.notes_line("job j1");
    let lapsed = wait_until(Duration::from_secs(3), || !stage.outcomes("j1").is_empty());
    assert!(!lapsed, "{:?}", stage.outcomes("j1"));
    init.order("ack j1");
    stage.wait_for_outcomes();
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn v_01_a_job_that_finishes_in_the_drain_is_kept_until_then() {
    let stage = Stage::new();
    stage.backend.reserve_for(Duration::from_secs(1));
    stage.enqueue([1]);
    let mut init = stage.worker(OBEYS).with(OFTEN.0, OFTEN.1).start();
    init.notes_line("job j1");
    init.signal(libc::SIGTERM);
    let lapsed = wait_until(Duration::from_secs(2), || !stage.outcomes("j1").is_empty());
    assert!(!lapsed, "{:?}", stage.outcomes("j1"));
    init.order("ack j1");
    init.ends_with(0);
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
}

#[test]
fn v_02_a_handler_can_ask_for_a_heartbeat_that_names_its_job() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(OBEYS).with(SELDOM.0, SELDOM.1).start();
    init.notes_line("job j1");
    let names_it = || {
        let beats = stage.backend.records_of(Endpoint::Heartbeat);
        beats
            .iter()
            .any(|beat| beat.json()["active_job_ids"] == serde_json::json!(["j1"]))
    };
    never("a heartbeat that nobody asked for", names_it);
    init.order("heartbeat j1");
    let beaten = wait_until(PATIENCE, names_it);
    assert!(beaten, "{}", init.story());
}

#[test]
fn v_03_a_jobs_own_visibility_timeout_reaches_the_worker_as_it_is_spelled() {
    let stage = Stage::new();
    stage.backend.enqueue(&job(1, r#","visibility_timeout":3600.50"#));
    let script = "
link = Link()
link.ready()
while True:
    line = link.line()
    if b'\"job\":' in line:
        note('line', line.decode())";
    let mut init = stage.worker(script).with(OFTEN.0, OFTEN.1).start();
    let line = init.noted("line");
    assert!(line.contains(r#""visibility_timeout":3600.50"#), "{line}");
}

#[test]
fn v_03_every_heartbeat_says_how_long_the_jobs_shall_be_reserved() {
    for (configured, said) in [(None, 120_000), (Some("90s"), 90_000)] {
        let stage = Stage::new();
        stage.enqueue([1]);
        let mut start = stage.worker(OBEYS).with(OFTEN.0, OFTEN.1);
        if let Some(configured) = configured {
            start = start.with("OJS_VISIBILITY_TIMEOUT", configured);
        }
        let mut init = start.start();
        init.notes_line("job j1");
        stage.wait_for_more(Endpoint::Heartbeat, 2);
        for beat in stage.backend.records_of(Endpoint::Heartbeat) {
            assert_eq!(beat.json()["visibility_timeout_ms"], said);
        }
    }
}

#[test]
fn v_03_a_heartbeat_asks_for_the_longest_time_that_an_active_job_has_of_its_own() {
    let stage = Stage::new();
    stage.backend.enqueue(&job(1, r#","visibility_timeout":10"#));
    let mut init = stage.worker(OBEYS).with(OFTEN.0, OFTEN.1).start();
    let asks_for = |milliseconds: u64| {
        stage.wait_for_more(Endpoint::Heartbeat, 3);
        let beat = stage.backend.records_of(Endpoint::Heartbeat).pop().unwrap().json();
        assert_eq!(beat["visibility_timeout_ms"], milliseconds, "{beat}");
    };
    // Never less than what is configured.
    init.notes_line("job j1");
    asks_for(120_000);
    stage.backend.enqueue(&job(2, r#","visibility_timeout":1800"#));
    init.notes_line("job j2");
    asks_for(1_800_000);
    stage.backend.enqueue(&job(3, r#","visibility_timeout_ms":3600500"#));
    init.notes_line("job j3");
    asks_for(3_600_500);
    init.order("ack j3");
    init.notes_line("ok j3 ack");
    asks_for(1_800_000);
    init.order("ack j2");
    init.notes_line("ok j2 ack");
    asks_for(120_000);
}

#[test]
fn v_04_an_outcome_names_the_worker_that_claimed_the_job_although_another_one_runs_by_then() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let script = "
link = Link()
link.ready()
if open(os.environ['NOTES']).read().count('ready') > 1:
    rest()
link.ack(link.job())
link.job()
die()";
    stage.backend.always(Endpoint::Nack, Behaviour::status(503));
    // The next one waits for the outcomes of the last one for as long as a drain may take.
    let mut init = stage
        .worker(script)
        .with_all(&[("OJS_RESTART", "always"), ("OJS_GRACE_PERIOD", "500ms")])
        .start();
    init.notes_times("ready", 2);
    stage.backend.always(Endpoint::Nack, Behaviour::Normal);
    stage.wait_for_outcomes();
    let worker = |endpoint| {
        let records = stage.backend.records_of(endpoint).into_iter();
        records
            .filter_map(|record| record.text("worker_id"))
            .collect::<Vec<_>>()
    };
    let [claimed, present] = worker(Endpoint::Register).try_into().unwrap();
    assert_ne!(claimed, present);
    assert_eq!(worker(Endpoint::Fetch)[0], claimed);
    assert_eq!(worker(Endpoint::Ack), [claimed.as_str()]);
    assert!(worker(Endpoint::Nack).iter().all(|said| *said == claimed));
    init.stops();
}

#[test]
fn v_04_an_outcome_that_the_backend_takes_from_nobody_or_from_another_is_not_repeated() {
    for (endpoint, order) in OUTCOMES {
        let stage = Stage::new();
        let body = r#"{"error":{"code":"conflict","message":"not active","retryable":false}}"#;
        stage
            .backend
            .once(endpoint, Behaviour::Answer(409, body.to_owned(), Vec::new()));
        stage.enqueue([1]);
        let mut init = stage.worker(OBEYS).start();
        init.notes_line("job j1");
        init.order(order);
        init.notes_line("error lost j1");
        never("the outcome again", || stage.count(endpoint) > 1);
        assert!(init.is_running());
    }
}

/// Each kind of outcome, and what a worker that obeys is told to say.
const OUTCOMES: [(Endpoint, &str); 3] = [
    (Endpoint::Ack, "ack j1"),
    (Endpoint::Nack, r#"fail j1 {"error":{"message":"no"}}"#),
    (Endpoint::Nack, "release j1"),
];

fn no_such_job() -> Behaviour {
    let body = r#"{"error":{"code":"not_found","message":"no such job","retryable":false}}"#;
    Behaviour::Answer(404, body.to_owned(), Vec::new())
}

#[test]
fn v_04_a_backend_that_knows_no_such_job_for_a_while_gets_the_outcome_when_its_store_is_back() {
    for (endpoint, order) in OUTCOMES {
        let stage = Stage::new();
        stage.backend.once(endpoint, no_such_job());
        stage.enqueue([1]);
        let mut init = stage.worker(OBEYS).start();
        init.notes_line("job j1");
        init.order(order);
        // A job that goes back comes again, and has no further outcome.
        assert!(
            wait_until(PATIENCE, || !stage.outcomes("j1").is_empty()),
            "{}",
            init.log()
        );
        assert_eq!(stage.outcomes("j1").len(), 1);
        assert_eq!(stage.count(endpoint), 2);
        assert!(
            init.log().contains("status 404 not_found: no such job"),
            "{}",
            init.log()
        );
    }
}

#[test]
fn v_04_a_backend_that_knows_no_such_job_is_believed_when_the_reservation_is_over() {
    let stage = Stage::new();
    stage.backend.always(Endpoint::Ack, no_such_job());
    stage.enqueue([1]);
    let short = ("OJS_VISIBILITY_TIMEOUT", "2s");
    let mut init = stage.worker(OBEYS).with(short.0, short.1).start();
    init.notes_line("job j1");
    init.order("ack j1");
    init.notes_line("error lost j1");
    assert!(stage.count(Endpoint::Ack) > 1, "one answer alone is not believed");
    let acks = stage.count(Endpoint::Ack);
    never("the outcome again", || stage.count(Endpoint::Ack) > acks);
    assert!(init.is_running());
}

#[test]
fn v_05_whose_job_went_to_another_worker_hears_so_once_and_goes_on() {
    let stage = Stage::new();
    stage.backend.reserve_for(Duration::from_secs(1));
    stage.enqueue([1]);
    let alone = ("OJS_CONCURRENCY", "1");
    // No heartbeat keeps its job.
    let mut late = stage.worker(OBEYS).named("late").with_all(&[alone, SELDOM]).start();
    late.notes_line("job j1");
    let mut other = stage.worker(OBEYS).named("other").with_all(&[alone, OFTEN]).start();
    other.notes_line("job j1");
    assert_eq!(stage.outcomes("j1"), [Outcome::Lapsed]);
    late.order("ack j1");
    late.notes_line("error lost j1");
    assert_eq!(stage.outcomes("j1"), [Outcome::Lapsed]);
    // Its place is free again, and what it does counts.
    stage.enqueue([2]);
    late.notes_line("job j2");
    late.order("ack j2");
    other.order("ack j1");
    let acked = wait_until(PATIENCE, || {
        stage.outcomes("j1").len() + stage.outcomes("j2").len() == 3
    });
    assert!(acked, "{:?}", stage.backend.outcomes());
    assert_eq!(stage.outcomes("j1"), [Outcome::Lapsed, Outcome::Acked(None)]);
    assert_eq!(stage.outcomes("j2"), [Outcome::Acked(None)]);
    assert_eq!(stage.count(Endpoint::Ack), 3);
    late.stops();
    other.stops();
    assert_eq!(late.complaints().len(), 1, "{:?}", late.complaints());
    assert!(late.complaints()[0].contains("j1"), "{:?}", late.complaints());
}

#[test]
fn v_05_who_was_away_finds_its_reservation_gone_and_stops_the_handler() {
    let stage = Stage::new();
    stage.backend.reserve_for(Duration::from_secs(1));
    stage.enqueue([1]);
    let alone = ("OJS_CONCURRENCY", "1");
    let mut away = stage.worker(OBEYS).named("away").with_all(&[alone, OFTEN]).start();
    away.notes_line("job j1");
    stage.wait_for_more(Endpoint::Heartbeat, 2);
    away.signal(libc::SIGSTOP);
    let mut other = stage.worker(OBEYS).named("other").with_all(&[alone, OFTEN]).start();
    other.notes_line("job j1");
    away.signal(libc::SIGCONT);
    away.notes_line("cancel lost j1");
    away.order("ack j1");
    away.notes_line("error lost j1");
    assert_eq!(stage.count(Endpoint::Ack), 0);
    other.order("ack j1");
    stage.becomes("j1", &[Outcome::Lapsed, Outcome::Acked(None)]);
    away.stops();
    other.stops();
}
