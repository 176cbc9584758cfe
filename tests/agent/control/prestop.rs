//! The preStop hook: what it waits for, and that it ends well whatever happens.

use std::time::Duration;

use crate::backend::Outcome;
use crate::operator::{Came, OBEYS, Place, run, start, start_unread};
use crate::stage::{Init, PATIENCE, Stage, never};
use crate::support::sys;
use crate::support::wait::wait_until;

/// A hook ended well and said nothing on standard error.
#[track_caller]
fn ended_well(came: &Came, words: &str) {
    came.says(words);
}

#[test]
fn a_hook_quiets_the_worker_and_returns_after_its_time() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("job j1");
    let came = run(&stage, &init, &["prestop", "--for", "700ms"]);
    ended_well(&came, "the worker is quiet, 1 job active");
    let in_time = Duration::from_millis(700)..Duration::from_secs(4);
    assert!(in_time.contains(&came.took), "{came:?}");
    init.notes_line("lifecycle quiet control");
    stage.are_not_fetched([2]);
}

#[test]
fn a_hook_returns_as_soon_as_no_job_is_active() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("job j1");
    let mut hook = start(&stage, &init, Place::Inside, &["prestop", "--until-idle"]);
    init.notes_line("lifecycle quiet control");
    never("the end of a hook while a job is active", || !hook.is_running());
    init.order("ack j1");
    let came = hook.ends();
    ended_well(&came, "no job is left: the worker is quiet, no job active");
    stage.becomes("j1", &[Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn a_hook_waits_for_no_job_longer_than_the_drain_allows_and_the_sigterm_has_what_is_left() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage
        .worker(OBEYS)
        .with_all(&[("OJS_TERMINATION_GRACE_PERIOD", "4s"), ("OJS_STOP_MARGIN", "2s")])
        .start();
    init.notes_line("job j1");
    let came = run(&stage, &init, &["prestop", "--until-idle"]);
    ended_well(&came, "the worker is quiet, 1 job active");
    assert!(came.took > Duration::from_millis(1_900), "{came:?}");
    let came = run(&stage, &init, &["prestop", "--for", "1m"]);
    ended_well(&came, "the worker is quiet, 1 job active");
    init.signal(libc::SIGTERM);
    init.notes_line("cancel shutdown j1");
    let took = init.ends_with(0);
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(stage.failure("j1")["type"], "ShutdownError");
}

#[test]
fn the_second_hook_ends_well_as_the_first_one() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    let first = start(&stage, &init, Place::Inside, &["prestop", "--for", "300ms"]);
    let second = start(&stage, &init, Place::Inside, &["prestop", "--for", "300ms"]);
    ended_well(&first.ends(), "the worker is quiet");
    ended_well(&second.ends(), "the worker is quiet");
    init.stops();
}

#[test]
fn a_hook_after_the_sigterm_waits_with_the_drain() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("job j1");
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    let came = run(&stage, &init, &["prestop", "--for", "100ms"]);
    ended_well(&came, "the worker is terminating, 1 job active: the drain ends in ");
    let waits = |init: &Init| init.log().matches("asks: Wait").count();
    let before = waits(&init);
    let hook = start(&stage, &init, Place::Inside, &["prestop", "--until-idle"]);
    assert!(wait_until(PATIENCE, || waits(&init) > before), "{}", init.story());
    init.order("ack j1");
    let came = hook.ends();
    assert_eq!((came.status, came.stderr.as_str()), (Some(0), ""), "{came:?}");
    init.ends_with(0);
}

#[test]
fn a_hook_in_the_namespace_ends_well_before_the_sigkill_of_the_stop_phase() {
    for _ in 0..5 {
        let stage = Stage::new();
        stage.enqueue([1]);
        let script = "note_signals(signal.SIGTERM); link = Link(); link.ready(); link.job(); link.note_all(); rest()";
        let mut init = stage.worker(script).start();
        init.notes_line("job j1");
        let hook = start(&stage, &init, Place::Inside, &["prestop", "--for", "1m"]);
        init.notes_line("lifecycle quiet control");
        hook_waits(&mut init);
        init.signal(libc::SIGTERM);
        init.notes_line("lifecycle terminate sigterm");
        init.signal_again(libc::SIGTERM);
        ended_well(&hook.ends(), "the worker is being stopped, 1 job active");
        init.ends_with(0);
    }
}

#[test]
fn a_hook_in_the_namespace_ends_well_when_the_init_is_about_to_exit() {
    for _ in 0..5 {
        let stage = Stage::new();
        let mut init = stage.worker(OBEYS).start();
        init.notes_line("ready");
        let hook = start(&stage, &init, Place::Inside, &["prestop", "--for", "1m"]);
        init.notes_line("lifecycle quiet control");
        hook_waits(&mut init);
        init.signal(libc::SIGTERM);
        let came = hook.ends();
        assert_eq!((came.status, came.stderr.as_str()), (Some(0), ""), "{came:?}");
        init.ends_with(0);
    }
}

/// Its second request comes right after the answer to the first one.
fn hook_waits(init: &mut Init) {
    init.logs("asks: Wait");
}

#[test]
fn without_an_instance_a_hook_warns_and_waits_its_time_all_the_same() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    let nowhere = stage.at("nowhere").display().to_string();
    let came = run(&stage, &init, &["prestop", "--for", "600ms", "--runtime-dir", &nowhere]);
    came.is_refused(0, &["prestop: no ojs-init", "waiting 0.6 s all the same"]);
    assert!(came.took >= Duration::from_millis(600), "{came:?}");
    let broken = stage.at("broken.toml");
    std::fs::write(&broken, "nonsense").unwrap();
    let came = run(
        &stage,
        &init,
        &["prestop", "--for=0", "--config", broken.to_str().unwrap()],
    );
    assert_eq!((came.status, came.stdout.lines().count()), (Some(0), 1), "{came:?}");
    assert!(came.stderr.contains("broken.toml"), "{came:?}");
    init.logs("a preStop hook ran: the orchestrator's clock runs, SIGKILL is expected in ");
}

#[test]
fn a_hook_of_an_init_that_does_not_answer_warns_and_ends_well() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    sys::send(init.pid, libc::SIGSTOP).unwrap();
    let came = start(&stage, &init, Place::Outside, &["prestop", "--for", "200ms"]).ends();
    sys::send(init.pid, libc::SIGCONT).unwrap();
    came.is_refused(0, &["did not answer within", "waiting 0.2 s all the same"]);
    assert!(came.took_itself < Duration::from_secs(3), "{came:?}");
    // Nobody waits for it any more, so it does not happen either.
    run(&stage, &init, &["resume"]).says("the worker is running already");
}

#[test]
fn a_hook_ends_well_when_the_init_is_killed_under_it() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    let hook = start(&stage, &init, Place::Outside, &["prestop", "--for", "1m"]);
    hook_waits(&mut init);
    init.signal(libc::SIGKILL);
    ended_well(&hook.ends(), "ojs-init has ended");
}

#[test]
fn a_prestop_that_no_sigterm_follows_comes_to_nothing() {
    let stage = Stage::new();
    let mut init = stage
        .worker(OBEYS)
        .with_all(&[("OJS_TERMINATION_GRACE_PERIOD", "2s"), ("OJS_STOP_MARGIN", "1s")])
        .start();
    init.notes_line("ready");
    ended_well(&run(&stage, &init, &["prestop", "--for", "0"]), "the worker is quiet");
    init.notes_line("lifecycle running control");
    init.logs("a preStop hook ran and no SIGTERM followed");
    init.logs("a preStop hook came to nothing: running, taking jobs");
    assert!(!init.log().contains("asked by the operator"), "{}", init.log());
    stage.enqueue([1]);
    init.notes_line("job j1");
}

#[test]
fn a_hook_that_has_no_time_left_says_so() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage
        .worker(OBEYS)
        .with_all(&[("OJS_TERMINATION_GRACE_PERIOD", "4s"), ("OJS_STOP_MARGIN", "2s")])
        .start();
    init.notes_line("job j1");
    ended_well(
        &run(&stage, &init, &["prestop", "--for", "1m"]),
        "all that the drain may take: the worker is quiet, 1 job active",
    );
}

#[test]
fn a_hook_among_too_many_that_wait_warns_and_waits_its_time_all_the_same() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    let _waiting = super::socket::waiting(&crate::operator::socket(&stage), 8);
    let came = run(&stage, &init, &["prestop", "--for", "300ms"]);
    came.is_refused(0, &["8 others wait already", "waiting 0.3 s all the same"]);
    assert!(came.took >= Duration::from_millis(300), "{came:?}");
    init.notes_line("lifecycle quiet control");
}

#[test]
fn a_hook_that_cannot_write_its_line_ends_well_before_the_sigkill() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    let hook = start_unread(&stage, &init, &["prestop", "--for", "1m"]);
    init.notes_line("lifecycle quiet control");
    hook_waits(&mut init);
    init.signal(libc::SIGTERM);
    assert_eq!(hook.ends().status, Some(0));
    init.ends_with(0);
}
