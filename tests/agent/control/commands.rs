//! quiet, resume, terminate and stop, in each phase that matters.

use std::time::Duration;

use crate::backend::Outcome;
use crate::operator::{OBEYS, Place, Running, run, socket, start, start_as};
use crate::runtime::{STRANGER, make_dead};
use crate::stage::{PATIENCE, Stage};
use crate::support::sys;
use crate::support::wait::{Stopwatch, wait_until};

/// A worker that holds its job and does not mind SIGTERM.
const STUCK: &str = "
note_signals(signal.SIGTERM)
link = Link()
link.ready()
link.job()
link.note_all()
rest()";

#[test]
fn quiet_and_resume_are_done_once_and_so_already_the_second_time() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("job j1");
    for place in [Place::Inside, Place::Outside] {
        start(&stage, &init, place, &["quiet"])
            .ends()
            .says("the worker is quiet now, 1 job active");
        start(&stage, &init, place, &["quiet"])
            .ends()
            .says("the worker is quiet already, 1 job active");
        start(&stage, &init, place, &["resume"])
            .ends()
            .says("the worker runs again, 1 job active");
        start(&stage, &init, place, &["resume"])
            .ends()
            .says("the worker is running already");
    }
    init.notes_times("lifecycle quiet control", 2);
    init.notes_times("lifecycle running control", 2);
    run(&stage, &init, &["quiet"]);
    stage.are_not_fetched([2]);
    assert!(stage.outcomes("j2").is_empty());
}

#[test]
fn terminate_drains_says_how_long_that_may_take_and_has_no_way_back() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("job j1");
    run(&stage, &init, &["terminate"]).says("the worker is terminating, 1 job active: the drain ends in ");
    run(&stage, &init, &["terminate"]).says("nothing changes: the worker is terminating, 1 job active: the drain ends");
    run(&stage, &init, &["quiet"]).says("nothing changes: the worker is terminating");
    run(&stage, &init, &["resume"]).is_refused(1, &["terminate is irreversible", "the drain ends in"]);
    init.notes_line("lifecycle terminate control");
    init.order("ack j1");
    init.ends_with(0);
    stage.becomes("j1", &[Outcome::Acked(None)]);
}

#[test]
fn a_sigterm_after_a_terminate_of_an_operator_forces_nothing() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("job j1");
    run(&stage, &init, &["terminate"]);
    init.signal(libc::SIGTERM);
    init.logs("received SIGTERM");
    run(&stage, &init, &["terminate"]).says("the drain ends in");
    init.order("ack j1");
    init.ends_with(0);
    stage.becomes("j1", &[Outcome::Acked(None)]);
}

#[test]
fn stop_cuts_jobs_off_and_its_own_status_survives_the_sigkill() {
    for before in [&[][..], &["quiet"], &["terminate"]] {
        let stage = Stage::new();
        stage.enqueue([1]);
        let mut init = stage.worker(STUCK).with("OJS_INTERRUPTED_EXIT", "75").start();
        init.notes_line("job j1");
        for word in before {
            run(&stage, &init, &[word]);
        }
        let began = Stopwatch::start();
        run(&stage, &init, &["stop"]).says("the worker is being stopped, 1 job active: ojs-init is gone in ");
        init.ends_with(75);
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
        assert_eq!(stage.failure("j1")["type"], "ShutdownError", "{before:?}");
    }
}

#[test]
fn an_idle_worker_ends_at_once_when_it_is_told_to_terminate() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    run(&stage, &init, &["terminate"]).says("the worker is terminating, no job active");
    init.ends_with(0);
}

#[test]
fn without_an_instance_there_is_an_error_that_says_where_it_looked() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    let elsewhere = stage.at("elsewhere").display().to_string();
    for word in ["quiet", "resume", "terminate", "stop"] {
        run(&stage, &init, &[word, "--runtime-dir", &elsewhere]).is_refused(1, &["no ojs-init", &elsewhere]);
    }
    run(&stage, &init, &["quiet"]).says("quiet now");
}

#[test]
fn a_directory_that_nobody_has_locked_is_no_instance() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    let dead = make_dead(&stage.at("run"), "7-0123abcd");
    let _nobody = std::os::unix::net::UnixListener::bind(dead.join("control.sock")).unwrap();
    run(&stage, &init, &["quiet"]).says("the worker is quiet now");
    init.stops();
    run_outside(&stage).is_refused(1, &["no ojs-init"]);
}

/// A subcommand when no namespace is left to run it in.
fn run_outside(stage: &Stage) -> crate::operator::Came {
    let words = ["quiet"];
    let other = Stage::new();
    let init = other.worker("rest()").start();
    start(stage, &init, Place::Outside, &words).ends()
}

#[test]
fn of_several_instances_one_has_to_be_named() {
    let stage = Stage::new();
    let mut first = stage.worker(OBEYS).named("first").start();
    first.notes_line("ready");
    let path = socket(&stage).parent().unwrap().display().to_string();
    let mut second = stage.worker(OBEYS).named("second").start();
    second.notes_line("ready");
    let outside = |words: &[&str]| start(&stage, &first, Place::Outside, words).ends();
    outside(&["quiet"]).is_refused(1, &["several instances", &path, "--runtime-dir"]);
    outside(&["quiet", "--runtime-dir", &path]).says("the worker is quiet now");
    // The other one is not visible from the first one's namespace.
    run(&stage, &first, &["resume"]).says("the worker runs again");
    first.logs("control socket: client");
    assert!(first.log().contains("asks: Quiet"), "{}", first.log());
    assert!(!second.log().contains("asks: "), "{}", second.log());
}

#[test]
fn another_user_gets_nowhere() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    let came = start_as(&stage, &init, Place::Inside, STRANGER, &["terminate"]).ends();
    came.is_refused(1, &["no ojs-init", "the user that it runs as"]);
    run(&stage, &init, &["quiet"]).says("quiet now");
}

#[test]
fn an_init_that_is_not_root_takes_requests_of_its_user_and_of_root() {
    let stage = Stage::new();
    std::fs::create_dir(stage.at("run")).unwrap();
    std::os::unix::fs::chown(stage.at("run"), Some(STRANGER), Some(STRANGER)).unwrap();
    let user = STRANGER.to_string();
    let mut init = stage
        .worker(OBEYS)
        .through(&[
            "setpriv",
            "--reuid",
            &user,
            "--regid",
            &user,
            "--clear-groups",
            "--no-new-privs",
        ])
        .start();
    init.logs("Worker started");
    let as_user = |words: &[&str]| start_as(&stage, &init, Place::Inside, STRANGER, words).ends();
    as_user(&["quiet"]).says("the worker is quiet now");
    run(&stage, &init, &["resume"]).says("the worker runs again");
    as_user(&["terminate"]).says("terminating");
    assert!(wait_until(PATIENCE, || !init.is_running()), "{}", init.story());
}

#[test]
fn an_init_that_does_not_answer_is_an_error_and_does_it_no_more_when_it_could() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    sys::send(init.pid, libc::SIGSTOP).unwrap();
    let asked = ["quiet", "terminate", "stop"].map(|word| start(&stage, &init, Place::Outside, &[word]));
    let came = asked.map(Running::ends);
    sys::send(init.pid, libc::SIGCONT).unwrap();
    for came in came {
        came.is_refused(1, &["did not answer within 5 s", "may still be carried out"]);
    }
    run(&stage, &init, &["resume"]).says("the worker is running already");
    init.stops();
}

#[test]
fn a_second_stop_ends_the_cancel_grace_and_there_is_no_way_back() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let times = [("OJS_CANCEL_GRACE", "7s"), ("OJS_STOP_MARGIN", "18s")];
    let mut init = stage.worker(STUCK).with_all(&times).start();
    init.notes_line("job j1");
    run(&stage, &init, &["stop"]).says("the worker is being stopped, 1 job active");
    run(&stage, &init, &["resume"]).is_refused(1, &["terminate is irreversible"]);
    let began = Stopwatch::start();
    let came = run(&stage, &init, &["stop"]);
    came.says("the worker is being stopped, 1 job active");
    assert!(!came.stdout.contains("nothing changes"), "{came:?}");
    init.ends_with(0);
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

#[test]
fn a_setting_that_is_wrong_and_not_needed_is_a_warning() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    let broken = stage.at("broken.toml");
    for text in [
        "nonsense",
        "[shutdown]\ngrace_period = \"zzz\"\n",
        "[shutdown]\nx = 1\n[y]\n",
    ] {
        std::fs::write(&broken, text).unwrap();
        let came = run(&stage, &init, &["quiet", "--config", broken.to_str().unwrap()]);
        assert_eq!(came.status, Some(0), "{text}: {came:?}");
        assert!(came.stdout.contains("the worker is quiet"), "{text}: {came:?}");
        assert!(came.stderr.contains("broken.toml"), "{text}: {came:?}");
    }
}
