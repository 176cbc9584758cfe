//! PID 1 of a container, and what the log says about the end.

use std::time::Duration;

use super::course::{holding, holding_all};
use super::{OBEYS, OFTEN, SELDOM};
use crate::stage::{PATIENCE, Stage};
use crate::support::wait::wait_until;
use crate::support::{proc, sys};

/// Runs ojs-init below a shell.
const BELOW_A_SHELL: [&str; 3] = ["sh", "-c", r#""$0" "$@"; exit $?"#];

#[test]
fn x_01_as_pid_1_it_obeys_signals_and_reaps_orphans() {
    let stage = Stage::new();
    let script = "
def daemon():
    note('daemon', os.getpid())
def parent():
    child(daemon, session=True)
for _ in range(5):
    os.waitpid(child(parent), 0)
link = Link()
link.ready()
link.work()";
    let mut init = stage.worker(script).with(SELDOM.0, SELDOM.1).start();
    init.notes_line("ready");
    assert_eq!(proc::inner_pid(init.pid), Some(1));
    let daemons = || init.notes().iter().filter(|line| line.starts_with("daemon")).count();
    assert!(wait_until(PATIENCE, || daemons() == 5));
    // The worker alone, and no zombie.
    let is_clean = wait_until(PATIENCE, || proc::children(init.pid).len() == 1);
    assert!(is_clean, "{:?}", proc::children(init.pid));
    stage.states_become(&["running"]);
    init.signal(libc::SIGTSTP);
    stage.states_become(&["running", "quiet"]);
    init.stops();
}

#[test]
fn x_02_below_a_shell_in_a_container_one_warning_says_what_that_costs() {
    let kubernetes = ("KUBERNETES_SERVICE_HOST", "10.0.0.1");
    for is_below in [true, false] {
        let stage = Stage::new();
        let start = stage.worker(OBEYS).with_all(&[kubernetes, OFTEN]);
        let start = if is_below { start.through(&BELOW_A_SHELL) } else { start };
        let mut init = start.start();
        init.notes_line("ready");
        let warnings = init
            .log()
            .matches("ojs-init: warn: not PID 1 of this container")
            .count();
        assert_eq!(warnings, usize::from(is_below), "{}", init.log());
    }
}

/// How long it is watched that nothing comes.
const WATCHED_FOR: Duration = Duration::from_millis(300);

#[test]
fn x_02_where_it_is_not_pid_1_and_is_killed_its_worker_gets_sigterm() {
    for (own_signal, is_told) in [(None, true), (Some(("OJS_INIT_PARENT_DEATH_SIGNAL", "TERM")), false)] {
        let stage = Stage::new();
        let script = "
signal.signal(signal.SIGTERM, lambda *_: note('told'))
note('worker', os.getpid())
while True:
    time.sleep(0.05)";
        let mut init = stage
            .worker(script)
            .with_all(own_signal.as_slice())
            .start_outside_a_namespace();
        let worker: i32 = init.noted("worker").parse().unwrap();
        init.signal(libc::SIGKILL);
        assert!(wait_until(PATIENCE, || !init.is_running()), "{}", init.story());
        let came = wait_until(if is_told { PATIENCE } else { WATCHED_FOR }, || {
            init.notes().iter().any(|line| line == "told")
        });
        assert_eq!(came, is_told, "{own_signal:?}");
        sys::send(worker, libc::SIGKILL).unwrap();
    }
}

#[test]
fn x_05_the_log_counts_the_jobs_that_are_left_in_the_drain() {
    let stage = Stage::new();
    let mut init = holding_all(&stage, 3, &[("OJS_LOG_FORMAT", "json"), ("OJS_LOG_LEVEL", "info")]);
    init.signal(libc::SIGTERM);
    init.logs("Worker draining, 3 jobs in progress; ");
    for number in 1..=3 {
        init.order(&format!("ack j{number}"));
    }
    init.ends_with(0);
    let log = init.log();
    let line = log.lines().find(|line| line.contains("Worker draining")).unwrap();
    let record: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(record["severity"], "INFO", "{line}");
    assert!(record["message"].as_str().unwrap().ends_with(" s left"), "{line}");
}

#[test]
fn x_05_an_idle_worker_has_nothing_to_drain() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[OFTEN]);
    init.order("ack j1");
    init.notes_line("ok j1 ack");
    init.stops();
    assert!(!init.log().contains("1 job in progress"), "{}", init.log());
}
