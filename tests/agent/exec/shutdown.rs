//! Quiet, drain, force, prestop, an outage, and the end of the runner itself: exec mode has the
//! promises of every other.

use std::time::Duration;

use serde_json::json;

use super::{enqueue, handler, nobody_is_left, runner};
use crate::backend::{Endpoint, Outcome};
use crate::operator;
use crate::stage::{Init, PATIENCE, Stage, Start, never};
use crate::support::wait::wait_until;
use crate::support::{proc, sys};

/// Notes that it has begun, and ends when it is told to.
const WAITS: &str = r#"echo "began $OJS_JOB_ID" >> "$NOTES"
trap 'echo "term $OJS_JOB_ID" >> "$NOTES"; exit 1' TERM
while ! [ -e "$NOTES.go" ]; do sleep 0.01; done"#;

/// The same, and no SIGTERM ends it.
const STUCK: &str = r#"trap '' TERM; echo "began $OJS_JOB_ID" >> "$NOTES"; while :; do sleep 0.05; done"#;

fn go(stage: &Stage) {
    std::fs::write(stage.at("init.notes.go"), "").unwrap();
}

fn begun(stage: &Stage, start: Start<'_>, job: &str) -> Init {
    let mut init = start.start();
    init.notes_line(&format!("began {job}"));
    stage.states_become(&["running"]);
    init
}

#[test]
fn in_quiet_nothing_is_fetched_and_what_runs_goes_on() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = begun(&stage, handler(&stage, WAITS), "j1");
    init.signal(libc::SIGTSTP);
    stage.states_become(&["running", "quiet"]);
    stage.are_not_fetched([2]);
    go(&stage);
    stage.becomes("j1", &[Outcome::Acked(None)]);
    init.signal(libc::SIGCONT);
    stage.becomes("j2", &[Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn in_the_drain_a_job_gets_to_its_end_and_its_process_no_signal() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = begun(&stage, handler(&stage, WAITS), "j1");
    init.signal(libc::SIGTERM);
    stage.states_become(&["running", "quiet", "terminate"]);
    never("a signal", || init.notes().iter().any(|line| line == "term j1"));
    go(&stage);
    init.ends_with(0);
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
}

#[test]
fn at_the_deadline_a_job_gets_sigterm_and_has_its_grace() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = begun(&stage, handler(&stage, WAITS).with("OJS_GRACE_PERIOD", "100ms"), "j1");
    init.signal(libc::SIGTERM);
    init.notes_line("term j1");
    init.ends_with(0);
    let error = stage.failure("j1");
    assert_eq!(
        (&error["type"], &error["retryable"]),
        (&json!("ShutdownError"), &json!(true)),
        "{error}"
    );
}

#[test]
fn the_last_words_of_a_job_are_in_the_log_although_the_runner_ends_right_behind_it() {
    // A job that writes all the time is written out with what comes later: the end must not come
    // before that.
    let script = r#"echo "began $OJS_JOB_ID" >> "$NOTES"
trap 'echo "last words" >&2; exit 0' TERM
while :; do echo busy >&2; sleep 0.001; done"#;
    for _ in 0..10 {
        let stage = Stage::new();
        stage.enqueue([1]);
        let mut init = begun(&stage, handler(&stage, script).with("OJS_GRACE_PERIOD", "50ms"), "j1");
        init.signal(libc::SIGTERM);
        init.ends_with(0);
        for last in ["[job j1] last words", "process ended: exit status 0 (acked)"] {
            assert!(init.log().contains(last), "{last}: {}", init.story());
        }
    }
}

#[test]
fn a_job_that_ends_well_in_the_grace_of_its_cancel_is_acked() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = r#"echo "began $OJS_JOB_ID" >> "$NOTES"; trap 'exit 0' TERM; while :; do sleep 0.02; done"#;
    let mut init = begun(&stage, handler(&stage, script).with("OJS_GRACE_PERIOD", "100ms"), "j1");
    init.signal(libc::SIGTERM);
    init.ends_with(0);
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
}

#[test]
fn what_no_signal_ends_is_killed_failed_and_gone_before_the_limit() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let start =
        handler(&stage, STUCK).with_all(&[("OJS_GRACE_PERIOD", "100ms"), ("OJS_TERMINATION_GRACE_PERIOD", "10s")]);
    let mut init = begun(&stage, start, "j1");
    init.notes_line("began j2");
    init.signal(libc::SIGTERM);
    let took = init.ends_with(0);
    assert!(took < Duration::from_secs(10), "{took:?}");
    for job in ["j1", "j2"] {
        assert_eq!(stage.failure(job)["type"], "ShutdownError");
    }
}

#[test]
fn a_runner_that_holds_nothing_any_more_ends_by_itself() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let start = handler(&stage, "echo \"began $OJS_JOB_ID\" >> \"$NOTES\"; exec sleep 300");
    let start = start.with_all(&[("OJS_GRACE_PERIOD", "100ms"), ("OJS_CANCEL_GRACE", "2s")]);
    let mut init = begun(&stage, start, "j1");
    init.notes_line("began j2");
    init.signal(libc::SIGTERM);
    init.ends_with(0);
    for job in ["j1", "j2"] {
        assert_eq!(stage.failure(job)["type"], "ShutdownError");
    }
    assert!(!init.log().contains("SIGKILL"), "{}", init.story());
}

#[test]
fn a_runner_ends_by_itself_when_the_job_beside_a_cut_off_one_has_an_outcome_of_its_own() {
    let script = r#"echo "began $OJS_JOB_ID" >> "$NOTES"
[ "$OJS_JOB_TYPE" = t ] || { echo $$ > "$NOTES.pid"; exec sleep 300; }
trap 'echo term >> "$NOTES"; while kill -0 "$(cat "$NOTES.pid")"; do sleep 0.01; done 2> /dev/null; exit "$STATUS"' TERM
while :; do sleep 0.02; done"#;
    for (status, timeout) in [("75", ""), ("0", ""), ("1", r#","timeout_ms":100"#)] {
        let stage = Stage::new();
        enqueue(&stage, "cut", "cut", &json!([]), "");
        let start = handler(&stage, script).with("STATUS", status);
        let start = start.with_all(&[("OJS_GRACE_PERIOD", "100ms"), ("OJS_CANCEL_GRACE", "9s")]);
        let mut init = begun(&stage, start, "cut");
        enqueue(&stage, "beside", "t", &json!([]), timeout);
        init.notes_line("began beside");
        if !timeout.is_empty() {
            init.notes_line("term");
        }
        init.signal(libc::SIGTERM);
        init.ends_with(0);
        assert_eq!(stage.failure("cut")["type"], "ShutdownError", "{}", init.story());
        match status {
            "75" => assert_eq!(stage.outcomes("beside"), [Outcome::Requeued]),
            "0" => assert_eq!(stage.outcomes("beside"), [Outcome::Acked(None)]),
            _ => assert_eq!(stage.failure("beside")["code"], "timeout"),
        }
        assert!(!init.log().contains("SIGKILL"), "{}", init.story());
    }
}

#[test]
fn what_is_left_is_given_back_where_that_is_wanted() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let start = handler(&stage, STUCK).with_all(&[("OJS_GRACE_PERIOD", "100ms"), ("OJS_LEFTOVERS", "requeue")]);
    let mut init = begun(&stage, start, "j1");
    init.signal(libc::SIGTERM);
    init.ends_with(0);
    assert_eq!(stage.outcomes("j1"), [Outcome::Requeued]);
}

#[test]
fn a_second_sigterm_waits_for_no_job() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = begun(&stage, handler(&stage, STUCK), "j1");
    init.signal(libc::SIGTERM);
    init.logs("SIGTERM");
    init.signal_again(libc::SIGTERM);
    let took = init.ends_with(0);
    assert!(took < Duration::from_secs(8), "{took:?}");
    assert_eq!(stage.failure("j1")["type"], "ShutdownError");
}

#[test]
fn a_hook_that_waits_for_idle_waits_for_the_job() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = begun(&stage, handler(&stage, WAITS), "j1");
    let mut hook = operator::start(&stage, &init, operator::Place::Inside, &["prestop", "--until-idle"]);
    stage.states_become(&["running", "quiet"]);
    never("the hook's end", || !hook.is_running());
    go(&stage);
    assert_eq!(hook.ends().status, Some(0));
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn an_outage_of_the_backend_costs_no_job_and_no_process() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = begun(&stage, handler(&stage, WAITS), "j1");
    stage.backend.refuse_connections();
    stage.backend.drop_connections();
    go(&stage);
    nobody_is_left(&mut init);
    stage.backend.accept_connections();
    stage.becomes("j1", &[Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn when_the_runner_is_killed_its_jobs_go_with_it_and_fail_and_may_be_tried_again() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let mut init = begun(&stage, handler(&stage, STUCK), "j1");
    init.notes_line("began j2");
    let runner = super::runner(&mut init);
    let jobs: Vec<i32> = proc::descendants(runner);
    assert!(jobs.len() >= 2);
    sys::send(runner, libc::SIGKILL).unwrap();
    init.ends_with(128 + libc::SIGKILL);
    for job in ["j1", "j2"] {
        let error = stage.failure(job);
        assert_eq!(
            (&error["code"], &error["retryable"]),
            (&json!("worker_death"), &json!(true)),
            "{error}"
        );
    }
    assert!(jobs.iter().all(|pid| !proc::lives(*pid)));
}

#[test]
fn a_runner_that_is_killed_is_started_again_where_that_is_wanted_and_no_job_of_the_first_is_left() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = r#"echo "began $OJS_JOB_ID" >> "$NOTES"; [ "$OJS_JOB_ID" = j1 ] || exit 0; trap '' TERM; while :; do sleep 0.05; done"#;
    let mut init = begun(&stage, handler(&stage, script).with("OJS_RESTART", "always"), "j1");
    let runner = super::runner(&mut init);
    let jobs = proc::descendants(runner);
    sys::send(runner, libc::SIGKILL).unwrap();
    assert_eq!(stage.failure("j1")["code"], "worker_death");
    enqueue(&stage, "j2", "t", &json!([]), "");
    stage.becomes("j2", &[Outcome::Acked(None)]);
    assert!(wait_until(PATIENCE, || jobs.iter().all(|pid| !proc::lives(*pid))));
    init.stops();
}

#[test]
fn a_job_that_the_backend_cancelled_is_ended() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let start = handler(&stage, WAITS).with("OJS_HEARTBEAT_INTERVAL", "100ms");
    let mut init = begun(&stage, start, "j1");
    stage.backend.cancel("j1");
    init.notes_line("term j1");
    init.logs("(cancelled), ");
    nobody_is_left(&mut init);
    init.stops();
}

#[test]
fn it_is_ready_when_the_runner_is_and_no_job_was_needed_for_that() {
    let stage = Stage::new();
    let mut init = handler(&stage, "true").start();
    stage.wait_for_more(Endpoint::Heartbeat, 1);
    let came = || operator::run(&stage, &init, &["health", "ready"]).status;
    assert!(wait_until(PATIENCE, || came() == Some(0)), "{}", init.story());
    init.stops();
}

#[test]
fn the_runner_ends_when_pid_1_is_killed_right_behind_a_frame() {
    let stage = Stage::new();
    enqueue(&stage, "j1", "t", &json!([]), "");
    let mut init = handler(&stage, "echo begun >> \"$NOTES\"; exec sleep 300")
        .with_all(&[("OJS_CONCURRENCY", "2"), ("OJS_HEARTBEAT_INTERVAL", "100ms")])
        .start_outside_a_namespace();
    init.notes_line("begun");
    let runner = runner(&mut init);
    // The runner, busy for a moment, finds the frame of the next job and the end of the connection
    // together.
    sys::send(runner, libc::SIGSTOP).unwrap();
    enqueue(&stage, "j2", "t", &json!([]), "");
    let given = || init.log().matches("Job given to the worker").count();
    assert!(wait_until(PATIENCE, || given() == 2), "{}", init.story());
    stage.wait_for_more(Endpoint::Heartbeat, 2);
    init.signal(libc::SIGKILL);
    assert!(wait_until(PATIENCE, || !init.is_running()), "{}", init.story());
    sys::send(runner, libc::SIGCONT).unwrap();
    let has_ended = wait_until(PATIENCE, || !proc::lives(runner));
    let _ = sys::send(runner, libc::SIGKILL);
    assert!(has_ended, "{}", init.story());
}
