//! Jobs that come again, jobs that nobody can answer, and jobs that are nobody's any more.

use crate::backend::{Behaviour, Endpoint, Outcome};
use crate::stage::{Init, PATIENCE, Stage};
use crate::support::wait::wait_until;

/// A worker has failed its job, and the backend, which has not answered that yet, has given it the
/// job again. `then` is what the worker does after the first time.
fn failed_and_delivered_again(stage: &Stage, then: &str) -> Init {
    stage.backend.once(Endpoint::Nack, Behaviour::Held);
    stage
        .backend
        .enqueue(r#"{"id":"j1","type":"t","args":[],"attempt":1,"max_attempts":3}"#);
    let script = format!(
        "
link = Link()
link.ready(2)
link.say('fail', job_id=link.job(), error={{'message': 'no'}})
{then}link.note_all()"
    );
    let init = stage.worker(&script).start();
    let is_failed = || matches!(stage.outcomes("j1").as_slice(), [Outcome::Failed(_)]);
    assert!(wait_until(PATIENCE, is_failed), "{}", init.story());
    stage.backend.retry("j1");
    assert!(
        wait_until(PATIENCE, || stage.backend.handed_out("j1") == 2),
        "{}",
        init.story()
    );
    // Only then has ojs-init read the answer to its FETCH.
    let is_read = || init.log().matches("Job fetched by worker [job j1,").count() == 2;
    assert!(wait_until(PATIENCE, is_read), "{}", init.story());
    init
}

#[test]
fn a_job_that_comes_again_before_its_fail_is_answered_runs_again() {
    let stage = Stage::new();
    let mut init = failed_and_delivered_again(&stage, "link.ack(link.job())\n");
    // The ACK waits for the answer: nothing is known of it yet.
    assert_eq!(stage.count(Endpoint::Job), 0);
    assert_eq!(init.notes().iter().filter(|line| *line == "job j1").count(), 1);
    stage.backend.answer_held();
    init.notes_times("job j1", 2);
    let is_acked = || matches!(stage.outcomes("j1").as_slice(), [Outcome::Failed(_), Outcome::Acked(_)]);
    assert!(wait_until(PATIENCE, is_acked), "{}", init.story());
    assert_eq!(stage.count(Endpoint::Job), 1);
    init.stops();
    stage.backend.assert_one_outcome_each();
}

#[test]
fn a_job_that_comes_again_before_its_fail_is_answered_goes_back_at_the_end() {
    let stage = Stage::new();
    let mut init = failed_and_delivered_again(&stage, "");
    // The FETCH behind it has to be over: it would bring the job once more when that is given back.
    let answered = || init.log().matches("POST /ojs/v1/workers/fetch: status").count();
    let before = answered();
    assert!(wait_until(PATIENCE, || answered() > before), "{}", init.story());
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    stage.backend.answer_held();
    init.ends_with(0);
    let outcomes = stage.outcomes("j1");
    assert!(
        matches!(outcomes.as_slice(), [Outcome::Failed(_), Outcome::Requeued]),
        "{outcomes:?}: {}",
        init.story()
    );
}

#[test]
fn jobs_with_ids_that_no_worker_can_answer_are_failed_and_the_worker_goes_on() {
    let stage = Stage::new();
    let long = |number: u32| format!("{}{number}", "a".repeat(1024));
    for number in 0..4 {
        let envelope = format!(r#"{{"id":"{}","type":"t","args":[]}}"#, long(number));
        stage.backend.enqueue(&envelope);
    }
    let longest = "b".repeat(1024);
    stage
        .backend
        .enqueue(&format!(r#"{{"id":"{longest}","type":"t","args":[]}}"#));
    let mut init = stage.worker("link = Link(); link.ready(5); link.work()").start();
    stage.wait_for_outcomes();
    for number in 0..4 {
        let outcomes = stage.outcomes(&long(number));
        let [Outcome::Failed(error)] = outcomes.as_slice() else {
            panic!("{outcomes:?}: {}", init.story());
        };
        assert_eq!(error["code"], "job_too_large", "{error}");
        assert_eq!(error["retryable"], false, "{error}");
    }
    assert_eq!(stage.outcomes(&longest), [Outcome::Acked(None)]);
    assert_eq!(init.notes().iter().filter(|line| line.starts_with("job ")).count(), 1);
    assert!(!init.log().contains(&long(0)), "an id of any length is in the log");
    init.stops();
}

#[test]
fn a_handler_that_does_not_stop_for_a_cancelled_job_holds_its_slot_and_nobody_elses() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "link = Link(); link.ready(2); link.job(); link.work()";
    let mut init = stage
        .worker(script)
        .with("OJS_CONCURRENCY", "1")
        .with("OJS_HEARTBEAT_INTERVAL", "50ms")
        .with("OJS_TIMEOUT_GRACE", "100ms")
        .start();
    init.notes_line("job j1");
    stage.backend.cancel("j1");
    init.logs("Job was cancelled, and its handler has not answered the cancel in time");
    stage.enqueue([2]);
    let is_acked = || stage.outcomes("j2") == [Outcome::Acked(None)];
    assert!(wait_until(PATIENCE, is_acked), "{}", init.story());
    init.signal(libc::SIGKILL);
}

#[test]
fn a_job_that_is_cancelled_before_the_first_heartbeat_is_told_to_its_handler_within_two_of_them() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "link = Link(); link.ready(1); link.job(); link.note_next(); link.work()";
    let mut init = stage.worker(script).with("OJS_HEARTBEAT_INTERVAL", "1s").start();
    init.notes_line("job j1");
    stage.backend.cancel("j1");
    let before = stage.count(Endpoint::Heartbeat);
    init.notes_line("cancel cancelled j1");
    let beats = stage.count(Endpoint::Heartbeat) - before;
    assert!(beats <= 2, "{beats} heartbeats: {}", init.story());
    init.signal(libc::SIGKILL);
}
