//! What a job leaves behind: nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // whoever runs it looks at it

use std::fs;
use std::panic::panic_any;
use std::process::Command;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use ojs_worker::{Job, Result, Worker};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(20);

/// One test at a time: they look at the threads of the process.
static ALONE: Mutex<()> = Mutex::new(());

fn worker(handler: impl Fn(&Job) -> Result<()> + Send + Sync + 'static) -> Worker {
    let mut worker = Worker::new();
    worker.handle("t", handler);
    worker
}

fn handler_threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    tasks.filter(|task| fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("ojs-"))).count()
}

fn wait_for_no_thread() {
    let deadline = Instant::now() + PATIENCE;
    while handler_threads() > 0 {
        assert!(Instant::now() < deadline, "{} threads are left", handler_threads());
        thread::sleep(Duration::from_millis(5));
    }
}

/// Tells when it is dropped, and panics then if it is to.
struct Dropped {
    told: Sender<()>,
    panics: bool,
    _job: Option<Job>,
}

impl Drop for Dropped {
    fn drop(&mut self) {
        let _nobody_asks = self.told.send(());
        assert!(!self.panics, "dropped");
    }
}

fn keeper(panics: bool) -> (Worker, Receiver<()>) {
    let (told, dropped) = channel();
    let told = Mutex::new(told);
    let keeps = move |job: &Job| {
        job.keep(Dropped { told: told.lock().unwrap().clone(), panics, _job: Some(job.clone()) });
        Ok(())
    };
    (worker(keeps), dropped)
}

#[test]
fn a_test_of_a_handler_leaves_no_thread_behind() {
    let _alone = ALONE.lock();
    let worker = worker(|_| Ok(()));
    for _ in 0..20 {
        assert_eq!(worker.perform("t", ()).unwrap().outcome, "ack");
    }
    wait_for_no_thread();
}

#[test]
fn what_is_kept_with_a_job_ends_with_it_even_if_it_has_the_job() {
    let _alone = ALONE.lock();
    let (worker, dropped) = keeper(false);
    assert_eq!(worker.perform("t", ()).unwrap().outcome, "ack");
    dropped.recv_timeout(PATIENCE).expect("it is still there");
}

#[test]
fn what_panics_where_it_is_dropped_costs_neither_the_answer_nor_a_thread() {
    let _alone = ALONE.lock();
    let (told, _dropped) = channel();
    let told = Mutex::new(told);
    let thrower = worker(move |_| panic_any(Dropped { told: told.lock().unwrap().clone(), panics: true, _job: None }));
    assert_eq!(thrower.perform("t", ()).unwrap().error.unwrap().kind, "panic");
    let (keeper, dropped) = keeper(true);
    assert_eq!(keeper.perform("t", ()).unwrap().outcome, "ack");
    dropped.recv_timeout(PATIENCE).expect("it is still there");
    wait_for_no_thread();
}

/// Not a test of its own: the process of the next one.
#[test]
#[ignore = "it ends its process"]
fn panics_twice() {
    struct Broken;
    impl Drop for Broken {
        fn drop(&mut self) {
            panic!("within a drop");
        }
    }
    ojs_worker::install_log().unwrap();
    let twice = worker(|_| {
        let _broken = Broken;
        panic!("kaputt")
    });
    let _it_has_ended = twice.perform("t", ());
}

#[test]
fn a_panic_that_ends_the_process_is_in_the_log_with_its_job_and_place() {
    let program = std::env::current_exe().unwrap();
    let child = Command::new(program).args(["--ignored", "--exact", "--nocapture", "panics_twice"]).output().unwrap();
    let log = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(child.status.code().is_none(), "it ends by a signal: {log}");
    let line = log.lines().find(|line| line.contains("the process ends by this")).unwrap_or_else(|| panic!("{log:?}"));
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["ojs"]["job_id"], "test-job");
    assert!(line["message"].as_str().unwrap().contains("before it at tests/ends.rs:"), "{line}");
}
