//! Copies of the worker (`worker.processes`): each is a process of its own, and none of them is
//! missed for long.

use std::os::unix::fs::PermissionsExt;

use crate::backend::Outcome;
use crate::stage::{PATIENCE, Stage, job, root};
use crate::support::wait::wait_until;
use crate::support::{proc, sys};

/// A copy that notes its index and each job that it begins.
const COPY: &str = "
index = os.environ['OJS_PROCESS_INDEX']
note('copy', index)
link = Link()
link.ready()
";

fn copies(script: &str) -> String {
    format!("{COPY}{script}")
}

#[test]
fn each_copy_has_a_number_of_its_own_and_takes_jobs() {
    let stage = Stage::new();
    let script = copies("held = link.job(); note('works', index); link.until('lifecycle'); link.ack(held); rest()");
    let mut init = stage.worker(&script).with("OJS_PROCESSES", "3").start();
    stage.enqueue([1, 2, 3]);
    for index in 0..3 {
        init.notes_line(&format!("works {index}"));
    }
    assert!(!init.log().contains("is started again"), "{}", init.story());
    init.stops();
    for number in 1..=3 {
        assert_eq!(stage.outcomes(&format!("j{number}")), [Outcome::Acked(None)]);
    }
}

#[test]
fn a_copy_that_dies_costs_its_own_job_alone_and_is_started_again() {
    let stage = Stage::new();
    let script = copies(
        "
held = link.job()
note('works', held, index)
if held == 'j1':
    while not os.path.exists(os.environ['GO']):
        time.sleep(0.01)
    os._exit(3)
link.until('lifecycle')
link.ack(held)
rest()",
    );
    let go = stage.at("go");
    let mut init = stage.worker(&script).with("OJS_PROCESSES", "2").with("GO", &go).start();
    stage.enqueue([1]);
    let dead = init.noted("works j1");
    stage.enqueue([2]);
    init.noted("works j2");
    std::fs::write(&go, "").unwrap();
    assert_eq!(stage.failure("j1")["code"], "worker_death");
    init.logs("of the worker ended, exit status 3; it is started again");
    init.notes_times(&format!("copy {dead}"), 2);
    init.stops();
    assert_eq!(stage.outcomes("j2"), [Outcome::Acked(None)]);
}

#[test]
fn at_a_sigterm_each_copy_finishes_its_job_and_none_is_started_again() {
    let stage = Stage::new();
    let script = copies(
        "
held = link.job()
note('works', index)
link.until('lifecycle')
time.sleep(0.3)
link.ack(held)
os._exit(0)",
    );
    let mut init = stage.worker(&script).with("OJS_PROCESSES", "2").start();
    stage.enqueue([1, 2]);
    init.notes_line("works 0");
    init.notes_line("works 1");
    init.signal(libc::SIGTERM);
    init.ends_with(0);
    for number in 1..=2 {
        assert_eq!(stage.outcomes(&format!("j{number}")), [Outcome::Acked(None)]);
    }
    let started = init.notes().iter().filter(|line| line.starts_with("copy ")).count();
    assert_eq!(started, 2, "{}", init.story());
}

#[test]
fn idle_copies_end_cleanly_with_a_sigterm() {
    let stage = Stage::new();
    let mut init = stage
        .worker(&copies("rest()"))
        .with_all(&[("OJS_PROCESSES", "4"), ("OJS_RESTART", "always")])
        .start();
    for index in 0..4 {
        init.notes_line(&format!("copy {index}"));
    }
    init.stops();
}

#[test]
fn with_restart_never_the_end_of_a_copy_is_the_end_of_the_worker() {
    let stage = Stage::new();
    let script = copies(
        "
held = link.job()
if held == 'j1':
    os._exit(7)
rest()",
    );
    let mut init = stage
        .worker(&script)
        .with_all(&[("OJS_PROCESSES", "2"), ("OJS_RESTART", "never")])
        .start();
    init.notes_line("copy 0");
    init.notes_line("copy 1");
    stage.backend.enqueue(&job(1, ""));
    init.ends_with(7);
    assert_eq!(stage.failure("j1")["code"], "worker_death");
    init.logs("is not started again: the worker ends");
}

#[test]
fn with_restart_on_failure_copies_that_end_cleanly_are_not_started_again_and_the_last_one_ends_the_container() {
    let stage = Stage::new();
    let script = copies("os._exit(0)");
    let start = stage.worker(&script);
    let mut init = start
        .with_all(&[("OJS_PROCESSES", "2"), ("OJS_RESTART", "on-failure")])
        .start();
    init.ends_with(0);
    let started = init.notes().iter().filter(|line| line.starts_with("copy ")).count();
    assert_eq!(started, 2, "{}", init.story());
}

#[test]
fn copies_of_a_program_that_is_missing_end_the_container_with_127() {
    let stage = Stage::new();
    let mut init = stage.command(&["/nowhere/worker"]).with("OJS_PROCESSES", "2").start();
    init.ends_with(127);
    init.logs("/nowhere/worker");
}

#[test]
fn a_copy_whose_program_is_being_replaced_waits_and_the_other_one_stays_at_work() {
    let stage = Stage::new();
    let script = copies(
        "held = link.job(); note('works', held, index); held == 'j1' and os._exit(3); link.until('lifecycle'); link.ack(held); rest()",
    );
    let (program, away) = (stage.at("worker"), stage.at("worker.away"));
    let raw = root().join("tests/support/raw_worker.py");
    let text = format!("#!/bin/sh\nexec python3 -S -E '{}' \"$SCRIPT\"\n", raw.display());
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut init = stage
        .command(&[&program])
        .with_all(&[("OJS_PROCESSES", "2"), ("SCRIPT", &script)])
        .start();
    init.notes_line("copy 0");
    init.notes_line("copy 1");
    std::fs::rename(&program, &away).unwrap();
    stage.enqueue([2]);
    init.noted("works j2");
    stage.enqueue([1]);
    let index = init.noted("works j1");
    init.logs(&format!(
        "copy {index} of the worker could not be started: cannot execute"
    ));
    init.logs("it is started again in 2 s");
    let keeper = proc::children(init.pid)[0];
    let is_one_left = || proc::children(keeper).len() == 1;
    assert!(wait_until(PATIENCE, is_one_left), "a failed start leaves a zombie");
    std::fs::rename(&away, &program).unwrap();
    init.notes_times(&format!("copy {index}"), 2);
    init.stops();
    assert_eq!(stage.outcomes("j2"), [Outcome::Acked(None)], "{}", init.story());
}

#[test]
fn a_signal_of_the_users_reaches_each_copy() {
    let stage = Stage::new();
    let script = "
index = os.environ['OJS_PROCESS_INDEX']
signal.signal(signal.SIGUSR1, lambda *_: note('usr1', index))
note('copy', index)
link = Link()
link.ready()
rest()";
    let mut init = stage.worker(script).with("OJS_PROCESSES", "2").start();
    init.notes_line("copy 0");
    init.notes_line("copy 1");
    init.signal(libc::SIGUSR1);
    init.notes_line("usr1 0");
    init.notes_line("usr1 1");
    init.stops();
}

#[test]
fn copies_whose_parent_is_killed_are_asked_to_end_once_and_by_pid_1() {
    let stage = Stage::new();
    let script = "
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
link = Link()
link.ready()
note('copy', os.environ['OJS_PROCESS_INDEX'])
note('asked by', signal.sigwaitinfo([signal.SIGTERM]).si_pid)
asked = signal.sigtimedwait([signal.SIGTERM], 0.2)
asked and note('asked by', asked.si_pid)
note('ends')";
    let mut init = stage.worker(script).with("OJS_PROCESSES", "2").start();
    init.notes_line("copy 0");
    init.notes_line("copy 1");
    let keeper = proc::children(init.pid)[0];
    sys::send(keeper, libc::SIGKILL).unwrap();
    init.notes_times("ends", 2);
    let asked: Vec<_> = init
        .notes()
        .into_iter()
        .filter(|note| note.starts_with("asked"))
        .collect();
    assert_eq!(asked, ["asked by 1", "asked by 1"], "{}", init.story());
    init.ends_with(137);
}
