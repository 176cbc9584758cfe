//! The log of a running init when nobody reads it, or slowly. Needs python3.

use std::io::{ErrorKind, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::support::under_test;

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

/// A child that has the init forward it a signal, says on standard output that it came, and ends
/// when standard input does.
const FORWARDED: &str = r"
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
os.kill(os.getppid(), signal.SIGUSR2)
signal.sigwait([signal.SIGUSR2])
os.write(1, b'forwarded\n')
sys.stdin.read()
sys.exit(7)
";

#[test]
fn what_is_logged_while_standard_error_is_full_arrives_when_it_is_read_again() {
    arrives_when_it_is_read_again(OFlag::empty());
}

#[test]
fn a_full_standard_error_that_another_process_made_non_blocking_loses_no_record() {
    arrives_when_it_is_read_again(OFlag::O_NONBLOCK);
}

/// The init logs something while its standard error, with these flags, is full.
fn arrives_when_it_is_read_again(flags: OFlag) {
    let init = under_test::init();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    fill(&mut writer);
    fcntl(writer.as_fd(), FcntlArg::F_SETFL(flags)).unwrap();
    let mut running = Command::new(init)
        .args(["--no-agent", "-v", "--", "python3", "-S", "-E", "-c", FORWARDED])
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

/// A child that writes a megabyte in one piece, while another process has the init log something
/// all the time.
const WRITER: &str = r"
import os, signal, sys, time
signal.signal(signal.SIGUSR2, signal.SIG_IGN)
init = os.getppid()
pid = os.fork()
if pid == 0:
    while True:
        os.kill(init, signal.SIGUSR2)
        time.sleep(0.0005)
written = os.write(2, b'x' * (1 << 20))
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
sys.exit(0 if written == 1 << 20 else 9)
";

/// Every byte of it, read much more slowly than it could be written.
fn read_slowly(mut reader: impl Read) -> Vec<u8> {
    let mut all = Vec::new();
    let mut chunk = [0; 8192];
    while let Ok(count @ 1..) = reader.read(&mut chunk) {
        all.extend_from_slice(chunk.get(..count).unwrap_or_default());
        std::thread::sleep(Duration::from_millis(2));
    }
    all
}

#[test]
fn a_megabyte_that_the_worker_writes_arrives_whole_and_so_does_each_record_in_between() {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut running = Command::new(under_test::init())
        .args(["--no-agent", "-v", "--", "python3", "-S", "-E", "-c", WRITER])
        .stderr(writer)
        .spawn()
        .unwrap();
    let all = read_slowly(reader);
    assert_eq!(running.wait().unwrap().code(), Some(0), "a write was cut short");

    let text = String::from_utf8(all).unwrap();
    let (mut theirs, mut records_between) = (0, 0);
    let mut rest = text.as_str();
    while let Some(at) = rest.find('{') {
        let (before, record) = rest.split_at(at);
        let end = record.find('\n').unwrap() + 1;
        let read: serde_json::Value = serde_json::from_str(&record[..end]).unwrap();
        theirs += before.len();
        assert!(before.bytes().all(|byte| byte == b'x'), "{before:?}");
        records_between += usize::from(theirs > 0 && theirs < 1 << 20 && read["message"] == "received SIGUSR2");
        rest = &record[end..];
    }
    assert!(rest.bytes().all(|byte| byte == b'x'), "{rest:?}");
    assert_eq!(theirs + rest.len(), 1 << 20);
    assert!(records_between > 10, "only {records_between} records in between");
}

/// A child that has the init forward it a signal, waits for that, and so on; then it says so, and
/// ends when standard input does.
const PING_PONG: &str = r"
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
for _ in range(2000):
    os.kill(os.getppid(), signal.SIGUSR2)
    signal.sigwait([signal.SIGUSR2])
os.write(1, b'done')
sys.stdin.read()
";

#[test]
fn what_has_no_room_is_dropped_and_the_number_of_it_is_a_record() {
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    fill(&mut writer);
    let mut running = Command::new(under_test::init())
        .args(["--no-agent", "-v", "--", "python3", "-S", "-E", "-c", PING_PONG])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(writer)
        .spawn()
        .unwrap();
    let mut said = [0; 4];
    running.stdout.take().unwrap().read_exact(&mut said).unwrap();

    let (arrived, log) = mpsc::channel();
    let read_on = move || {
        let mut text = Vec::new();
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = reader.read(&mut chunk) {
            text.extend_from_slice(chunk.get(..count).unwrap_or_default());
            let so_far = String::from_utf8_lossy(&text);
            let whole = so_far.rsplit_once('\n').map_or("", |(whole, _)| whole);
            // One before that may tell of a record from before the child was started.
            let mut losses = whole.lines().filter(|line| line.contains(" log records dropped: "));
            if let Some(line) = losses.next() {
                let _ = arrived.send(line.to_owned());
                break;
            }
        }
    };
    std::thread::spawn(read_on);
    let line = log.recv_timeout(PATIENCE);
    drop(running.stdin.take());
    assert_eq!(running.wait().unwrap().code(), Some(0));
    let record: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
    assert_eq!(record["severity"], "WARN");
    let dropped = record["attributes"]["dropped"].as_u64().unwrap();
    assert!(dropped > 1000, "{record}");
}
