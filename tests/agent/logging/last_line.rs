//! At level warn: what went wrong is there, and the last line of all names the cause.

use std::process::Command;

use crate::stage::{Init, PATIENCE, Stage};
use crate::support::proc;
use crate::support::wait::wait_until;

/// As uid 54399 with no process to spare.
const NO_PROCESS: &str = "import os, resource, sys
os.setgroups([]); os.setgid(54399); os.setuid(54399)
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
os.execv(sys.argv[1], sys.argv[1:])";

/// Our own lines, each without its time.
pub fn said(init: &Init) -> Vec<String> {
    let log = init.log();
    let ours = log.lines().filter_map(|line| line.split_once("Z ojs-init: "));
    ours.map(|(_, said)| said.to_owned()).collect()
}

#[test]
fn a_worker_that_is_killed_is_the_last_line_at_level_warn() {
    let stage = Stage::new();
    let mut init = stage
        .command(&["sh", "-c", "kill -KILL $$"])
        .with("OJS_LOG_LEVEL", "warn")
        .start();
    init.ends_with(137);
    let said = said(&init);
    let expected = [
        "error: the worker failed: killed by SIGKILL",
        "error: the worker was killed by SIGKILL; exit status 137",
    ];
    assert_eq!(said, expected, "{}", init.log());
}

#[test]
fn a_worker_that_fails_is_the_last_line_and_so_is_one_that_ends_well() {
    let stage = Stage::new();
    for (status, expected) in [
        ("3", "error: the worker ended by itself; exit status 3"),
        ("0", "warn: the worker ended by itself, with success; exit status 0"),
    ] {
        let mut init = stage
            .command(&["sh", "-c", &format!("exit {status}")])
            .with("OJS_LOG_LEVEL", "warn")
            .start();
        init.ends_with(status.parse().unwrap());
        assert_eq!(said(&init).last().map(String::as_str), Some(expected), "{}", init.log());
    }
}

#[test]
fn a_program_for_one_job_that_is_run_as_a_worker_is_told_of_mode_exec() {
    let hint = "it never said ready on OJS_SOCKET; a program that does one job and ends needs OJS_MODE=exec";
    let a_script_of_the_docs = r#"address=$("$OJS_INIT" job arg 0) || exit 100"#;
    for (script, status, ended) in [
        (
            "true",
            0,
            "warn: the worker ended by itself, with success: exit status 0",
        ),
        (a_script_of_the_docs, 100, "error: the worker failed: exit status 100"),
    ] {
        let stage = Stage::new();
        let command = stage.command(&["sh", "-c", script]);
        let mut init = command.with("OJS_LOG_LEVEL", "warn").start();
        init.ends_with(status);
        let expected = format!("{ended}; {hint}");
        assert!(said(&init).contains(&expected), "{}", init.log());
    }
}

#[test]
fn a_worker_that_has_said_ready_once_is_not_told_of_mode_exec_in_any_life() {
    let stage = Stage::new();
    let script = "if os.path.exists('lived'): sys.exit(9)
open('lived', 'w').close()
link = Link(); link.ready()
while not orders(): time.sleep(0.01)
sys.exit(7)";
    let script = script.replace("'lived'", &format!("{:?}", stage.at("lived")));
    let mut init = stage.worker(&script).with("OJS_RESTART", "always").start();
    init.logs("takes up to");
    init.order("end");
    init.logs("the worker failed: exit status 7");
    init.logs("the worker failed: exit status 9");
    assert!(!init.log().contains("OJS_MODE=exec"), "{}", init.log());
    init.stops();
}

#[test]
fn a_worker_that_crashes_again_and_again_is_told_each_time_at_level_warn() {
    let stage = Stage::new();
    let mut init = stage
        .command(&["sh", "-c", "exit 9"])
        .with_all(&[("OJS_LOG_LEVEL", "warn"), ("OJS_RESTART", "always")])
        .start();
    init.logs("warn: starting the worker again in 2 s");
    let said = said(&init);
    let failed = "error: the worker failed: exit status 9; it never said ready on OJS_SOCKET; a program that does one job and \
                  ends needs OJS_MODE=exec";
    let expected = [
        failed,
        "warn: starting the worker again in 1 s",
        failed,
        "warn: starting the worker again in 2 s",
    ];
    assert_eq!(said, expected, "{}", init.log());
    init.stops();
}

#[test]
fn a_worker_that_never_began_is_one_line_with_its_cause() {
    let stage = Stage::new();
    let mut init = stage
        .command(&["no-such-command-anywhere"])
        .with("OJS_LOG_LEVEL", "info")
        .start();
    init.ends_with(127);
    let said = said(&init);
    let last = "fatal: cannot execute \"no-such-command-anywhere\": not found in any directory of PATH (No such file or \
                directory); exit status 127";
    assert_eq!(said.last().map(String::as_str), Some(last), "{}", init.log());
    let of_a_worker = ["ended", "draining", "asking the worker"];
    let story: Vec<_> = said
        .iter()
        .filter(|line| of_a_worker.iter().any(|words| line.contains(words)))
        .collect();
    assert!(story.is_empty(), "{}", init.log());
}

#[test]
fn a_system_without_a_process_for_the_worker_is_named_with_the_remedy() {
    let stage = Stage::new();
    let mut init = stage
        .command(&["true"])
        .through(&["python3", "-c", NO_PROCESS])
        .with("OJS_LOG_LEVEL", "warn")
        .start();
    init.ends_with(70);
    let said = said(&init);
    let last = "fatal: cannot start true: no process could be created for 10 s: a limit on the number of processes is \
                reached; raise the limit on processes (docker --pids-limit, the pod's pid limit, ulimit -u) or the memory \
                limit; exit status 70";
    assert_eq!(said.last().map(String::as_str), Some(last), "{}", init.log());
    let first = "warn: cannot create a process for the worker yet, trying for 10 s: a limit on the number of processes is \
                 reached; raise the limit on processes (docker --pids-limit, the pod's pid limit, ulimit -u)";
    assert!(said.iter().any(|line| line == first), "{}", init.log());
}

#[test]
fn a_worker_whose_user_has_no_process_left_is_started_when_some_of_them_end() {
    let stage = Stage::new();
    let user = "54398";
    // The kernel counts the processes of a user everywhere on the machine. They are one more than
    // the user may have.
    let mut others = [(); 2].map(|()| {
        let words = ["--reuid", user, "--regid", user, "--clear-groups", "sleep", "60"];
        Command::new("setpriv").args(words).spawn().unwrap()
    });
    let is_theirs = |pid: u32| {
        let ids = proc::status_field(pid.cast_signed(), "Uid");
        ids.is_some_and(|ids| ids.starts_with(user))
    };
    assert!(wait_until(PATIENCE, || others
        .iter()
        .all(|other| is_theirs(other.id()))));
    let mut init = stage
        .command(&["true"])
        .with("OJS_USER", format!("{user}:{user}"))
        .through(&["prlimit", "--nproc=1:1"])
        .start();
    let has_begun = wait_until(PATIENCE, || {
        init.log().contains("cannot create a process for the worker yet") || !init.is_running()
    });
    for other in &mut others {
        other.kill().unwrap();
        other.wait().unwrap();
    }
    assert!(has_begun, "{}", init.story());
    init.ends_with(0);
}

#[test]
fn a_worker_without_a_handler_for_a_signal_that_was_passed_on_is_told_so() {
    let stage = Stage::new();
    let mut init = stage
        .worker("link = Link(); link.ready(1); rest()")
        .with("OJS_LOG_LEVEL", "warn")
        .start();
    init.notes_line("ready");
    init.signal(libc::SIGHUP);
    init.ends_with(129);
    let said = said(&init);
    let expected = [
        "error: the worker failed: killed by SIGHUP; ojs-init passes SIGHUP on, and the worker has no handler for it",
        "error: the worker was killed by SIGHUP; exit status 129",
    ];
    assert_eq!(said, expected, "{}", init.log());
}
