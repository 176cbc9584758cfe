//! The phases of a shutdown: quiet, drain, stop. What is said and done in each, and in which order.

use std::time::Duration;

use super::course::{course, holding, holding_all, place};
use super::{CUT_SHORT, LISTENS, OBEYS, OFTEN, SELDOM, STUCK};
use crate::backend::{Behaviour, Endpoint, Outcome};
use crate::stage::{Stage, never};
use crate::support::wait::{Stopwatch, Withheld, now};

/// So that nobody has reason to ask for another job.
const ALONE: (&str, &str) = ("OJS_CONCURRENCY", "1");

#[test]
fn p_01_quiet_drain_and_stop_come_in_this_order() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[SELDOM, ALONE, CUT_SHORT[0], CUT_SHORT[1]]);
    stage.states_become(&["running"]);
    let began = now();
    init.stops();
    let expected = [
        "beat quiet [j1]",
        "beat terminate [j1]",
        "fail j1",
        "beat terminate []",
        "deregister",
    ];
    assert_eq!(course(&stage, began), expected);
}

#[test]
fn p_02_no_fetch_follows_and_the_jobs_of_one_that_was_on_its_way_are_handed_back() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[]);
    let late = Behaviour::Delay(Duration::from_millis(400));
    stage.backend.once(Endpoint::Fetch, late);
    stage.wait_for_more(Endpoint::Fetch, 1);
    stage.enqueue([2]);
    let began = now();
    init.signal(libc::SIGTERM);
    stage.becomes("j2", &[Outcome::Requeued]);
    assert!(init.is_running(), "{}", init.story());
    init.order("ack j1");
    init.ends_with(0);
    assert!(!course(&stage, began).contains(&"fetch".to_owned()));
    assert!(!init.notes().contains(&"job j2".to_owned()));
}

#[test]
fn p_03_quiet_is_said_at_once_and_not_only_with_the_next_heartbeat() {
    for signal in [libc::SIGTERM, libc::SIGTSTP] {
        let stage = Stage::new();
        let init = holding(&stage, &[SELDOM]);
        stage.states_become(&["running"]);
        let began = Stopwatch::start();
        init.signal(signal);
        let is_quiet = |beat: &crate::backend::Record| beat.text("state").as_deref() == Some("quiet");
        stage
            .backend
            .wait_for("quiet", crate::stage::PATIENCE, |records| records.iter().any(is_quiet));
        let said = stage.backend.records().into_iter().find(is_quiet).unwrap().at;
        let took = began.until(said);
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
}

#[test]
fn p_04_active_jobs_go_on_as_if_nothing_had_happened() {
    for signal in [libc::SIGTSTP, libc::SIGTERM] {
        let stage = Stage::new();
        let mut init = holding(&stage, &[OFTEN]);
        init.signal(signal);
        init.logs("taking no new jobs");
        never("a cancel", || {
            init.notes().iter().any(|line| line.starts_with("cancel"))
        });
        init.order(r#"progress j1 {"progress":0.5}"#);
        init.notes_line("ok j1 progress");
        init.order("ack j1");
        stage.becomes("j1", &[Outcome::Acked(None)]);
    }
}

#[test]
fn p_05_quiet_refuses_assignments_but_the_worker_stays_registered_until_its_last_job_is_done() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[OFTEN]);
    stage.states_become(&["running"]);
    init.signal(libc::SIGTSTP);
    stage.states_become(&["running", "quiet"]);
    stage.are_not_fetched([2]);
    init.signal(libc::SIGTERM);
    stage.states_become(&["running", "quiet", "terminate"]);
    stage.wait_for_more(Endpoint::Heartbeat, 2);
    assert_eq!(stage.count(Endpoint::Deregister), 0);
    init.order("ack j1");
    init.ends_with(0);
    assert_eq!(stage.backend.records().pop().unwrap().endpoint, Endpoint::Deregister);
    assert!(stage.outcomes("j2").is_empty());
}

#[test]
fn p_06_every_heartbeat_after_the_first_one_says_terminate() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[OFTEN]);
    stage.states_become(&["running"]);
    let began = now();
    init.signal(libc::SIGTERM);
    stage.states_become(&["running", "quiet", "terminate"]);
    stage.wait_for_more(Endpoint::Heartbeat, 3);
    init.order("ack j1");
    init.ends_with(0);
    let beats = stage.backend.records_of(Endpoint::Heartbeat);
    let said = beats
        .iter()
        .filter(|beat| beat.at >= began)
        .filter_map(|beat| beat.text("state"));
    // One may have been on its way.
    let said: Vec<String> = said.skip_while(|state| state == "running").collect();
    assert_eq!(said[0], "quiet");
    assert!(
        said.len() > 4 && said[1..].iter().all(|state| state == "terminate"),
        "{said:?}"
    );
}

#[test]
fn p_07_a_job_that_takes_four_fifths_of_the_grace_period_is_acked() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "
link = Link()
link.ready()
held = link.job()
link.until('lifecycle')
time.sleep(4)
link.ack(held)
link.note_all()";
    let mut init = stage.worker(script).with("OJS_GRACE_PERIOD", "5s").start();
    init.notes_line("job j1");
    let began = now();
    init.stops();
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    assert!(stage.settled_at("j1") - began >= Duration::from_secs(4));
    assert!(!init.log().contains("stop phase"), "{}", init.log());
}

#[test]
fn p_08_heartbeats_go_on_in_the_drain_at_their_interval() {
    let stage = Stage::new();
    let mut init = holding_all(&stage, 2, &[OFTEN]);
    init.signal(libc::SIGTERM);
    stage.states_become(&["running", "quiet", "terminate"]);
    let gap = stage.usual_gap(Endpoint::Heartbeat, 4);
    assert!(gap < Duration::from_millis(300), "{gap:?}");
    init.order("ack j1");
    stage.becomes("j1", &[Outcome::Acked(None)]);
    stage.wait_for_more(Endpoint::Heartbeat, 2);
    let last = stage.backend.records_of(Endpoint::Heartbeat).pop().unwrap().json();
    assert_eq!(last["active_job_ids"], serde_json::json!(["j2"]));
    init.order("ack j2");
    init.ends_with(0);
}

#[test]
fn p_09_what_is_finished_in_the_drain_is_acked_once_although_the_backend_was_busy() {
    let stage = Stage::new();
    let mut init = holding_all(&stage, 5, &[OFTEN]);
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    stage.backend.once(Endpoint::Ack, Behaviour::status(503));
    for number in 1..=5 {
        init.order(&format!("ack j{number}"));
    }
    init.ends_with(0);
    for number in 1..=5 {
        assert_eq!(stage.outcomes(&format!("j{number}")), [Outcome::Acked(None)]);
    }
    assert_eq!((stage.count(Endpoint::Ack), stage.count(Endpoint::Nack)), (6, 0));
}

#[test]
fn p_10_the_log_says_every_5_s_how_many_jobs_are_left() {
    let stage = Stage::new();
    let mut init = holding_all(&stage, 2, &[OFTEN]);
    let began = now();
    init.signal(libc::SIGTERM);
    let line = "Worker draining, 2 jobs in progress";
    for (count, after) in [(1, 0), (2, 5), (3, 10)] {
        let said = || init.log().matches(line).count() >= count;
        assert!(
            crate::support::wait::wait_until(crate::stage::PATIENCE, said),
            "{}",
            init.log()
        );
        let passed = began.elapsed();
        let (from, to) = (Duration::from_secs(after), Duration::from_secs(after + 3));
        assert!(
            passed >= from.saturating_sub(Duration::from_millis(20)) && passed < to,
            "{count}: {passed:?}"
        );
    }
    init.order("ack j1");
    init.order("ack j2");
    init.ends_with(0);
}

#[test]
fn p_11_each_job_that_is_left_at_the_deadline_fails_once_with_shutdown_error() {
    let stage = Stage::new();
    let mut init = holding_all(&stage, 3, &[OFTEN, ("OJS_GRACE_PERIOD", "600ms"), CUT_SHORT[1]]);
    let began = now();
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    init.order("ack j1");
    init.ends_with(0);
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    for job in ["j2", "j3"] {
        assert_eq!(stage.failure(job)["type"], "ShutdownError");
        assert!(stage.settled_at(job) - began >= Duration::from_millis(600));
    }
    assert_eq!(stage.count(Endpoint::Nack), 2);
}

#[test]
fn p_11b_its_code_is_shutdown_with_a_message_for_people_and_both_names_can_be_changed() {
    for (set, [kind, code]) in [
        (["", ""], ["ShutdownError", "shutdown"]),
        (["shutdown", "cancelled"], ["shutdown", "cancelled"]),
    ] {
        let stage = Stage::new();
        let names = [
            ("OJS_INIT_SHUTDOWN_ERROR_TYPE", set[0]),
            ("OJS_INIT_SHUTDOWN_ERROR_CODE", set[1]),
        ];
        let mut init = holding(&stage, &[CUT_SHORT[0], CUT_SHORT[1], names[0], names[1]]);
        init.stops();
        let error = stage.failure("j1");
        assert_eq!(
            (&error["type"], &error["code"]),
            (&kind.into(), &code.into()),
            "{error}"
        );
        assert_eq!(error["message"], "the worker was shut down before the job was finished");
    }
}

#[test]
fn p_12_deregister_comes_after_the_last_outcome_however_long_that_takes() {
    let stage = Stage::new();
    let late = Duration::from_millis(300);
    stage.backend.always(Endpoint::Nack, Behaviour::Delay(late));
    let mut init = holding_all(&stage, 2, &[("OJS_GRACE_PERIOD", "500ms"), CUT_SHORT[1]]);
    let began = now();
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    init.order("ack j1");
    init.ends_with(0);
    let course = course(&stage, began);
    assert!(place(&course, "ack j1") < place(&course, "fail j2"), "{course:?}");
    assert_eq!(course.last().unwrap(), "deregister");
    let left = stage.backend.records().pop().unwrap().at;
    assert!(left - stage.settled_at("j2") >= late);
}

#[test]
fn p_13_the_last_heartbeat_says_terminate_and_no_jobs() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[SELDOM]);
    stage.states_become(&["running"]);
    let began = now();
    init.signal(libc::SIGTERM);
    stage.states_become(&["running", "quiet", "terminate"]);
    init.order("ack j1");
    init.ends_with(0);
    let course = course(&stage, began);
    assert_eq!(
        course[course.len() - 3..],
        ["ack j1", "beat terminate []", "deregister"]
    );
}

#[test]
fn p_14_terminated_is_said_when_the_worker_leaves_and_in_a_heartbeat_where_that_is_configured() {
    for (configured, last_beats) in [
        ("", &["beat terminate []"][..]),
        ("terminated", &["beat terminated []"]),
        ("both", &["beat terminate []", "beat terminated []"]),
    ] {
        let stage = Stage::new();
        let mut init = holding(&stage, &[SELDOM, ALONE, ("OJS_FINAL_STATE", configured)]);
        stage.states_become(&["running"]);
        init.signal(libc::SIGTERM);
        stage.states_become(&["running", "quiet", "terminate"]);
        let began = now();
        init.order("ack j1");
        init.ends_with(0);
        let course = course(&stage, began);
        assert_eq!(course[1..course.len() - 1], *last_beats, "{configured}");
        let last = stage.backend.records().pop().unwrap();
        assert_eq!(last.endpoint, Endpoint::Deregister);
        assert_eq!(last.text("state").as_deref(), Some("terminated"));
    }
}

#[test]
fn p_15_the_status_is_0_whether_or_not_the_grace_period_ran_out() {
    for is_done in [true, false] {
        let stage = Stage::new();
        let mut init = holding(&stage, &CUT_SHORT);
        if is_done {
            init.order("ack j1");
            init.notes_line("ok j1 ack");
        }
        init.signal(libc::SIGTERM);
        init.ends_with(0);
        assert_eq!(matches!(stage.outcomes("j1")[..], [Outcome::Acked(_)]), is_done);
    }
}

#[test]
fn p_16_the_stop_phase_cancels_what_is_left_and_ends_within_its_margin() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let limit = ("OJS_TERMINATION_GRACE_PERIOD", "3s");
    let mut init = stage
        .worker(STUCK)
        .with_all(&[limit, ("OJS_GRACE_PERIOD", "200ms")])
        .start();
    init.notes_line("job j1");
    let began = Stopwatch::start();
    init.signal(libc::SIGTERM);
    init.notes_line("cancel shutdown j1");
    init.ends_with(0);
    // A margin of half of the limit, after the drain.
    assert!(began.elapsed() < Duration::from_millis(1700), "{:?}", began.elapsed());
    assert_eq!(stage.failure("j1")["type"], "ShutdownError");
}

#[test]
fn p_17_a_job_whose_fail_nobody_answers_is_left_to_its_visibility_timeout_and_the_exit_is_in_time() {
    let stage = Stage::new();
    stage.backend.always(Endpoint::Nack, Behaviour::Hang);
    let limit = ("OJS_TERMINATION_GRACE_PERIOD", "2s");
    let mut init = holding(&stage, &[limit, ("OJS_GRACE_PERIOD", "100ms")]);
    let began = Stopwatch::start();
    init.stops();
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(stage.outcomes("j1").is_empty());
    assert_eq!((stage.count(Endpoint::Nack), stage.count(Endpoint::Deregister)), (1, 1));
    let is_it = |line: &str| line.contains("Job left to its visibility timeout") && line.contains("[job j1, t");
    assert!(init.log().lines().any(is_it), "{}", init.log());
}

#[test]
fn p_18_a_quiet_of_the_server_uses_up_nothing_of_the_grace_period() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage
        .worker(LISTENS)
        .with_all(&[OFTEN, ("OJS_GRACE_PERIOD", "150ms"), CUT_SHORT[1]])
        .start();
    init.notes_line("job j1");
    stage.backend.direct("active", "quiet");
    stage.states_become(&["running", "quiet"]);
    // Twice the grace period.
    never("an end in quiet", || !init.is_running());
    let began = now();
    stage.backend.direct("active", "terminate");
    assert_eq!(init.noted("terminate"), "150");
    init.ends_with(0);
    assert!(stage.settled_at("j1") - began >= Duration::from_millis(150));
}

#[test]
fn p_19_a_server_that_says_terminate_starts_the_same_sequence_as_sigterm() {
    let courses = [true, false].map(|is_signal| {
        let stage = Stage::new();
        let mut init = holding(&stage, &[OFTEN, ALONE]);
        stage.states_become(&["running"]);
        let began = now();
        if is_signal {
            init.signal(libc::SIGTERM);
        } else {
            stage.backend.direct("active", "terminate");
        }
        stage.states_become(&["running", "quiet", "terminate"]);
        init.order("ack j1");
        init.ends_with(0);
        let mut course = course(&stage, began);
        course.dedup();
        course.retain(|line| line != "beat running [j1]");
        course
    });
    assert_eq!(courses[0], courses[1]);
    assert_eq!(courses[0].last().unwrap(), "deregister");
}

#[test]
fn p_20_after_the_last_ack_nothing_waits_for_the_grace_period() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[("OJS_GRACE_PERIOD", "35s")]);
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    let withheld = Withheld::measure();
    init.order("ack j1");
    init.ends_with(0);
    let after = stage.settled_at("j1").elapsed().saturating_sub(withheld.so_far());
    assert!(after < Duration::from_secs(2), "{after:?}");
}

#[test]
fn p_20_a_worker_without_a_job_ends_at_once() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).with("OJS_GRACE_PERIOD", "35s").start();
    init.notes_line("ready");
    init.signal(libc::SIGTERM);
    let took = init.ends_with(0);
    assert!(took < Duration::from_secs(2), "{took:?}");
}
