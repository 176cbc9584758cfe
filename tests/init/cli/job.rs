//! `ojs-init job`, from the shells and languages that jobs are written in.

use std::io::{BufRead, BufReader};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_ojs-init");

/// Runs this with one end of a socket as descriptor 3, as mode exec does; the other end comes back.
fn run(program: &str, args: &[&str], prepare: impl FnOnce(&UnixStream)) -> (Output, UnixStream) {
    let (runner, job) = UnixStream::pair().unwrap();
    prepare(&runner);
    let job = OwnedFd::from(job);
    let mut command = Command::new(program);
    command.args(args).env("OJS_JOB_FD", "3").env("OJS_INIT", PROGRAM);
    // SAFETY: between fork and exec; one system call that takes numbers.
    unsafe {
        let number = job.as_raw_fd();
        command.pre_exec(move || {
            // Where it has that number already it would be closed by the exec.
            let result = if number == 3 {
                libc::fcntl(3, libc::F_SETFD, 0)
            } else {
                libc::dup2(number, 3)
            };
            if result < 0 {
                Err(std::io::Error::last_os_error())
            } else {
                Ok(())
            }
        });
    }
    (command.output().unwrap(), runner)
}

fn lines(runner: UnixStream) -> Vec<String> {
    BufReader::new(runner).lines().map(Result::unwrap).collect()
}

#[test]
fn every_shell_says_what_a_job_has_to_say() {
    let script = r#"
        "$OJS_INIT" job progress 0.5 half of "  it" &&
        "$OJS_INIT" job progress .75 &&
        "$OJS_INIT" job checkpoint '{
            "page": 7.10
        }' &&
        "$OJS_INIT" job checkpoint -5 &&
        "$OJS_INIT" job heartbeat &&
        echo 'progress 1 by hand' >&3"#;
    for shell in ["dash", "bash", "sh"] {
        let (output, runner) = run(shell, &["-c", script], |_| {});
        assert!(output.status.success(), "{shell}: {output:?}");
        assert_eq!(
            lines(runner),
            [
                "progress 0.5 half of   it",
                "progress .75",
                "checkpoint {             \"page\": 7.10         }",
                "checkpoint -5",
                "heartbeat",
                "progress 1 by hand",
            ],
            "{shell}"
        );
    }
}

#[test]
fn python_needs_no_library_to_say_it() {
    let script = "import os, json\nfd = int(os.environ['OJS_JOB_FD'])\n\
                  os.write(fd, b'checkpoint ' + json.dumps({'page': 7}).encode() + b'\\n')";
    let (output, runner) = run("python3", &["-c", script], |_| {});
    assert!(output.status.success(), "{output:?}");
    assert_eq!(lines(runner), ["checkpoint {\"page\": 7}"]);
}

#[test]
fn a_script_finds_out_whether_its_job_is_to_end() {
    let script = r#"if "$OJS_INIT" job cancelled; then echo yes; else echo "no, $?"; fi"#;
    let (output, _runner) = run("dash", &["-c", script], |_| {});
    assert_eq!(String::from_utf8_lossy(&output.stdout), "no, 1\n");
    let (output, _runner) = run("dash", &["-c", script], |runner| {
        runner.shutdown(Shutdown::Write).unwrap()
    });
    assert_eq!(String::from_utf8_lossy(&output.stdout), "yes\n");
}

#[test]
fn a_job_that_is_to_end_still_says_how_far_it_came() {
    let (output, runner) = run(PROGRAM, &["job", "checkpoint", "7"], |runner| {
        runner.shutdown(Shutdown::Write).unwrap();
    });
    assert!(output.status.success(), "{output:?}");
    assert_eq!(lines(runner), ["checkpoint 7"]);
}

#[test]
fn nobody_who_reads_is_status_1() {
    let (output, _) = run(PROGRAM, &["job", "heartbeat"], |runner| {
        runner.shutdown(Shutdown::Both).unwrap()
    });
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("nobody reads"), "{message}");
}

#[test]
fn what_cannot_be_said_is_one_message_and_status_2_and_nothing_is_written() {
    for (args, says) in [
        (&["job"][..], "usage: ojs-init job progress"),
        (&["job", "stop"], "usage: ojs-init job progress"),
        (&["job", "heartbeat", "now"], "usage: ojs-init job progress"),
        (&["job", "progress"], "FRACTION"),
        (&["job", "progress", "50%"], "not a number from 0 to 1"),
        (&["job", "progress", "-0.5"], "not a number from 0 to 1"),
        (&["job", "checkpoint", "{page: 7}"], "not one JSON document"),
    ] {
        let (output, runner) = run(PROGRAM, args, |_| {});
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(
            message.contains(says) && output.stdout.is_empty(),
            "{args:?}: {message}"
        );
        assert_eq!(message.lines().count(), 1, "{args:?}: {message}");
        assert!(lines(runner).is_empty(), "{args:?}");
    }
}

#[test]
fn outside_a_job_it_says_so() {
    for (number, says) in [
        (None, "not in a job"),
        (Some(""), "not in a job"),
        (Some("three"), "not the number of a descriptor"),
        (Some("-1"), "not the number of a descriptor"),
        (Some("77777"), "77777"),
        // A file or a pipe is somebody else's.
        (Some("1"), "OJS_JOB_FD=1"),
    ] {
        for words in [
            &["progress", "0.5"][..],
            &["checkpoint", "1"],
            &["heartbeat"],
            &["cancelled"],
        ] {
            let mut command = Command::new(PROGRAM);
            command.arg("job").args(words).env_remove("OJS_JOB_FD");
            if let Some(number) = number {
                command.env("OJS_JOB_FD", number);
            }
            let output = command.output().unwrap();
            let message = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{number:?} {words:?}: {message}");
            assert!(
                message.contains(says) && output.stdout.is_empty(),
                "{number:?}: {message}"
            );
        }
    }
}

#[test]
fn its_help_says_how_a_script_calls_it() {
    for args in [&["job", "--help"][..], &["help", "job"]] {
        let output = Command::new(PROGRAM).args(args).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        for word in [
            "progress",
            "checkpoint",
            "heartbeat",
            "cancelled",
            "OJS_INIT",
            "Exit status 0",
            "arg",
        ] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
