//! `health`, in each phase and where nobody can be asked.

use std::time::Duration;

use super::STUCK;
use crate::operator::{OBEYS, Place, run, start};
use crate::runtime::STRANGER;
use crate::stage::{Init, PATIENCE, Stage};
use crate::support::sys;
use crate::support::wait::wait_until;

/// The exit statuses of `health`, `health live` and `health ready`.
fn statuses(stage: &Stage, init: &Init) -> [i32; 3] {
    [&["health"][..], &["health", "live"], &["health", "ready"]].map(|words| {
        let came = run(stage, init, words);
        assert_eq!((came.stdout.lines().count(), came.stderr.as_str()), (1, ""), "{came:?}");
        came.status.unwrap()
    })
}

fn become_(stage: &Stage, init: &Init, expected: [i32; 3]) {
    let reached = wait_until(PATIENCE, || statuses(stage, init) == expected);
    assert!(reached, "{:?} instead of {expected:?}", statuses(stage, init));
}

fn says(stage: &Stage, init: &Init, words: &[&str], expected: &str) {
    assert_eq!(run(stage, init, words).stdout, format!("{expected}\n"));
}

#[test]
fn the_exit_status_of_each_phase_is_that_of_the_endpoint() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let times = [("OJS_CANCEL_GRACE", "7s"), ("OJS_STOP_MARGIN", "18s")];
    let mut init = stage.worker(STUCK).with_all(&times).start();
    init.notes_line("job j1");
    become_(&stage, &init, [0, 0, 0]);
    says(&stage, &init, &["health"], "healthy");
    says(&stage, &init, &["health", "live"], "live");
    says(&stage, &init, &["health", "ready"], "ready");
    run(&stage, &init, &["quiet"]);
    become_(&stage, &init, [1, 0, 1]);
    says(
        &stage,
        &init,
        &["health"],
        "not healthy: no new jobs are taken: an operator, a preStop hook or the backend asked for quiet; \
         `ojs-init status` says which",
    );
    init.signal(libc::SIGTERM);
    init.logs("received SIGTERM");
    become_(&stage, &init, [1, 0, 1]);
    says(&stage, &init, &["health", "ready"], "not ready: it is shutting down");
    run(&stage, &init, &["stop"]);
    init.ends_with(0);
}

#[test]
fn in_the_stop_phase_it_is_alive_and_no_more() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let times = [("OJS_CANCEL_GRACE", "7s"), ("OJS_STOP_MARGIN", "18s")];
    let mut init = stage.worker(STUCK).with_all(&times).start();
    init.notes_line("job j1");
    run(&stage, &init, &["stop"]);
    become_(&stage, &init, [1, 0, 1]);
    run(&stage, &init, &["stop"]);
    init.ends_with(0);
}

#[test]
fn a_worker_that_has_not_said_ready_is_alive_and_not_ready() {
    let stage = Stage::new();
    let mut init = stage.worker("rest()").start();
    init.logs("Worker started");
    become_(&stage, &init, [0, 0, 1]);
    let came = run(&stage, &init, &["health", "ready"]);
    assert!(
        came.stdout
            .starts_with("not ready: no connection of the worker has said ready"),
        "{came:?}"
    );
    init.stops();
}

#[test]
fn who_cannot_be_asked_is_neither_well_nor_unwell() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    let elsewhere = stage.at("elsewhere").display().to_string();
    run(&stage, &init, &["health", "--runtime-dir", &elsewhere]).is_refused(2, &["no ojs-init", &elsewhere]);
    run(&stage, &init, &["health", "well"]).is_refused(2, &["well", "ojs-init health [live|ready]"]);
    let came = crate::operator::start_as(&stage, &init, Place::Inside, STRANGER, &["health"]).ends();
    came.is_refused(2, &["no ojs-init"]);
    init.stops();
}

#[test]
fn a_loop_that_is_stuck_is_told_within_a_second() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    sys::send(init.pid, libc::SIGSTOP).unwrap();
    let came = start(&stage, &init, Place::Outside, &["health", "live"]).ends();
    sys::send(init.pid, libc::SIGCONT).unwrap();
    came.is_refused(2, &["did not answer within"]);
    assert!(came.took_itself < Duration::from_millis(1_500), "{came:?}");
    init.stops();
}
