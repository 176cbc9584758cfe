//! The ids under which the Graceful Shutdown Specification and the website list what a worker must
//! do: one test each, of the whole of it from outside.

use std::time::Duration;

use super::course::{course, holding, holding_all, place};
use super::{CUT_SHORT, OFTEN, REGULAR, SELDOM, STUCK};
use crate::backend::{Endpoint, Outcome};
use crate::stage::{PATIENCE, Stage, never};
use crate::support::wait::{now, wait_until};

/// A drain with one job that finishes and one that does not, and all that the backend heard of it.
fn mixed_drain(signal: i32) -> (Stage, Vec<String>) {
    let stage = Stage::new();
    let mut init = holding_all(&stage, 2, &[SELDOM, ("OJS_GRACE_PERIOD", "500ms"), CUT_SHORT[1]]);
    stage.states_become(&["running"]);
    let began = now();
    init.signal(signal);
    stage.states_become(&["running", "quiet", "terminate"]);
    init.order("ack j1");
    init.ends_with(0);
    let mut course = course(&stage, began);
    // One FETCH may have been on its way.
    course.retain(|line| line != "fetch");
    (stage, course)
}

/// The report that the backend gets of it, whatever asked for it.
const MIXED: [&str; 6] = [
    "beat quiet [j1 j2]",
    "beat terminate [j1 j2]",
    "ack j1",
    "fail j2",
    "beat terminate []",
    "deregister",
];

#[test]
fn gs_001_sigterm_is_quiet_then_drain_then_stop() {
    let (_, course) = mixed_drain(libc::SIGTERM);
    assert_eq!(course, MIXED);
}

#[test]
fn gs_002_sigint_is_quiet_then_drain_then_stop() {
    let (_, course) = mixed_drain(libc::SIGINT);
    assert_eq!(course, MIXED);
}

#[test]
fn gs_003_the_grace_period_is_30_s_or_as_configured() {
    for (configured, grace) in [("", "30 s"), ("12s", "12 s")] {
        let stage = Stage::new();
        let mut init = holding(&stage, &[("OJS_SHUTDOWN_GRACE_PERIOD", configured)]);
        init.signal(libc::SIGTERM);
        init.logs(&format!("Worker draining, 1 job in progress; {grace} left"));
    }
}

#[test]
fn gs_004_heartbeats_keep_the_jobs_of_the_drain_reserved() {
    let stage = Stage::new();
    stage.backend.reserve_for(Duration::from_millis(600));
    let mut init = holding(&stage, &[OFTEN]);
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    let began = now();
    // Twice the reservation.
    wait_until(PATIENCE, || began.elapsed() > Duration::from_millis(1200));
    init.order("ack j1");
    init.ends_with(0);
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
}

#[test]
fn gs_005_what_the_grace_period_cuts_off_fails_with_shutdown_error_also_when_the_worker_will_not_end() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(STUCK).with_all(&CUT_SHORT).start();
    init.notes_line("job j1");
    init.stops();
    let error = stage.failure("j1");
    assert_eq!(error["type"], "ShutdownError", "{error}");
    assert_eq!(stage.count(Endpoint::Nack), 1);
}

#[test]
fn gs_r001_sigtstp_is_quiet_and_no_end() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[REGULAR]);
    stage.states_become(&["running"]);
    init.signal(libc::SIGTSTP);
    stage.states_become(&["running", "quiet"]);
    init.order("ack j1");
    stage.becomes("j1", &[Outcome::Acked(None)]);
    // Idle and quiet, it neither ends nor fetches.
    stage.are_not_fetched([2]);
    assert!(init.is_running());
    assert_eq!(stage.count(Endpoint::Deregister), 0);
    stage.wait_for_more(Endpoint::Heartbeat, 2);
    assert_eq!(stage.states(), ["running", "quiet"]);
}

#[test]
fn gs_r002_the_second_stop_signal_forces_whichever_it_is_and_the_third_ends_at_once() {
    for signals in [[libc::SIGTERM, libc::SIGINT], [libc::SIGINT, libc::SIGTERM]] {
        let stage = Stage::new();
        let mut init = holding(&stage, &[]);
        init.signal(signals[0]);
        init.logs("Worker draining");
        init.signal(signals[1]);
        init.ends_with(0);
        assert_eq!(stage.failure("j1")["details"]["kind"], "forced");
    }
    let stage = Stage::new();
    stage.enqueue([1]);
    stage.backend.always(Endpoint::Nack, crate::backend::Behaviour::Hang);
    let mut init = stage.worker(STUCK).start();
    init.notes_line("job j1");
    for count in 1..=3 {
        init.signal_again(libc::SIGTERM);
        let read = wait_until(PATIENCE, || init.log().matches("received SIGTERM").count() >= count);
        assert!(read, "{}", init.story());
    }
    let took = init.ends_with(143);
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn gs_r003_the_number_of_jobs_that_are_left_is_logged_when_it_changes() {
    let stage = Stage::new();
    let mut init = holding_all(&stage, 2, &[OFTEN]);
    init.signal(libc::SIGTERM);
    init.logs("Worker draining, 2 jobs in progress");
    init.order("ack j2");
    init.logs("Worker draining, 1 job in progress");
    init.order("ack j1");
    init.ends_with(0);
    assert_eq!(init.log().matches("Worker draining").count(), 2, "{}", init.log());
}

#[test]
fn w_1_sigterm_is_handled() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[OFTEN]);
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    init.order("ack j1");
    init.ends_with(0);
    assert!(init.log().contains("Worker stopped gracefully"), "{}", init.log());
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
}

#[test]
fn w_2_the_grace_period_can_be_configured() {
    for grace in ["300ms", "700ms"] {
        let stage = Stage::new();
        let mut init = holding(&stage, &[("OJS_GRACE_PERIOD", grace), CUT_SHORT[1]]);
        init.stops();
        let details = &stage.failure("j1")["details"];
        assert_eq!(format!("{}ms", details["grace_ms"]), grace);
        let elapsed = details["elapsed_ms"].as_u64().unwrap();
        assert!(elapsed >= details["grace_ms"].as_u64().unwrap(), "{details}");
    }
}

#[test]
fn w_3_jobs_that_are_not_complete_are_reported_as_failed_and_those_that_are_never() {
    let (stage, _) = mixed_drain(libc::SIGTERM);
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    let error = stage.failure("j2");
    assert_eq!(
        (&error["code"], &error["retryable"]),
        (&"shutdown".into(), &true.into()),
        "{error}"
    );
    stage.backend.assert_one_outcome_each();
}

#[test]
fn w_4_the_worker_deregisters_itself() {
    let (stage, course) = mixed_drain(libc::SIGTERM);
    assert_eq!(place(&course, "deregister"), course.len() - 1);
    let names = [Endpoint::Register, Endpoint::Deregister]
        .map(|endpoint| stage.backend.records_of(endpoint).remove(0).text("worker_id"));
    assert!(names[0].is_some() && names[0] == names[1], "{names:?}");
    never("a word after that", || {
        stage.backend.records().last().unwrap().endpoint != Endpoint::Deregister
    });
}

#[test]
fn w_5_the_last_heartbeat_says_terminated_where_the_backend_wants_it() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[SELDOM, ("OJS_FINAL_STATE", "terminated")]);
    stage.states_become(&["running"]);
    init.signal(libc::SIGTERM);
    stage.states_become(&["running", "quiet", "terminate"]);
    init.order("ack j1");
    init.ends_with(0);
    assert_eq!(stage.states(), ["running", "quiet", "terminate", "terminated"]);
    let last = stage.backend.records_of(Endpoint::Heartbeat).pop().unwrap().json();
    assert_eq!(
        (&last["state"], &last["active_job_ids"]),
        (&"terminated".into(), &serde_json::json!([]))
    );
}
