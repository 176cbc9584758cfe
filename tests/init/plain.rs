//! Promises of the plain init that are easily broken, each from outside.

use std::process::{Command, Output};

use crate::support::under_test;

/// Runs a script; `$INIT` in it is the init under test, and it is over after 30 s.
fn run(interpreter: &str, script: &str) -> Output {
    let init = under_test::init();
    let mut command = Command::new("timeout");
    command
        .args(["--signal=KILL", "30", interpreter, "-c", script])
        .env("INIT", init);
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_pending_signal_that_the_c_library_wants_for_its_threads_is_forwarded() {
    // 33 is another, but the C library of the test's interpreter does not let it be blocked.
    for number in [34, 35] {
        let script = format!(
            "import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [{number}])
os.kill(os.getpid(), {number})
os.execv(os.environ['INIT'], ['ojs-init', '--no-agent', '-v', '--', 'sleep', '0.5'])"
        );
        // Its mask blocks the signal, so that the child keeps it pending; the log says what was
        // forwarded.
        let output = run("python3", &script);
        assert_eq!(output.status.code(), Some(0), "{number}: {}", said(&output));
        assert!(said(&output).contains("forwarded"), "{number}: {}", said(&output));
    }
}

#[test]
fn a_log_file_that_may_not_grow_sends_the_child_no_signal() {
    let log = tempfile("fsize");
    let script = format!("ulimit -f 0; exec $INIT --no-agent -- sh -c 'sleep 0.3; exit 3' 2>{log}");
    assert_eq!(run("sh", &script).status.code(), Some(3));
    std::fs::remove_file(log).unwrap();
}

#[test]
fn a_chain_of_stubborn_descendants_outside_pid_1_is_killed_to_the_last() {
    let marker = format!("ojs-chain-{}", std::process::id());
    // Each link ignores SIGTERM, has a session of its own and starts the next one.
    let script = format!(
        r#"link='trap "" TERM; n=$1; [ $n -gt 0 ] && setsid sh -c "$link" {marker} $((n-1)) & while :; do sleep 1; done'
export link
$INIT --no-agent --grace-period 1s -- sh -c 'setsid sh -c "$link" {marker} 60 & sleep 0.7; exit 4'
status=$?
pgrep -fc {marker} >&2
exit $status"#
    );
    let output = run("bash", &script.replace("{marker}", &marker));
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    // The shell of this test itself has the marker on its command line, and so has the timeout in
    // front of it.
    assert_eq!(said(&output).lines().last(), Some("2"), "{}", said(&output));
}

#[test]
fn with_process_group_leftovers_get_no_second_sigterm_and_what_they_start_afterwards_gets_its_own() {
    // The kernel shows starts in ticks of 10 ms.
    let survivor = "import os, signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, [15])
time.sleep(0.02)
print('runs', flush=True)
signal.sigwait([15])
if os.fork() == 0:
    print('late', 'asked' if signal.sigtimedwait([15], 3) else 'not asked', flush=True)
    os._exit(0)
print('asked', 'again' if signal.sigtimedwait([15], 0.3) else 'once', flush=True)";
    let script = format!(
        r#"import os, subprocess
os.environ['SURVIVOR'] = """{survivor}"""
command = ['sh', '-c', 'python3 -S -E -c "$SURVIVOR" & wait']
init = [os.environ['INIT'], '--no-agent', '-g', '--grace-period', '5s', '--', *command]
init = subprocess.Popen(init, stdout=subprocess.PIPE, text=True)
print(init.stdout.readline(), end='')
init.terminate()
print(init.stdout.read(), end='')"#
    );
    let output = run("python3", &script);
    let said = said(&output);
    assert!(said.contains("late asked\n") && said.contains("asked once\n"), "{said}");
}

#[test]
fn zombies_of_whoever_execed_us_do_not_keep_the_child_from_being_created() {
    let script = "import os, resource, time
os.setgroups([]); os.setgid(54399); os.setuid(54399)
for _ in range(3):
    if os.fork() == 0:
        time.sleep(0.5); os._exit(0)
resource.setrlimit(resource.RLIMIT_NPROC, (4, 4))
os.execv(os.environ['INIT'], ['ojs-init', '--no-agent', '--', '/bin/sh', '-c', 'exit 7'])";
    let shared = tempfile("init");
    let init = under_test::init();
    // Where another user may execute it.
    std::fs::copy(init, &shared).unwrap();
    let output = run(
        "python3",
        &format!("import os; os.environ['INIT'] = {shared:?}\n{script}"),
    );
    std::fs::remove_file(shared).unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
}

#[test]
fn sockets_that_were_handed_to_us_by_number_are_the_childs() {
    let passes = |pid: &str| {
        let script = format!(
            "LISTEN_PID={pid} LISTEN_FDS=1 exec $INIT --no-agent -- sh -c 'echo \"$LISTEN_FDS $LISTEN_PID $$\"' 3</dev/null"
        );
        let output = run("sh", &script);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let words: Vec<String> = said
            .lines()
            .last()
            .unwrap_or_default()
            .split(' ')
            .map(str::to_owned)
            .collect();
        assert_eq!((words.len(), words[0].as_str()), (3, "1"), "{said}");
        (words[1].clone(), words[2].clone())
    };
    let (named, own) = passes("$$");
    assert_eq!(named, own);
    // Those of another process stay that one's.
    assert_eq!(passes("1234567").0, "1234567");
}

#[test]
fn another_user_opens_the_pipe_on_our_standard_error_by_its_name() {
    let script = "exec $INIT --no-agent --user 54321:54321 -- sh -c 'echo err > /dev/stderr && echo out > /dev/stdout'";
    let output = run("sh", script);
    assert!(
        said(&output).contains("err") && said(&output).contains("out"),
        "{}",
        said(&output)
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_program_that_cannot_run_here_is_named_and_no_shell_reads_it() {
    let file = tempfile("program");
    let refused = |content: &[u8], status: i32, part: &str| {
        std::fs::write(&file, content).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        for checks in [false, true] {
            // A loader that is there may be for a kernel with more formats: a warning. One that is
            // missing is an error.
            let checked = if status == 127 { 2 } else { 0 };
            let (before, status) = if checks {
                ("config check ", checked)
            } else {
                ("", status)
            };
            let output = run("sh", &format!("exec $INIT {before}--no-agent --format=text -- {file}"));
            assert_eq!(output.status.code(), Some(status), "{}", said(&output));
            assert!(said(&output).contains(part), "{}", said(&output));
        }
    };
    // An ELF file of 64 bits for s390x, big-endian, version 1, executable.
    let mut elf = b"\x7fELF\x02\x02\x01\0\0\0\0\0\0\0\0\0\0\x02\0\x16\0\0\0\x01".to_vec();
    elf.resize(64, 0);
    refused(&elf, 126, "it is a program for s390x, and this machine is");
    refused(b"\0\0binary", 126, "it is a binary file, and none that Linux runs");
    refused(b"#!/bin/sh\r\nexit 3\r\n", 127, "its lines end as on Windows");
    refused(
        b"#!/no/such/thing -x\n",
        127,
        "the interpreter \"/no/such/thing\", which does not exist",
    );
    std::fs::write(&file, "exit 3\n").unwrap();
    let output = run("sh", &format!("exec $INIT --no-agent -- {file}"));
    assert_eq!(output.status.code(), Some(3), "a script without #!: {}", said(&output));
    std::fs::remove_file(&file).unwrap();
}

/// A path for one test of this run.
fn tempfile(name: &str) -> String {
    let path = std::env::temp_dir().join(format!("ojs-init-{}-{name}", std::process::id()));
    path.to_str().unwrap().to_owned()
}
