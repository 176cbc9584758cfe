//! Lessons of two other projects about their shutdowns, as promises of ours.

use std::path::Path;
use std::time::Duration;

use super::course::{course, holding, holding_all, place};
use super::{CUT_SHORT, LISTENS, OBEYS, OFTEN, REGULAR, SELDOM, STUCK};
use crate::backend::{Behaviour, Endpoint, Outcome};
use crate::stage::{PATIENCE, Stage, never};
use crate::support::proc;
use crate::support::wait::{Stopwatch, now, wait_until};

const LIMIT: &str = "OJS_TERMINATION_GRACE_PERIOD";
const ALONE: (&str, &str) = ("OJS_CONCURRENCY", "1");

#[test]
fn a_01_the_exit_is_in_time_although_the_worker_is_stuck_and_the_backend_answers_nothing() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(STUCK).with_all(&[(LIMIT, "2s"), OFTEN]).start();
    init.notes_line("job j1");
    for endpoint in [
        Endpoint::Heartbeat,
        Endpoint::Fetch,
        Endpoint::Nack,
        Endpoint::Deregister,
    ] {
        stage.backend.always(endpoint, Behaviour::Hang);
    }
    let began = Stopwatch::start();
    init.stops();
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[test]
fn a_02_the_intake_is_closed_first_and_a_slot_that_gets_free_later_stays_free() {
    let stage = Stage::new();
    let mut init = holding_all(&stage, 2, &[OFTEN, ("OJS_CONCURRENCY", "2")]);
    stage.enqueue([3]);
    let began = now();
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    init.order("ack j1");
    stage.becomes("j1", &[Outcome::Acked(None)]);
    stage.wait_for_more(Endpoint::Heartbeat, 3);
    init.order("ack j2");
    init.ends_with(0);
    assert!(!course(&stage, began).contains(&"fetch".to_owned()));
    assert!(stage.outcomes("j3").is_empty());
}

#[test]
fn a_03_every_job_that_was_accepted_has_one_outcome() {
    let stage = Stage::new();
    let mut init = holding_all(&stage, 5, &[OFTEN, ("OJS_GRACE_PERIOD", "600ms"), CUT_SHORT[1]]);
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    init.order("ack j1");
    init.order(r#"fail j2 {"error":{"message":"no"}}"#);
    init.order("release j3");
    init.ends_with(0);
    stage.backend.assert_one_outcome_each();
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    assert_eq!(stage.failure("j2")["message"], "no");
    assert_eq!(stage.outcomes("j3"), [Outcome::Requeued]);
    for job in ["j4", "j5"] {
        assert_eq!(stage.failure(job)["type"], "ShutdownError");
    }
}

#[test]
fn a_04_a_report_that_hangs_is_logged_and_keeps_nothing_else_from_its_turn() {
    let stage = Stage::new();
    stage.backend.once(Endpoint::Nack, Behaviour::Hang);
    let mut init = holding_all(&stage, 2, &[(LIMIT, "2s"), CUT_SHORT[0], CUT_SHORT[1]]);
    let began = now();
    init.stops();
    let failed = ["j1", "j2"].map(|job| stage.outcomes(job).len());
    assert_eq!(failed.iter().sum::<usize>(), 1, "{failed:?}");
    let course = course(&stage, began);
    assert_eq!(course[course.len() - 2..], ["beat terminate []", "deregister"]);
    let complaints = init.complaints().join("\n");
    assert!(
        complaints.contains("Job left to its visibility timeout"),
        "{complaints}"
    );
}

#[test]
fn a_05_a_grace_period_of_0_is_no_drain_and_an_empty_one_is_the_default() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[("OJS_SHUTDOWN_GRACE_PERIOD", "0s"), CUT_SHORT[1]]);
    let began = Stopwatch::start();
    init.stops();
    assert!(
        init.log().contains("after a stop signal jobs get 0 s"),
        "{}",
        init.log()
    );
    let took = began.until(stage.settled_at("j1"));
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(stage.failure("j1")["type"], "ShutdownError");

    let stage = Stage::new();
    let mut init = stage.command(&["true"]).with("OJS_SHUTDOWN_GRACE_PERIOD", "").start();
    init.logs("after a stop signal jobs get 30 s");
}

#[test]
fn a_06_a_grace_period_that_equals_the_limit_leaves_no_margin_and_is_cut_with_a_warning() {
    let stage = Stage::new();
    let settings = [("OJS_SHUTDOWN_GRACE_PERIOD", "30s"), (LIMIT, "30s")];
    let mut init = stage.command(&["true"]).with_all(&settings).start();
    init.logs("ojs-init: warn: after a stop signal jobs get 25 s, not the grace period of 30 s");
    assert!(init.log().contains("is cut to 25s"), "{}", init.log());
}

#[test]
fn a_07_nothing_is_cancelled_and_no_process_is_signalled_while_the_drain_lasts() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "
note_signals(signal.SIGTERM)
link = Link()
link.ready()
link.obey()";
    let mut init = stage.worker(script).with(OFTEN.0, OFTEN.1).start();
    init.notes_line("job j1");
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    never("a cancel or a signal", || {
        let is_it = |line: &String| line.starts_with("cancel") || line.starts_with("signal");
        init.notes().iter().any(is_it)
    });
    init.order("ack j1");
    stage.becomes("j1", &[Outcome::Acked(None)]);
    init.notes_line("signal 15");
}

#[test]
fn a_08_the_teardown_is_in_order_and_the_worker_socket_is_gone_at_the_end() {
    let stage = Stage::new();
    let mut init = holding_all(&stage, 2, &[SELDOM, ("OJS_GRACE_PERIOD", "600ms"), CUT_SHORT[1]]);
    let environment = std::fs::read(format!("/proc/{}/environ", proc::children(init.pid)[0])).unwrap();
    let environment = String::from_utf8(environment).unwrap();
    let socket = environment
        .split('\0')
        .find_map(|entry| entry.strip_prefix("OJS_SOCKET="));
    let is_there = || Path::new(socket.unwrap()).exists();
    assert!(is_there());
    let began = now();
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    init.order("ack j1");
    init.ends_with(0);
    let course = course(&stage, began);
    let steps = [
        "beat quiet [j1 j2]",
        "ack j1",
        "fail j2",
        "beat terminate []",
        "deregister",
    ];
    let places = steps.map(|step| place(&course, step));
    assert!(places.is_sorted() && places[4] == course.len() - 1, "{course:#?}");
    assert!(!is_there());
}

#[test]
fn a_09_one_report_that_fails_holds_up_no_other_and_they_go_out_side_by_side() {
    let stage = Stage::new();
    let slow = Duration::from_millis(300);
    stage.backend.once(Endpoint::Nack, Behaviour::status(500));
    stage.backend.always(Endpoint::Nack, Behaviour::Delay(slow));
    let mut init = holding_all(&stage, 10, &CUT_SHORT);
    init.stops();
    let outcomes = stage.backend.outcomes();
    let failed = outcomes
        .values()
        .filter(|all| matches!(all[..], [Outcome::Failed(_)]))
        .count();
    assert!(failed >= 9, "{outcomes:?}");
    let nacks = stage.backend.records_of(Endpoint::Nack);
    let span = nacks[9].at - nacks[0].at;
    assert!(span < slow * 4, "{span:?}");
}

#[test]
fn a_10_connections_to_the_backend_last_until_deregister_is_answered() {
    let stage = Stage::new();
    let slow = Duration::from_millis(400);
    stage.backend.always(Endpoint::Deregister, Behaviour::Delay(slow));
    let mut init = holding(&stage, &CUT_SHORT);
    init.stops();
    let left = stage.backend.records().pop().unwrap();
    assert_eq!(left.endpoint, Endpoint::Deregister);
    assert!(left.at.elapsed() >= slow, "{:?}", left.at.elapsed());
    assert!(
        init.complaints().iter().all(|line| !line.contains("deregister")),
        "{}",
        init.log()
    );
}

#[test]
fn a_11_the_drain_waits_for_jobs_and_for_no_fixed_time() {
    for jobs in [0, 1] {
        let stage = Stage::new();
        let mut init = holding_all(&stage, jobs, &[OFTEN]);
        stage.states_become(&["running"]);
        init.notes_line("ready");
        let began = Stopwatch::start();
        init.signal(libc::SIGTERM);
        if jobs == 1 {
            init.order("ack j1");
        }
        init.ends_with(0);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        assert!(
            stage
                .backend
                .outcomes()
                .values()
                .all(|all| *all == [Outcome::Acked(None)])
        );
    }
}

#[test]
fn a_12_one_deadline_holds_for_everything_pauses_included() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let pauses = [("OJS_TERM_DELAY", "1900ms"), ("OJS_CANCEL_GRACE", "30s")];
    let mut init = stage.worker(STUCK).with_all(&[(LIMIT, "2s")]).with_all(&pauses).start();
    init.notes_line("job j1");
    let began = Stopwatch::start();
    init.stops();
    let took = began.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(stage.failure("j1")["type"], "ShutdownError");
}

#[test]
fn a_13_whoever_asks_and_however_often_the_shutdown_runs_once() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[REGULAR, CUT_SHORT[1]]);
    // Asked with the answer to each heartbeat, then by a signal, then by a signal that forces.
    stage.backend.direct("terminate", "terminate");
    init.notes_line("lifecycle terminate server");
    stage.wait_for_more(Endpoint::Heartbeat, 3);
    init.signal(libc::SIGTERM);
    init.logs("SIGTERM: nothing changes");
    never("an end that was not forced", || !init.is_running());
    init.signal_again(libc::SIGTERM);
    init.ends_with(0);
    let told = init
        .notes()
        .into_iter()
        .filter(|line| line.starts_with("lifecycle"))
        .count();
    assert_eq!(
        (told, init.log().matches("terminating").count()),
        (1, 1),
        "{}",
        init.log()
    );
    assert_eq!(stage.states(), ["running", "quiet", "terminate"]);
    assert_eq!((stage.count(Endpoint::Nack), stage.count(Endpoint::Deregister)), (1, 1));
}

#[test]
fn a_14_a_drain_longer_than_the_supervisor_allows_is_cut_and_the_worker_knows() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let settings = [("OJS_SHUTDOWN_GRACE_PERIOD", "15s"), (LIMIT, "10s")];
    let mut init = stage.worker(LISTENS).with_all(&settings).start();
    init.notes_line("job j1");
    init.logs("ojs-init: warn: after a stop signal jobs get 5 s, not the grace period of 15 s");
    init.signal(libc::SIGTERM);
    assert_eq!(init.noted("terminate"), "5000");
}

#[test]
fn a_15_nothing_is_fetched_before_the_worker_says_ready_and_a_late_one_is_a_warning() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "
link = Link()
link.until('hello')
while not orders():
    time.sleep(0.01)
link.say('ready', protocol=1, concurrency=1)
link.work()";
    let mut init = stage.worker(script).with("OJS_READY_TIMEOUT", "200ms").start();
    init.logs("ojs-init: warn: the worker has not said ready");
    assert_eq!(stage.count(Endpoint::Fetch), 0);
    init.order("go on");
    stage.wait_for_outcomes();
    init.stops();
}

#[test]
fn a_16_each_step_of_the_shutdown_is_one_line_of_the_log_with_what_came_of_it() {
    let stage = Stage::new();
    stage.backend.always(Endpoint::Deregister, Behaviour::status(500));
    let mut init = holding_all(&stage, 2, &[OFTEN, ("OJS_GRACE_PERIOD", "600ms"), CUT_SHORT[1]]);
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    init.order("ack j1");
    init.ends_with(0);
    let log = init.log();
    let steps = [
        "info: SIGTERM: terminating",
        "info: Worker draining, 2 jobs in progress",
        "info: Job completed successfully [job j1, t",
        "warn: stop phase: the grace period is over, cancelling 1 job",
        "warn: SIGKILL to the worker's processes that are left, which hold 1 job",
        "warn: Job failed, will retry: ShutdownError",
        "warn: deregistration failed",
        "warn: Worker stopped; 1 job cut off, 0 jobs finished and not reported; exit status 0",
    ];
    let places = steps.map(|step| log.find(step));
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{places:?} {log}"
    );
}

#[test]
fn a_17_words_that_the_backend_does_not_take_at_the_end_are_warnings_and_the_status_is_0() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[SELDOM]);
    stage.states_become(&["running"]);
    init.signal(libc::SIGTERM);
    stage.states_become(&["running", "quiet", "terminate"]);
    stage.backend.always(Endpoint::Heartbeat, Behaviour::status(500));
    stage.backend.always(Endpoint::Deregister, Behaviour::status(500));
    init.order("ack j1");
    init.ends_with(0);
    let complaints = init.complaints().join("\n");
    for what in ["final heartbeat failed", "deregistration failed"] {
        assert!(complaints.contains(what), "{complaints}");
    }
    assert!(init.log().contains("exit status 0"), "{}", init.log());
}

#[test]
fn a_18_sigterm_and_sigint_are_alike_and_after_a_sigkill_the_reservation_is_the_net() {
    let courses = [libc::SIGTERM, libc::SIGINT].map(|signal| {
        let stage = Stage::new();
        let mut init = holding(&stage, &[SELDOM, ALONE, CUT_SHORT[0], CUT_SHORT[1]]);
        stage.states_become(&["running"]);
        let began = now();
        init.signal(signal);
        init.ends_with(0);
        course(&stage, began)
    });
    assert_eq!(courses[0], courses[1]);

    let stage = Stage::new();
    stage.backend.reserve_for(Duration::from_millis(300));
    let mut killed = holding(&stage, &[OFTEN]);
    killed.signal(libc::SIGKILL);
    assert!(wait_until(PATIENCE, || !killed.is_running()));
    let mut next = stage.worker(OBEYS).named("next").with(OFTEN.0, OFTEN.1).start();
    next.notes_line("job j1");
    next.order("ack j1");
    stage.becomes("j1", &[Outcome::Lapsed, Outcome::Acked(None)]);
}
