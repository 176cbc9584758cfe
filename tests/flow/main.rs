//! Jobs in numbers, from the development backend through the real binary and the Python client and
//! back, while the network, the backend and the processes fail.
//!
//! Needs root (PID namespaces) and python3. The outages last as long as they do; everything else
//! waits for conditions.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a test whose processes do not do as they are told has failed"
)]

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/backend/mod.rs"]
mod backend;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/stage.rs"]
mod stage;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

mod credentials;
mod dialects;
mod heartbeats;
mod outages;
mod restarts;
mod returns;
mod wake;

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use ojs_devserver::{JobSnapshot, JobState, Options, Server};
use stage::{Stage, Start};

/// Longest that all jobs of a test may take together, on a busy machine, its outage included.
const PATIENCE: Duration = Duration::from_secs(120);

/// Jobs at the same time.
const CONCURRENCY: usize = 50;

/// A worker that takes that many and is done with each at once.
const QUICK: &str = "import sys; sys.path.insert(0, 'clients/python')
from ojs_worker import Worker
worker = Worker(concurrency=50)
@worker.job('t')
def handle(job): return job.args
worker.run()";

fn main() -> ExitCode {
    let tests = [
        outages::ALL.as_slice(),
        &heartbeats::ALL,
        &restarts::ALL,
        &returns::ALL,
        &dialects::ALL,
        &credentials::ALL,
        &wake::ALL,
    ]
    .concat();
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(tests.len());
    let trials = tests.into_iter().map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// An outage, for as long as it is to last.
#[expect(clippy::disallowed_methods, reason = "the length of an outage is what is tested")]
fn lasts(time: Duration) {
    std::thread::sleep(time);
}

/// A backend whose jobs stay reserved for long: what is delivered twice was delivered twice for
/// another reason.
fn patient() -> Server {
    Server::start(Options {
        heartbeat_interval: Duration::from_secs(1),
        heartbeat_timeout: Duration::from_secs(600),
        ..Options::default()
    })
    .unwrap()
}

/// Makes so many jobs available; `more` are further fields of each, which begin with a comma.
fn enqueue(server: &Server, count: usize, more: &str) {
    let jobs: Vec<String> = (0..count)
        .map(|number| format!(r#"{{"type":"t","args":[{number}]{more}}}"#))
        .collect();
    server.enqueue_all(jobs.iter().map(String::as_str)).unwrap();
}

/// The init with a Python program as its worker, at this backend.
fn with_python<'a>(stage: &'a Stage, server: &Server, program: &str) -> Start<'a> {
    stage
        .command(&["python3", "-c", program])
        .with("OJS_URL", server.url())
        .with("OJS_CONCURRENCY", CONCURRENCY.to_string())
        .with("OJS_LOG_LEVEL", "info")
}

/// How many jobs are done.
fn done(server: &Server) -> usize {
    server.count(JobState::Completed)
}

/// Waits until every job is done.
fn all_are_done(server: &Server, count: usize) -> Vec<JobSnapshot> {
    let is_done = server.wait(PATIENCE, |server| done(server) == count);
    assert!(is_done, "{} of {count} jobs are done", done(server));
    server.jobs()
}

/// Each job has one accepted ACK.
fn acked_once_each(jobs: &[JobSnapshot]) {
    let odd: Vec<&JobSnapshot> = jobs.iter().filter(|job| job.times_acked != 1).collect();
    assert!(odd.is_empty(), "{odd:#?}");
}

/// As above, and no worker ever had more jobs than it may.
fn once_each_and_never_too_many(server: &Server, jobs: &[JobSnapshot]) {
    acked_once_each(jobs);
    let most = server.most_active();
    assert!(most.values().all(|most| *most <= CONCURRENCY), "{most:?}");
}

/// As above, and each job was delivered once, and nobody ever said that it failed.
fn delivered_once_each(server: &Server, jobs: &[JobSnapshot]) {
    once_each_and_never_too_many(server, jobs);
    let odd: Vec<&JobSnapshot> = jobs
        .iter()
        .filter(|job| job.times_delivered != 1 || !job.errors.is_empty())
        .collect();
    assert!(odd.is_empty(), "{odd:#?}");
}
