//! A rolling restart, while work comes in.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ojs_devserver::{JobState, Options, Server};

use crate::container::{Container, Start, enqueue};
use crate::images::shared;
use crate::support::wait::{now, pause, wait_until};
use crate::{PATIENCE, in_full, measured};

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

/// How it is played.
struct Scale {
    rounds: usize,
    /// What the engine allows; `None`: what it allows when nobody says anything.
    limit: Option<&'static str>,
    /// The jobs that outlast the drain, in seconds.
    long: f64,
}

/// Docker's 10 s leave 5 s for the drain, 4 s leave 2.
fn scale() -> Scale {
    if in_full() {
        Scale {
            rounds: 20,
            limit: None,
            long: 8.0,
        }
    } else {
        Scale {
            rounds: 2,
            limit: Some("4"),
            long: 4.0,
        }
    }
}

fn rolling() {
    let scale = scale();
    let server = Server::start(Options {
        max_events: 200_000,
        ..Options::default()
    });
    let server = server.unwrap();
    let journal = shared("rolling");
    let start = || {
        let start = Start::worker(&server)
            .option(&format!("--volume={}:/journal", journal.display()))
            .with("JOURNAL", "/journal");
        match scale.limit {
            Some(limit) => start.with("OJS_TERMINATION_GRACE_PERIOD", &format!("{limit}s")).start(),
            None => start.start(),
        }
    };
    let began = now();
    let is_over = AtomicBool::new(false);
    let mut stops: Vec<Duration> = Vec::new();
    std::thread::scope(|scope| {
        let producer = scope.spawn(|| produce(&server, scale.long, &is_over));
        let mut workers: Vec<Container> = (0..WORKERS).map(|_| start()).collect();
        for _ in 0..scale.rounds {
            for place in 0..WORKERS {
                assert!(
                    wait_until(PATIENCE, || server.workers().len() == WORKERS),
                    "{:?}",
                    server.workers()
                );
                let options: &[&str] = &scale.limit.map_or(vec![], |limit| vec!["--time", limit]);
                let ended = workers[place].stop(options);
                assert_eq!(ended.status, 0, "{ended:?}: {}", workers[place].log());
                stops.push(ended.took);
                workers[place] = start();
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let produced = producer.join().unwrap();
        let all_done = server.wait(PATIENCE, |server| server.count(JobState::Completed) == produced);
        assert!(all_done, "{} of {produced}", server.count(JobState::Completed));
    });
    account_for(&server, &journal);
    let slowest = stops.iter().max().unwrap();
    let cut: usize = server.jobs().iter().map(|job| job.errors.len()).sum();
    measured(
        &format!("rolling restart, {} rounds of {WORKERS} workers", scale.rounds),
        &format!(
            "{} jobs, {cut} times one was cut off, 0 lost, 0 double; {} stops, the slowest {slowest:.2?}; {:.1?} in all",
            server.jobs().len(),
            stops.len(),
            began.elapsed()
        ),
    );
    assert!(cut > 0, "no job outlasted a drain");
}

/// Enqueues until it is over; how many.
fn produce(server: &Server, long: f64, is_over: &AtomicBool) -> usize {
    let mut produced = 0;
    while !is_over.load(Ordering::Relaxed) {
        produced += 1;
        let takes = if produced % LONG_ONES == 0 { long } else { 0.05 };
        enqueue(server, "sleep", takes);
        pause(PRODUCED_EVERY);
    }
    produced
}

/// Each job has one ACK, no delivery of one began before the last had ended, and no two workers ran one at once.
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
