//! System calls that fail: each one that the plain init makes is refused once, by `strace
//! --inject`, and the child must not notice, or the person must be told what is wrong.

use std::process::{Command, Output};

use crate::support::under_test;

/// The command line of the init under strace with these faults injected; it is over after 30 s.
fn strace(faults: &[&str]) -> Vec<String> {
    let words = "timeout --signal=KILL 30 strace -f -qq -o /dev/null"
        .split(' ')
        .map(str::to_owned);
    let injected = faults.iter().map(|fault| format!("--inject={fault}"));
    words
        .chain(injected)
        .chain([under_test::init(), "--no-agent".to_owned()])
        .collect()
}

/// Runs it with these arguments; the status is that of the init.
fn with_faults(faults: &[&str], arguments: &[&str]) -> Output {
    let line = strace(faults);
    // Fails here when strace, Debian's package of that name, is not installed.
    Command::new(&line[0])
        .args(&line[1..])
        .arg("--format=text")
        .args(arguments)
        .output()
        .unwrap()
}

fn status(output: &Output) -> Option<i32> {
    output.status.code()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A child that ends with 7 once its parent has let go of descriptor 9, which it inherited; with 1
/// if it never does.
const WAITS_FOR_RELEASE: &str =
    "i=0; while [ -e /proc/$PPID/fd/9 ]; do i=$((i+1)); [ $i -lt 300 ] || exit 1; sleep 0.01; done; exit 7";

fn release_with(fault: &str) -> Output {
    let script = r#"exec 9</dev/null; exec "$@""#;
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script, "sh"])
        .args(strace(&[fault]))
        .args(["--", "sh", "-c", WAITS_FOR_RELEASE]);
    shell.output().unwrap()
}

#[test]
fn a_process_that_cannot_be_created_at_first_is_tried_again() {
    let output = with_faults(&["clone:error=EAGAIN:when=1..3"], &["--", "sh", "-c", "exit 7"]);
    assert_eq!(status(&output), Some(7), "{}", errors(&output));
    assert!(
        errors(&output).contains("a limit on the number of processes is reached"),
        "{}",
        errors(&output)
    );
}

#[test]
fn without_memory_for_a_process_it_is_tried_again_too() {
    let output = with_faults(&["clone:error=ENOMEM:when=1"], &["--", "sh", "-c", "exit 7"]);
    assert_eq!(status(&output), Some(7), "{}", errors(&output));
}

#[test]
fn an_init_that_cannot_wait_for_signals_stops_the_child_and_says_so() {
    let output = with_faults(&["rt_sigtimedwait:error=ENOSYS"], &["--", "sleep", "60"]);
    assert_eq!(status(&output), Some(70), "{}", errors(&output));
    assert!(
        errors(&output).contains("cannot wait for signals"),
        "{}",
        errors(&output)
    );
}

#[test]
fn interrupted_waits_are_repeated() {
    let faults = ["rt_sigtimedwait:error=EINTR:when=1..20", "wait4:error=EINTR:when=1..2"];
    let output = with_faults(&faults, &["--", "sh", "-c", "sleep 0.2; exit 7"]);
    assert_eq!(status(&output), Some(7), "{}", errors(&output));
}

#[test]
fn descriptors_are_released_where_close_range_does_not_exist() {
    assert_eq!(status(&release_with("close_range:error=ENOSYS")), Some(7));
}

#[test]
fn descriptors_are_released_where_close_range_is_forbidden() {
    assert_eq!(status(&release_with("close_range:error=EPERM")), Some(7));
}

#[test]
fn a_child_that_gets_no_process_group_of_its_own_still_runs() {
    let output = with_faults(&["setpgid:error=EPERM"], &["--", "sh", "-c", "exit 7"]);
    assert_eq!(status(&output), Some(7), "{}", errors(&output));
}

#[test]
fn an_init_that_may_not_adopt_orphans_says_so_and_runs_the_child() {
    let output = with_faults(&["prctl:error=EINVAL"], &["--", "sh", "-c", "exit 7"]);
    assert_eq!(status(&output), Some(7), "{}", errors(&output));
    assert!(errors(&output).contains("cannot adopt orphans"), "{}", errors(&output));
}

#[test]
fn an_init_that_cannot_leave_its_directory_runs_the_child() {
    let output = with_faults(&["chdir:error=EACCES"], &["--", "sh", "-c", "exit 7"]);
    assert_eq!(status(&output), Some(7), "{}", errors(&output));
}

#[test]
fn without_a_thread_for_the_log_lines_are_still_written() {
    // Builtins only: the child may not start a process either.
    let script = "trap 'exit 7' USR1; kill -USR1 $PPID; while :; do :; done";
    // The first clone is the child, every further one of the init a thread.
    let faults = ["clone:error=EAGAIN:when=2+", "clone3:error=EAGAIN"];
    let output = with_faults(&faults, &["-v", "--", "sh", "-c", script]);
    assert_eq!(status(&output), Some(7), "{}", errors(&output));
    assert!(errors(&output).contains("received SIGUSR1"), "{}", errors(&output));
}

#[test]
fn a_signal_that_may_not_be_forwarded_is_a_warning() {
    // kill is refused to the child as well, so it uses another call to signal the init.
    let script = "import os, signal, ctypes; libc = ctypes.CDLL(None); \
                  libc.sigqueue(os.getppid(), signal.SIGUSR1, None); signal.sigtimedwait([signal.SIGUSR2], 1); os._exit(7)";
    let output = with_faults(&["kill:error=EPERM"], &["--", "python3", "-c", script]);
    assert_eq!(status(&output), Some(7), "{}", errors(&output));
    assert!(
        errors(&output).contains("cannot forward SIGUSR1"),
        "{}",
        errors(&output)
    );
}

#[test]
fn a_system_that_forbids_processes_altogether_is_not_asked_again() {
    let output = with_faults(&["clone:error=EPERM"], &["--", "true"]);
    assert_eq!(status(&output), Some(70), "{}", errors(&output));
    assert!(
        errors(&output).contains("refuses to create processes"),
        "{}",
        errors(&output)
    );
}
