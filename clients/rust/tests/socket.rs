//! The fixture worker as a process of its own, beside a socket that plays ojs-init.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // whoever runs it looks at it

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running fixture worker, and the other end of its connection.
struct Run {
    child: Child,
    lines: BufReader<UnixStream>,
    folder: PathBuf,
}

impl Run {
    fn start(args: &[&str]) -> Run {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("ojs-worker-rust-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::SeqCst));
        let folder = env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let program = env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples/fixture");
        let log = fs::File::create(folder.join("log")).unwrap();
        let mut command = Command::new(program);
        let child = command.args(args).env("OJS_SOCKET", &path).env_remove("OJS_LOG_LEVEL").stderr(log);
        let child = child.stdin(Stdio::null()).spawn().expect("cargo has built the example");
        let (socket, _) = listener.accept().unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Run { child, lines: BufReader::new(socket), folder }
    }

    fn greeted(args: &[&str]) -> Run {
        let mut run = Run::start(args);
        run.say(&json!({"type": "hello", "protocol": 1, "worker_id": "w", "state": "running", "concurrency": 7,
            "queues": ["default"], "max_frame": 4_194_304}));
        run
    }

    fn say(&mut self, frame: &Value) {
        self.lines.get_mut().write_all(format!("{frame}\n").as_bytes()).unwrap();
    }

    fn job(&mut self, id: &str, kind: &str, args: Value, meta: Value) {
        let job = json!({"id": id, "type": kind, "queue": "q", "attempt": 3, "args": args, "meta": meta});
        self.say(&json!({"type": "job", "job": job}));
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("the worker says something");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no frame: {line:?}; {}", self.log()))
    }

    fn expect(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.next();
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }

    fn end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the worker does not end: {}", self.log());
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }

    fn logged(&self, text: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let log = self.log();
            if let Some(line) = log.lines().find(|line| line.contains(text)) {
                return serde_json::from_str(line).unwrap();
            }
            assert!(Instant::now() < deadline, "{text} is not in the log: {log}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
        let _gone = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn concurrency_is_what_hello_says_or_a_smaller_option() {
    assert_eq!(Run::greeted(&["--concurrency", "default"]).expect("ready")["concurrency"], 7);
    assert_eq!(Run::greeted(&[]).expect("ready")["concurrency"], 2);
}

#[test]
fn sigterm_ends_an_idle_worker_with_0_in_any_state() {
    let mut silent = Run::start(&[]);
    silent.signal("-TERM");
    assert_eq!(silent.end().code(), Some(0));
    let mut idle = Run::greeted(&[]);
    idle.expect("ready");
    idle.signal("-TERM");
    assert_eq!(idle.end().code(), Some(0));
}

#[test]
fn terminate_ends_an_idle_worker_with_0_and_one_with_a_job_when_it_is_answered() {
    let mut run = Run::greeted(&[]);
    run.expect("ready");
    run.job("j", "fixture.sleep", json!([300]), json!({}));
    run.say(&json!({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": 9000}));
    assert_eq!(run.expect("ack")["job_id"], "j");
    assert_eq!(run.end().code(), Some(0));
}

#[test]
fn sigterm_cuts_off_a_handler_that_hangs_and_ends_with_143() {
    let mut run = Run::greeted(&[]);
    run.expect("ready");
    run.job("j", "fixture.sleep", json!([60_000]), json!({}));
    run.job("k", "fixture.echo", json!([1]), json!({}));
    run.expect("ack");
    let began = Instant::now();
    run.signal("-TERM");
    assert_eq!(run.end().code(), Some(143));
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn sigterm_lets_a_handler_that_waits_for_its_cancel_give_its_job_back() {
    let mut run = Run::greeted(&[]);
    run.expect("ready");
    run.job("j", "fixture.wait", json!([]), json!({}));
    run.job("k", "fixture.echo", json!([1]), json!({}));
    run.expect("ack");
    run.signal("-TERM");
    assert_eq!(run.expect("release")["reason"], "shutdown");
    assert_eq!(run.end().code(), Some(0));
}

#[test]
fn a_closed_connection_ends_the_process_with_an_error_also_when_a_handler_hangs() {
    let mut run = Run::greeted(&[]);
    run.expect("ready");
    run.job("j", "fixture.sleep", json!([60_000]), json!({}));
    run.job("k", "fixture.echo", json!([1]), json!({}));
    run.expect("ack");
    run.lines.get_ref().shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(run.end().code(), Some(1));
}

#[test]
fn while_nobody_reads_answers_wait_and_none_is_lost() {
    let mut run = Run::greeted(&["--concurrency", "default"]);
    run.expect("ready");
    let large = "x".repeat(300_000);
    for number in 0..40 {
        run.job(&format!("j{number}"), "fixture.echo", json!([large]), json!({}));
    }
    run.say(&json!({"type": "lifecycle", "state": "quiet", "reason": "control"}));
    let mut ids: Vec<String> = (0..40).map(|_| run.expect("ack")["job_id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 40);
    run.say(&json!({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": 1000}));
    assert_eq!(run.end().code(), Some(0));
    let mut rest = String::new();
    run.lines.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn each_line_of_a_handler_names_its_job_those_of_libraries_included() {
    let mut run = Run::greeted(&[]);
    run.expect("ready");
    run.job("j", "fixture.log", json!(["from a library"]), json!({"trace_id": "t-1"}));
    run.expect("ack");
    let line = run.logged("from a library");
    let about = json!({"job_id": "j", "job_type": "fixture.log", "queue": "q", "attempt": 3});
    assert_eq!((&line["ojs"], &line["trace"]), (&about, &json!({"trace_id": "t-1"})));
    assert_eq!((&line["severity"], &line["severity_number"]), (&json!("INFO"), &json!(9)));
}

#[test]
fn a_level_in_the_metadata_is_that_of_the_job_alone() {
    let mut run = Run::greeted(&[]);
    run.expect("ready");
    run.job("j", "fixture.log", json!(["not seen"]), json!({"log_level": "error"}));
    run.expect("ack");
    run.job("k", "fixture.log", json!(["seen"]), json!({}));
    run.expect("ack");
    run.logged("\"seen\"");
    assert!(!run.log().contains("not seen"));
}

#[test]
fn the_stack_of_a_failed_job_is_in_the_log_and_its_arguments_are_not() {
    let mut run = Run::greeted(&[]);
    run.expect("ready");
    run.job("j", "fixture.crash", json!(["kaputt"]), json!({"password": "hidden"}));
    run.expect("fail");
    let line = run.logged("the job failed");
    assert_eq!(line["error"]["message"], "kaputt");
    assert!(line["error"]["type"].as_str().unwrap().ends_with("Crash"), "{line}");
    assert!(line["error"]["stack"].as_str().unwrap().contains("fixture/main.rs:"), "{line}");
    assert!(!run.log().contains("hidden"));
}
