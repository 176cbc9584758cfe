//! A rolling restart, while work comes in.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ojs_devserver::{JobSnapshot, JobState, Options, Server};
use serde_json::Value;

use crate::container::{Container, Over, Start, enqueue};
use crate::images::shared;
use crate::support::wait::{now, pause};
use crate::{PATIENCE, in_full, looks_until, measured};

/// Every test of this file.
pub const ALL: [(&str, fn()); 1] = [(
    "a_rolling_restart_of_three_workers_loses_no_job_and_runs_none_twice_though_some_outlast_the_drain",
    rolling,
)];

/// Workers that run at the same time.
const WORKERS: usize = 3;

/// Between two jobs of the producer.
const PRODUCED_EVERY: Duration = Duration::from_millis(40);

/// Every so many-th job takes longer than the drain.
const LONG_ONES: usize = 25;

/// The time of a job that outlasts the drain of 5 s, in seconds.
const LONG: f64 = 8.0;

/// A container, and the name of its worker at the backend.
struct Worker {
    container: Container,
    id: String,
}

/// How long a job stays reserved of which nobody says anything more. Where the kernel did not let
/// go of a process in time its job is left to that.
const VISIBILITY: &str = "10s";

fn rolling() {
    let rounds = if in_full() { 20 } else { 2 };
    let server = Server::start(Options {
        max_events: 200_000,
        ..Options::default()
    });
    let server = server.unwrap();
    let journal = shared("rolling");
    let start = |others: &[Worker]| {
        let worker = Start::worker(&server)
            .option(&format!("--volume={}:/journal", journal.display()))
            .with("JOURNAL", "/journal")
            .with("OJS_VISIBILITY_TIMEOUT", VISIBILITY);
        registered(&server, worker.start(), others)
    };
    let began = now();
    let is_over = AtomicBool::new(false);
    let mut stops: Vec<Duration> = Vec::new();
    std::thread::scope(|scope| {
        let producer = scope.spawn(|| produce(&server, &is_over));
        // A test that fails here lets its producer go.
        let over = Over(&is_over);
        let mut workers = Vec::new();
        for _ in 0..WORKERS {
            workers.push(start(&workers));
        }
        for _ in 0..rounds {
            // The first one of each round is cut off for sure, the others as it happens.
            begins_a_long_job(&server, &workers[0].id);
            for _ in 0..WORKERS {
                let Worker { container, .. } = workers.remove(0);
                let ended = container.stop(&[]);
                assert_eq!(ended.status, 0, "{ended:?}: {}", container.log());
                stops.push(ended.took);
                workers.push(start(&workers));
            }
        }
        drop(over);
        let produced = producer.join().unwrap();
        let all_done = server.wait(PATIENCE, |server| server.count(JobState::Completed) == produced);
        assert!(
            all_done,
            "{} of {produced}: {:#?}",
            server.count(JobState::Completed),
            unfinished(&server)
        );
    });
    account_for(&server, &journal);
    let slowest = stops.iter().max().unwrap();
    let cut: usize = server.jobs().iter().map(|job| job.errors.len()).sum();
    measured(
        &format!("rolling restart, {rounds} rounds of {WORKERS} workers"),
        &format!(
            "{} jobs, {cut} times one was cut off, 0 lost, 0 double; {} stops, the slowest {slowest:.2?}; {:.1?} in all",
            server.jobs().len(),
            stops.len(),
            began.elapsed()
        ),
    );
    assert!(cut >= rounds, "in some round no job outlasted a drain");
}

/// Waits until the worker of this container is known to the backend, besides these.
fn registered(server: &Server, container: Container, others: &[Worker]) -> Worker {
    let is_new = |id: &String| others.iter().all(|other| other.id != *id);
    let are_all = looks_until(PATIENCE, || server.workers().len() == others.len() + 1);
    let id = server.workers().into_iter().find(is_new).filter(|_| are_all);
    let id = id.unwrap_or_else(|| panic!("{:?}: {}", server.workers(), container.log()));
    Worker { container, id }
}

/// Waits until this worker has got a long job that it had not got before.
fn begins_a_long_job(server: &Server, id: &str) {
    let begun_before = long_jobs(server, id);
    let begins = looks_until(PATIENCE, || !long_jobs(server, id).is_subset(&begun_before));
    assert!(begins, "{id} got no long job: {:#?}", unfinished(server));
}

/// The long jobs that this worker runs.
fn long_jobs(server: &Server, id: &str) -> BTreeSet<String> {
    let is_long = |job: &JobSnapshot| {
        let envelope: Value = serde_json::from_str(&job.envelope).unwrap();
        envelope["args"][0] == LONG
    };
    let runs = |job: &JobSnapshot| job.state == JobState::Active && job.worker.as_deref() == Some(id);
    let jobs = server.jobs().into_iter().filter(|job| runs(job) && is_long(job));
    jobs.map(|job| job.id).collect()
}

fn unfinished(server: &Server) -> Vec<JobSnapshot> {
    let jobs = server.jobs().into_iter();
    jobs.filter(|job| job.state != JobState::Completed).collect()
}

/// Enqueues until it is over; how many.
fn produce(server: &Server, is_over: &AtomicBool) -> usize {
    let mut produced = 0;
    while !is_over.load(Ordering::Relaxed) {
        produced += 1;
        let takes = if produced % LONG_ONES == 0 { LONG } else { 0.05 };
        enqueue(server, "sleep", takes);
        pause(PRODUCED_EVERY);
    }
    produced
}

/// Each job has one ACK, no delivery of one began before the last had ended, and no two workers ran
/// one at once.
fn account_for(server: &Server, journal: &std::path::Path) {
    for job in server.jobs() {
        assert_eq!(job.times_acked, 1, "{job:#?}");
        for pair in job.deliveries.windows(2) {
            let ended = pair[0].end.unwrap_or_else(|| panic!("{job:#?}")).0;
            assert!(ended <= pair[1].at, "{job:#?}");
        }
    }
    let notes = std::fs::read_to_string(journal.join("notes")).unwrap();
    let twice: Vec<&str> = notes.lines().filter(|line| line.starts_with("twice")).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let done: BTreeSet<&str> = notes.lines().filter_map(|line| line.strip_prefix("done ")).collect();
    assert_eq!(done.len(), server.jobs().len());
}
