//! The log of a running init when nobody reads it.
#![allow(clippy::unwrap_used, reason = "a test that cannot start its processes has failed")]
#![allow(
    clippy::disallowed_methods,
    reason = "the test is the outside world: it starts and waits for processes"
)]

#[path = "support/under_test.rs"]
mod under_test;

use std::io::{ErrorKind, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

/// Longest that any step of a test may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Writes into the pipe until it takes nothing more.
fn fill(pipe: &mut PipeWriter) {
    fcntl(pipe.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    let full = std::iter::repeat_with(|| pipe.write(&[b'x'; 4096]))
        .find_map(Result::err)
        .unwrap();
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    fcntl(pipe.as_fd(), FcntlArg::F_SETFL(OFlag::empty())).unwrap();
}

#[test]
fn what_is_logged_while_standard_error_is_full_arrives_when_it_is_read_again() {
    let init = under_test::init();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    fill(&mut writer);
    // It has the init forward it a signal, says on standard output that it came, and ends when standard input does.
    let script = "trap 'echo forwarded' USR2; kill -USR2 $PPID; read end; exit 7";
    let mut running = Command::new(init)
        .args(["--no-agent", "-v", "--", "bash", "-c", script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(writer)
        .spawn()
        .unwrap();
    let mut said = [0; 10];
    running.stdout.take().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(
        &said, b"forwarded\n",
        "a full pipe must not keep the init from its work"
    );

    let (arrived, log) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = reader.read(&mut chunk) {
            text.extend_from_slice(chunk.get(..count).unwrap_or_default());
            if String::from_utf8_lossy(&text).contains("received SIGUSR2") {
                let _ = arrived.send(());
                break;
            }
        }
    });
    let line = log.recv_timeout(PATIENCE);
    drop(running.stdin.take());
    assert_eq!(running.wait().unwrap().code(), Some(7));
    assert!(
        line.is_ok(),
        "the line was dropped although there was room for it in the queue"
    );
}
