//! The fixture worker, beyond what the sessions in clients/fixtures play.
#![allow(missing_docs, clippy::panic, clippy::pedantic, clippy::unwrap_used, reason = "tests")]

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(20);

/// A fixture worker that is ready, and the other end of its connection.
struct Run {
    child: Child,
    socket: BufReader<UnixStream>,
    folder: PathBuf,
}

impl Run {
    fn start(stderr: impl FnOnce(&PathBuf) -> Stdio) -> Run {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let folder = env::temp_dir().join(format!("ojs-worker-rust-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let listener = UnixListener::bind(folder.join("socket")).unwrap();
        let program = env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples/fixture");
        let mut command = Command::new(program);
        command.args(["--concurrency", "default"]).env("OJS_SOCKET", folder.join("socket")).stderr(stderr(&folder));
        let child = command.spawn().unwrap();
        let (socket, _) = listener.accept().unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut run = Run { child, socket: BufReader::new(socket), folder };
        run.send(&json!({"type": "hello", "protocol": 1, "state": "running", "concurrency": 50}));
        assert_eq!(run.next()["type"], "ready");
        run
    }

    fn send(&mut self, frame: &Value) {
        self.socket.get_mut().write_all(format!("{frame}\n").as_bytes()).unwrap();
    }

    fn job(&mut self, id: &str, kind: &str, args: &Value) {
        let meta = json!({"password": "hidden"});
        self.send(&json!({"type": "job", "job": {"id": id, "type": kind, "args": args, "meta": meta}}));
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.socket.read_line(&mut line).unwrap();
        let frame: Value = serde_json::from_str(&line).unwrap();
        if frame["job_id"] == "ojs-worker-stop" {
            self.send(&json!({"type": "error", "code": "not_held", "message": "no", "job_id": frame["job_id"]}));
            return self.next();
        }
        frame
    }

    fn end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the worker does not end");
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait(), fs::remove_dir_all(&self.folder));
    }
}

#[test]
fn the_worker_reads_while_nobody_reads_what_it_writes() {
    let mut run = Run::start(|_| Stdio::null());
    let large = json!(["x".repeat(300_000)]);
    for number in 0..40 {
        run.job(&number.to_string(), "fixture.echo", &large);
        run.send(&json!({"type": "ping", "id": number}));
    }
    let frames: Vec<Value> = (0..80).map(|_| run.next()).collect();
    assert_eq!(frames.iter().filter(|frame| frame["type"] == "ack").count(), 40);
    assert_eq!(frames.iter().filter(|frame| frame["type"] == "pong").count(), 40);
}

#[test]
fn a_closed_connection_ends_the_worker_even_if_a_handler_hangs() {
    let mut run = Run::start(|_| Stdio::null());
    run.job("j", "fixture.sleep", &json!([60_000]));
    run.job("k", "fixture.echo", &json!([1]));
    assert_eq!(run.next()["type"], "ack");
    run.socket.get_ref().shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(run.end().code(), Some(1));
}

#[test]
fn a_sigterm_alone_does_not_stop_handlers() {
    let mut run = Run::start(|_| Stdio::null());
    run.job("j", "fixture.stopping", &json!([]));
    Command::new("kill").arg(run.child.id().to_string()).status().unwrap();
    assert_eq!(run.next()["concurrency"], 0);
    run.send(&json!({"type": "cancel", "job_id": "j", "reason": "shutdown", "grace_ms": 1000}));
    assert_eq!(run.next()["type"], "release");
    assert_eq!(run.end().code(), Some(0));
}

#[test]
fn a_closed_connection_without_jobs_is_a_good_end() {
    let mut run = Run::start(|_| Stdio::null());
    run.socket.get_ref().shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(run.end().code(), Some(0));
}

#[test]
fn the_worker_goes_on_when_nobody_reads_its_log() {
    let mut run = Run::start(|_| Stdio::piped());
    drop(run.child.stderr.take());
    run.job("j", "fixture.crash", &json!(["kaputt"]));
    assert_eq!(run.next()["type"], "fail");
    run.job("k", "fixture.echo", &json!([1]));
    assert_eq!(run.next()["type"], "ack");
}

#[test]
fn a_log_that_is_full_stops_no_pong_and_no_cancel() {
    let mut run = Run::start(|_| Stdio::piped());
    run.job("j", "fixture.wait", &json!([]));
    for _ in 0..1000 {
        run.send(&json!({"type": "lifecycle", "state": "quiet", "reason": "x".repeat(100)}));
    }
    run.send(&json!({"type": "ping", "id": 1}));
    assert_eq!(run.next()["type"], "pong");
    run.send(&json!({"type": "cancel", "job_id": "j", "reason": "cancelled", "grace_ms": 1000}));
    assert_eq!(run.next()["type"], "release");
}

#[test]
fn the_log_has_the_stack_of_a_failure_and_nothing_of_its_job_but_its_names() {
    let mut run = Run::start(|folder| File::create(folder.join("log")).unwrap().into());
    run.job("j\nk", "fixture.crash", &json!(["kaputt"]));
    assert_eq!(run.next()["job_id"], "j\nk");
    run.send(&json!({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": 1000}));
    assert_eq!(run.end().code(), Some(0));
    let log = fs::read_to_string(run.folder.join("log")).unwrap();
    let line: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!((&line["ojs"]["job_id"], &line["error"]["message"]), (&json!("j k"), &json!("kaputt")));
    assert!(line["error"]["stack"].as_str().unwrap().contains("fixture/main.rs:"), "{line}");
    assert!(!log.contains("hidden"), "{log}");
}
