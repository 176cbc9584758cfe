//! The program's own logger may do what it likes: stop the worker, ask a job, or panic.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // whoever runs it looks at it

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ojs_worker::testing::Delivery;
use ojs_worker::{Error, Job, Options, Result, Retry, RunError, Stopper, Worker};
use serde_json::{json, Value};

const PATIENCE: Duration = Duration::from_secs(20);

static ALONE: Mutex<()> = Mutex::new(());
static STOPPER: Mutex<Option<Stopper>> = Mutex::new(None);
static JOB: Mutex<Option<Job>> = Mutex::new(None);
static LINES: Mutex<Vec<(log::Level, String)>> = Mutex::new(Vec::new());
static PANICS: Mutex<bool> = Mutex::new(false);

struct Wild;

impl log::Log for Wild {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        LINES.lock().unwrap().push((record.level(), record.args().to_string()));
        let _asked = JOB.lock().unwrap().as_ref().map(Job::remaining);
        if let Some(stopper) = STOPPER.lock().unwrap().take() {
            stopper.stop();
        }
        let panics = *PANICS.lock().unwrap();
        assert!(!panics, "failed printing to stderr: Broken pipe");
    }

    fn flush(&self) {}
}

/// One test at a time: there is one logger.
fn alone() -> MutexGuard<'static, ()> {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    INSTALLED.get_or_init(|| {
        log::set_boxed_logger(Box::new(Wild)).unwrap();
        log::set_max_level(log::LevelFilter::Info);
    });
    LINES.lock().unwrap().clear();
    *PANICS.lock().unwrap() = false;
    alone
}

struct Init {
    lines: BufReader<UnixStream>,
    run: JoinHandle<Result<(), RunError>>,
}

impl Init {
    fn start(name: &str, mut worker: impl FnMut(Options) -> Worker) -> Init {
        let path = std::env::temp_dir().join(format!("ojs-worker-{name}-{}", std::process::id()));
        let _none = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let options = Options { socket_path: Some(path.clone()), handle_signals: false, ..Options::default() };
        let worker = worker(options);
        let run = thread::spawn(move || worker.run());
        let (socket, _) = listener.accept().unwrap();
        std::fs::remove_file(path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut init = Init { lines: BufReader::new(socket), run };
        init.say(&json!({"type": "hello", "protocol": 1, "worker_id": "w", "state": "running", "concurrency": 1,
            "queues": [], "max_frame": 4_194_304}));
        init
    }

    fn say(&mut self, frame: &Value) {
        self.lines.get_mut().write_all(format!("{frame}\n").as_bytes()).unwrap();
    }

    fn expect(&mut self, kind: &str) -> Value {
        loop {
            let mut line = String::new();
            self.lines.read_line(&mut line).expect("the worker says something");
            let frame: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no frame: {line:?}"));
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    /// Frames about which the library logs, on the reader's thread.
    fn say_what_is_logged(&mut self) {
        self.say(&json!({"type": "job", "job": {"id": "j", "type": "t", "args": []}}));
        self.say(&json!({"type": "job", "job": {"id": "j", "type": "t", "args": []}}));
        self.say(&json!({"type": "error", "code": "refused", "message": "no", "job_id": "j"}));
        self.say(&json!({"type": "lifecycle", "state": "quiet", "reason": "operator"}));
        self.say(&json!({"type": "cancel", "job_id": "j", "reason": "cancelled", "grace_ms": 1000}));
        self.say(&json!({"type": "ping", "id": 1}));
    }
}

fn waits(options: Options) -> Worker {
    let mut worker = Worker::with(options);
    worker.handle("t", |job| {
        *JOB.lock().unwrap() = Some(job.clone());
        Ok(job.sleep(PATIENCE)?)
    });
    worker
}

#[test]
fn a_logger_may_ask_a_job_and_stop_the_worker() {
    let _alone = alone();
    let mut init = Init::start("asks", |options| {
        let worker = waits(options);
        *STOPPER.lock().unwrap() = Some(worker.stopper());
        worker
    });
    init.say_what_is_logged();
    assert_eq!(init.expect("pong")["id"], 1);
    drop(init.lines);
    let _lost_or_ended = init.run.join().unwrap();
    JOB.lock().unwrap().take();
}

#[test]
fn a_logger_that_panics_costs_neither_the_reader_nor_an_answer() {
    let _alone = alone();
    *PANICS.lock().unwrap() = true;
    let mut init = Init::start("panics", waits);
    init.say_what_is_logged();
    assert_eq!(init.expect("release")["reason"], "cancelled");
    init.say(&json!({"type": "ping", "id": 2}));
    while init.expect("pong")["id"] != 2 {}
    init.say(&json!({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": 1000}));
    assert!(init.run.join().unwrap().is_ok());
    JOB.lock().unwrap().take();
}

#[test]
fn what_a_handler_returns_after_its_end_is_logged_with_its_place() {
    let _alone = alone();
    let mut worker = Worker::new();
    worker.handle("loop", |job| -> Result<()> {
        for row in job.iterate(0..1000)? {
            if row.is_err() {
                return Err(Error::from_boxed("a bug in a loop"));
            }
        }
        Ok(())
    });
    worker.handle("sleep", |job| job.sleep(PATIENCE).map_err(|_| Error::from_boxed("a bug after a cancel")));
    worker.handle("good", |job| Ok(job.sleep(PATIENCE)?));
    let now = Duration::from_millis(20);
    let outcome = worker.perform_delivery(&Delivery::new("loop", ()).unwrap().stop_in(now)).unwrap();
    assert_eq!(outcome.reason, "resumes at its checkpoint");
    for kind in ["sleep", "good"] {
        let outcome = worker.perform_delivery(&Delivery::new(kind, ()).unwrap().cancel("shutdown", now)).unwrap();
        assert_eq!(outcome.reason, "shutdown");
    }
    let mut lines = LINES.lock().unwrap().clone();
    // A worker of another test may still log its end.
    lines.retain(|(_, line)| line.contains("changes nothing"));
    assert_eq!(lines.len(), 2, "{lines:?}");
    for ((level, line), bug) in lines.iter().zip(["a bug in a loop", "a bug after a cancel"]) {
        assert_eq!(*level, log::Level::Warn);
        assert!(line.contains(bug) && line.contains("tests/logger.rs"), "{line}");
    }
}

#[test]
fn each_failed_job_is_in_the_log_but_for_those_whose_handler_has_said_itself_what_is_wrong() {
    let _alone = alone();
    let mut worker = Worker::new();
    worker.handle("own words", |_| -> Result<()> { Err(Retry::new("later").into()) });
    worker.handle("a cause", |_| -> Result<()> { Err(Retry::because(std::fmt::Error).into()) });
    worker.handle("no JSON", |_| Ok(f64::NAN));
    worker.handle_typed("arguments", |_, _: (u8, u8)| Ok(()));
    let failures = || {
        let lines = std::mem::take(&mut *LINES.lock().unwrap());
        lines.iter().filter(|(level, line)| *level == log::Level::Error && line.contains("the job failed")).count()
    };
    for (kind, logged) in [("own words", 0), ("a cause", 1), ("no JSON", 1), ("arguments", 1)] {
        assert_eq!(worker.perform(kind, ["x"]).unwrap().outcome, "fail", "{kind}");
        assert_eq!(failures(), logged, "{kind}");
    }
}
