//! Processes that jobs leave behind are ended before anybody hears that the jobs are done.

use std::time::Duration;

use serde_json::json;

use super::{enqueue, handler, nobody_is_left, python};
use crate::backend::Outcome;
use crate::stage::{Init, PATIENCE, Stage};
use crate::support::proc;
use crate::support::wait::wait_until;

/// Puts a process into a session of its own, its parent gone, with everything closed, which lives
/// for five minutes.
pub const DAEMON: &str = "import os, signal, sys, time
def daemon(body):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 256)
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            body()
        os._exit(0)
    os.wait()
";

/// Processes below the init that are neither its runner nor gone.
fn left(init: &mut Init) -> usize {
    let runner = super::runner(init);
    let lives = |pid: &i32| *pid != runner && proc::lives(*pid);
    proc::descendants(init.pid).iter().filter(|pid| lives(pid)).count()
}

/// One job with this handler: whether everybody is gone at the moment at which the backend knows
/// its outcome.
fn leaves_nobody(script: &str) {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = python(&stage, script).start();
    assert!(
        wait_until(PATIENCE, || !stage.outcomes("j1").is_empty()),
        "{}",
        init.story()
    );
    assert_eq!(left(&mut init), 0, "{}", init.story());
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn children_and_grandchildren_are_ended_before_the_outcome_is_told() {
    leaves_nobody(
        "import os, time
for _ in range(5):
    if os.fork() == 0:
        os.fork(); os.fork(); time.sleep(300)",
    );
}

#[test]
fn a_daemon_in_a_session_of_its_own_is_ended_before_the_outcome_is_told() {
    leaves_nobody(&format!("{DAEMON}\ndaemon(lambda: time.sleep(300))"));
}

#[test]
fn a_daemon_that_forks_again_and_again_is_caught() {
    leaves_nobody(&format!(
        "{DAEMON}
def again():
    while True:
        if os.fork() != 0:
            os._exit(0)
        time.sleep(0.002)
daemon(again)
time.sleep(0.1)"
    ));
}

#[test]
fn a_process_that_is_stopped_is_ended_too() {
    leaves_nobody(&format!(
        "{DAEMON}\ndaemon(lambda: os.kill(os.getpid(), signal.SIGSTOP))\ntime.sleep(0.1)"
    ));
}

#[test]
fn who_takes_long_to_end_is_waited_for_and_so_is_who_it_leaves_behind() {
    // The kernel gives the memory back before the process is gone, in small pages, and has no
    // environment to show meanwhile.
    leaves_nobody(&format!(
        "{DAEMON}
def large():
    import ctypes
    ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)
    os.fork()
    held = b'x' * (256 << 20)
    open(os.environ['NOTES'] + '.%d' % os.getpid(), 'w').close()
    time.sleep(300)
daemon(large)
import glob
while len(glob.glob(os.environ['NOTES'] + '.*')) < 2:
    time.sleep(0.01)"
    ));
}

#[test]
fn the_leftovers_of_one_job_are_told_from_another_job_that_runs() {
    let stage = Stage::new();
    enqueue(&stage, "long", "long", &json!([]), "");
    enqueue(&stage, "short", "short", &json!([]), "");
    let script = r#"case $OJS_JOB_TYPE in
        long) setsid sleep 300 & touch "$NOTES.begun"; while ! [ -e "$NOTES.go" ]; do sleep 0.01; done; kill -0 $! ;;
        short) while ! [ -e "$NOTES.begun" ]; do sleep 0.01; done; setsid sleep 300 & ;;
    esac"#;
    let mut init = handler(&stage, script).start();
    stage.becomes("short", &[Outcome::Acked(None)]);
    std::fs::write(stage.at("init.notes.go"), "").unwrap();
    // Its own process in the background is still there.
    stage.becomes("long", &[Outcome::Acked(None)]);
    nobody_is_left(&mut init);
    init.stops();
}

#[test]
fn what_has_cleared_every_mark_is_ended_when_no_job_runs() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "exec 3>&-; env -i /usr/bin/setsid --fork sleep 300 </dev/null >/dev/null 2>&1";
    let mut init = handler(&stage, script).start();
    stage.becomes("j1", &[Outcome::Acked(None)]);
    nobody_is_left(&mut init);
    init.stops();
}

#[test]
fn leftovers_that_are_to_be_kept_are_kept() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let script = "setsid --fork sleep 300 </dev/null >/dev/null 2>&1";
    let mut init = handler(&stage, script).with("OJS_EXEC_LEFTOVERS", "keep").start();
    stage.wait_for_outcomes();
    let are_there = wait_until(PATIENCE, || left(&mut init) == 2);
    assert!(are_there, "{}", init.story());
    init.stops();
}

/// A thousand jobs of which each leaves one process.
fn a_thousand(handler: &str, users: Option<&str>) {
    let stage = Stage::new();
    stage.enqueue(1..=1000);
    let start = super::handler(&stage, handler).with("OJS_LOG_LEVEL", "warn");
    let start = match users {
        Some(users) => start.with("OJS_EXEC_USERS", users),
        None => start,
    };
    let mut init = start.start();
    stage.wait_for_outcomes_for(Duration::from_secs(180));
    let outcomes = stage.backend.outcomes();
    let strange = outcomes
        .iter()
        .find(|(_, outcomes)| **outcomes != [Outcome::Acked(None)]);
    assert!(strange.is_none(), "{strange:?}: {}", init.story());
    assert_eq!(left(&mut init), 0, "{}", init.story());
    init.stops();
}

#[test]
fn a_thousand_jobs_that_leave_a_process_each_leave_none() {
    a_thousand("sleep 300 &", None);
}

#[test]
fn a_thousand_jobs_with_users_of_their_own_leave_none_that_cleared_every_mark_either() {
    a_thousand(
        "exec 3>&-; env -i /usr/bin/setsid --fork sleep 300 </dev/null >/dev/null 2>&1",
        Some("81200-81219"),
    );
}
