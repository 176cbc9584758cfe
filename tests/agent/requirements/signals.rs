//! Signals: what each asks for, and what it does not.

use std::time::Duration;

use super::course::{course, holding, place};
use super::{CUT_SHORT, LISTENS, OBEYS, OFTEN, REGULAR, SELDOM};
use crate::backend::{Endpoint, Outcome};
use crate::stage::{PATIENCE, Stage, never};
use crate::support::wait::{Stopwatch, now, wait_until};
use crate::support::{proc, sys};

#[test]
fn s_01_sigterm_lets_the_active_job_finish_while_heartbeats_go_on_and_the_status_is_0() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[OFTEN]);
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    stage.are_not_fetched([2]);
    stage.wait_for_more(Endpoint::Heartbeat, 3);
    init.order("ack j1");
    init.ends_with(0);
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    assert!(stage.outcomes("j2").is_empty());
}

#[test]
fn s_02_sigint_is_as_sigterm() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[OFTEN]);
    init.signal(libc::SIGINT);
    init.notes_line("lifecycle terminate sigint");
    stage.states_become(&["running", "quiet", "terminate"]);
    never("an end before the job is done", || !init.is_running());
    init.order("ack j1");
    init.ends_with(0);
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    assert_eq!(stage.count(Endpoint::Deregister), 1);
}

#[test]
fn s_03_sigint_twice_or_configured_as_stop_cuts_the_job_off_and_still_says_goodbye() {
    for (times, sigint) in [(2, "graceful"), (1, "stop")] {
        let stage = Stage::new();
        let mut init = holding(&stage, &[("OJS_SIGINT", sigint), CUT_SHORT[1]]);
        let began = Stopwatch::start();
        for count in 1..=times {
            init.signal_again(libc::SIGINT);
            let read = wait_until(PATIENCE, || init.log().matches("received SIGINT").count() >= count);
            assert!(read, "{}", init.story());
        }
        init.ends_with(0);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        assert_eq!(stage.failure("j1")["details"]["kind"], "forced");
        assert_eq!(stage.backend.records().pop().unwrap().endpoint, Endpoint::Deregister);
    }
}

#[test]
fn s_03_sigint_configured_as_exit_leaves_the_job_to_its_reservation() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[("OJS_SIGINT", "exit")]);
    init.signal(libc::SIGINT);
    let took = init.ends_with(130);
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(stage.count(Endpoint::Nack) + stage.count(Endpoint::Deregister), 0);
}

#[test]
fn s_04_sigtstp_stops_no_process_and_the_worker_outlives_its_grace_period() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[OFTEN, ("OJS_GRACE_PERIOD", "100ms")]);
    let worker = proc::children(init.pid)[0];
    init.signal(libc::SIGTSTP);
    stage.states_become(&["running", "quiet"]);
    // Three times the grace period.
    never("an end in quiet", || !init.is_running());
    for pid in [init.pid, worker] {
        assert!(proc::stat(pid).is_some_and(|stat| stat.state != 'T'));
    }
    init.order("ack j1");
    stage.becomes("j1", &[Outcome::Acked(None)]);
    assert!(init.is_running());
}

#[test]
fn s_05_sigcont_ends_a_quiet_and_jobs_are_fetched_within_a_polling_interval() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).with(SELDOM.0, SELDOM.1).start();
    init.notes_line("ready");
    init.signal(libc::SIGTSTP);
    stage.states_become(&["running", "quiet"]);
    stage.are_not_fetched([1]);
    let (resumed, began) = (now(), Stopwatch::start());
    init.signal(libc::SIGCONT);
    init.notes_line("lifecycle running sigcont");
    init.notes_line("job j1");
    let fetches = stage.backend.records_of(Endpoint::Fetch);
    let first = fetches.iter().find(|fetch| fetch.at >= resumed).unwrap();
    let took = began.until(first.at);
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[test]
fn s_06_sigcont_in_terminate_changes_nothing() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[SELDOM]);
    stage.states_become(&["running"]);
    init.signal(libc::SIGTERM);
    stage.states_become(&["running", "quiet", "terminate"]);
    init.signal_again(libc::SIGCONT);
    init.logs("SIGCONT: nothing changes: terminate is irreversible");
    stage.are_not_fetched([2]);
    init.order("ack j1");
    init.ends_with(0);
    assert_eq!(stage.states(), ["running", "quiet", "terminate"]);
    assert!(stage.outcomes("j2").is_empty());
}

#[test]
fn s_07_sigtstp_while_running_is_quiet_for_the_backend_and_the_worker() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).with(SELDOM.0, SELDOM.1).start();
    init.notes_line("ready");
    stage.states_become(&["running"]);
    init.signal(libc::SIGTSTP);
    init.notes_line("lifecycle quiet sigtstp");
    stage.states_become(&["running", "quiet"]);
    stage.are_not_fetched([1]);
    assert!(!init.notes().contains(&"job j1".to_owned()));
    init.stops();
}

#[test]
fn s_08_sigterm_while_running_is_quiet_then_drain_then_stop() {
    let stage = Stage::new();
    let mut init = holding(&stage, &CUT_SHORT);
    init.stops();
    let log = init.log();
    let said = [
        "SIGTERM: terminating, taking no new jobs",
        "Worker draining, 1 job in progress",
        "stop phase: the grace period is over, cancelling 1 job",
        "Job failed, will retry: ShutdownError",
        "Worker stopped; 1 job cut off",
    ];
    let places: Vec<Option<usize>> = said.iter().map(|text| log.find(text)).collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{places:?} {log}"
    );
}

#[test]
fn s_09_the_drain_of_a_quiet_worker_begins_with_sigterm_and_so_does_its_grace_period() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage
        .worker(LISTENS)
        .with_all(&[SELDOM, ("OJS_GRACE_PERIOD", "200ms"), CUT_SHORT[1]])
        .start();
    init.notes_line("job j1");
    init.signal(libc::SIGTSTP);
    stage.states_become(&["running", "quiet"]);
    // Longer than the grace period.
    never("an end in quiet", || !init.is_running());
    let began = now();
    init.stops();
    assert_eq!(init.noted("terminate"), "200");
    assert!(stage.settled_at("j1") - began >= Duration::from_millis(200));
    // Quiet is not said a second time.
    let course = course(&stage, began);
    assert_eq!(course[0], "beat terminate [j1]", "{course:?}");
}

#[test]
fn s_10_a_second_sigterm_cuts_the_drain_short_and_the_job_fails_as_interrupted() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[("OJS_INTERRUPTED_EXIT", "75"), ("OJS_GRACE_PERIOD", "35s")]);
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    init.signal_again(libc::SIGTERM);
    let took = init.ends_with(75);
    assert!(took < Duration::from_secs(5), "{took:?}");
    let error = stage.failure("j1");
    assert_eq!(error["type"], "ShutdownError", "{error}");
    assert_eq!(error["details"]["kind"], "forced", "{error}");
    assert_eq!(error["retryable"], true);
}

#[test]
fn s_11_sigterm_is_no_exit_while_a_job_is_active() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[]);
    let worker = proc::children(init.pid)[0];
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    never("an end of ours or of the worker", || {
        !init.is_running() || !proc::lives(worker)
    });
    init.order("ack j1");
    init.ends_with(0);
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
}

#[test]
fn s_12_sigterm_works_as_pid_1_and_as_any_other_process() {
    for is_pid_1 in [true, false] {
        let stage = Stage::new();
        stage.enqueue([1]);
        let start = stage.worker(OBEYS).with(SELDOM.0, SELDOM.1);
        let shell = ["sh", "-c", r#""$0" "$@"; exit $?"#];
        let mut init = if is_pid_1 {
            start.start()
        } else {
            start.through(&shell).start()
        };
        init.notes_line("job j1");
        stage.states_become(&["running"]);
        let ours = if is_pid_1 {
            init.pid
        } else {
            proc::children(init.pid)[0]
        };
        assert_eq!(proc::inner_pid(ours) == Some(1), is_pid_1);
        sys::send(ours, libc::SIGTERM).unwrap();
        stage.states_become(&["running", "quiet", "terminate"]);
        init.order("ack j1");
        init.ends_with(0);
        assert_eq!(stage.states(), ["running", "quiet", "terminate"]);
        assert_eq!(stage.count(Endpoint::Deregister), 1);
    }
}

#[test]
fn s_13_sigterm_ends_the_fetching_then_the_worker_and_the_backend_hears_it_in_order() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[SELDOM]);
    stage.states_become(&["running"]);
    let began = now();
    init.signal(libc::SIGTERM);
    stage.states_become(&["running", "quiet", "terminate"]);
    init.order("ack j1");
    init.ends_with(0);
    let course = course(&stage, began);
    let order =
        ["beat quiet [j1]", "beat terminate [j1]", "ack j1", "beat terminate []"].map(|line| place(&course, line));
    assert!(order.is_sorted(), "{course:?}");
    // One FETCH may have been on its way.
    let fetches = course.iter().filter(|line| *line == "fetch").count();
    assert!(fetches <= 1, "{course:?}");
    assert_eq!(course.last().unwrap(), "deregister");
}

#[test]
fn s_14_without_any_signal_the_answers_to_heartbeats_do_the_same() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[REGULAR]);
    stage.backend.direct("quiet", "");
    init.notes_line("lifecycle quiet server");
    stage.fetches_have_stopped();
    stage.backend.direct("terminate", "");
    init.notes_line("lifecycle terminate server");
    init.order("ack j1");
    init.ends_with(0);
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    assert_eq!(stage.states(), ["running", "quiet", "terminate"]);
    assert!(!init.log().contains("received SIGT"), "{}", init.log());
}
