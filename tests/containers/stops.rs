//! `docker stop`: SIGTERM, so many seconds, SIGKILL.

use std::time::Duration;

use ojs_devserver::{Fault, FaultRule, JobState, Options, Server};

use crate::container::{
    CLIENT, Container, Ended, KILLED, Start, TELLING, become_held, busy_with, errors, first_told, settled_after, told,
    was_cut_off,
};
use crate::images::shared;
use crate::support::wait::pause;
use crate::{PATIENCE, images, looks_until, measured};

/// Every test of this file.
pub const ALL: [(&str, fn()); 10] = [
    (
        "docker_stop_with_its_default_of_10_s_does_not_kill_a_worker_with_a_stuck_job",
        by_default,
    ),
    ("docker_stop_with_20_s_does_not_kill_a_worker_with_a_stuck_job", with_20),
    ("docker_stop_with_6_s_does_not_kill_a_worker_with_a_stuck_job", with_6),
    ("docker_stop_with_3_s_does_not_kill_a_worker_with_a_stuck_job", with_3),
    ("docker_stop_with_2_s_does_not_kill_a_worker_with_a_stuck_job", with_2),
    ("a_container_s_own_stop_timeout_is_kept", own_timeout),
    (
        "docker_stop_with_its_default_does_not_kill_a_worker_whose_backend_no_longer_answers",
        unanswered,
    ),
    ("docker_stop_ends_as_soon_as_the_last_job_is_done", as_soon_as_idle),
    (
        "docker_stop_at_any_moment_of_the_start_ends_with_status_0",
        at_the_start,
    ),
    ("docker_stop_lets_a_node_worker_finish_its_job", node),
];

/// With less a job that is cancelled has at most 0.3 s to answer, and a process that is killed as
/// little to go, which a busy machine may not give them.
const ROOMY: Duration = Duration::from_secs(4);

/// The part of a limit that ojs-init keeps back for its stop phase.
fn margin(limit: Duration) -> Duration {
    Duration::from_secs(5).min(limit / 2)
}

/// A worker that hears no SIGTERM, with a job that never ends, one that ends when it is cancelled,
/// and one that ends only after the SIGTERM, which shows that there was a drain.
fn stop_a_stuck_worker(start: impl FnOnce(Start) -> Start, stop: &[&str], limit: Duration) {
    let server = Server::start(Options::default()).unwrap();
    let journal = shared(&format!("stop-{}", limit.as_secs()));
    let worker = Start::worker(&server)
        .with("DEAF", "1")
        .with("JOURNAL", "/journal")
        .option(&format!("--volume={}:/journal", journal.display()));
    let worker = start(worker).start();
    let jobs = busy_with(
        &server,
        &worker,
        &[("stuck", 0.0), ("obeys", 0.0), ("until_let_go", 0.0)],
    );
    let asked = server.now_ms();
    let mut ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            server.wait(PATIENCE, |server| first_told(server, asked).is_some());
            std::fs::write(journal.join("let go"), "").unwrap();
        });
        worker.stop(stop)
    });
    let sigterm = told(&server, asked);
    // Less what the client needed until the signal was there.
    ended.took -= Duration::from_secs_f64((sigterm - asked) / 1e3);
    is_in_time(&worker, ended, limit);
    let gone = format!("gone after {:.2?}, status {}", ended.took, ended.status);
    let what = format!("docker stop, {limit:?}, a stuck job");
    if limit >= ROOMY {
        let drain = settled_after(&server, sigterm, &jobs[1], "nack");
        let promised = limit - margin(limit);
        measured(&what, &format!("drain {drain:.2?}, {gone}"));
        assert!(drain + TELLING > promised, "{drain:?} instead of {promised:?}");
    } else {
        measured(&what, &gone);
    }
    assert_eq!(server.job(&jobs[2]).unwrap().state, JobState::Completed);
    if limit >= ROOMY || !was_left(&server, &worker, &jobs[0]) {
        was_cut_off(&server, &worker, &jobs[0]);
    }
}

/// The killed process did not go in time: then nothing may be said of its job, and the log says so.
fn was_left(server: &Server, worker: &Container, job: &str) -> bool {
    let log = worker.log();
    errors(server, job).is_empty() && log.contains("left to its visibility timeout") && log.contains(job)
}

/// Nobody had to kill it.
fn is_in_time(worker: &Container, ended: Ended, limit: Duration) {
    assert_ne!(ended.status, KILLED, "{ended:?}: {}", worker.log());
    assert_eq!(ended.status, 0, "{ended:?}: {}", worker.log());
    assert!(ended.took < limit + CLIENT, "{ended:?}: {}", worker.log());
}

fn by_default() {
    stop_a_stuck_worker(|start| start, &[], Duration::from_secs(10));
}

fn with_seconds(seconds: u64) {
    let said = format!("{seconds}s");
    let start = |start: Start| start.with("OJS_TERMINATION_GRACE_PERIOD", &said);
    let limit = Duration::from_secs(seconds);
    stop_a_stuck_worker(start, &["--time", &seconds.to_string()], limit);
}

fn with_20() {
    with_seconds(20);
}

fn with_6() {
    with_seconds(6);
}

fn with_3() {
    with_seconds(3);
}

fn with_2() {
    with_seconds(2);
}

fn own_timeout() {
    let start = |start: Start| {
        start
            .option("--stop-timeout=4")
            .with("OJS_TERMINATION_GRACE_PERIOD", "4s")
    };
    stop_a_stuck_worker(start, &[], Duration::from_secs(4));
}

fn unanswered() {
    let server = Server::start(Options::default()).unwrap();
    let worker = Start::worker(&server).with("DEAF", "1").start();
    busy_with(&server, &worker, &[("stuck", 0.0), ("sleep", 2.0)]);
    server.fault(FaultRule::on_all(Fault::Hang)).unwrap();
    let ended = worker.stop(&[]);
    is_in_time(&worker, ended, Duration::from_secs(10));
    measured(
        "docker stop, 10s, a stuck job and a backend that does not answer",
        &format!("gone after {:.2?}, status {}", ended.took, ended.status),
    );
}

fn as_soon_as_idle() {
    let server = Server::start(Options::default()).unwrap();
    let worker = Start::worker(&server)
        .with("OJS_TERMINATION_GRACE_PERIOD", "60s")
        .start();
    let jobs = busy_with(&server, &worker, &[("sleep", 1.5), ("sleep", 0.5)]);
    let ended = worker.stop(&["--time", "60"]);
    is_in_time(&worker, ended, Duration::from_secs(15));
    for job in jobs {
        assert_eq!(server.job(&job).unwrap().times_acked, 1);
    }
    assert!(server.workers().is_empty(), "{:?}", server.workers());
}

fn at_the_start() {
    let server = Server::start(Options::default()).unwrap();
    for late in [0, 20, 80, 200, 400] {
        let worker = Start::worker(&server).start();
        pause(Duration::from_millis(late));
        let ended = worker.stop(&[]);
        is_in_time(&worker, ended, Duration::from_secs(8));
    }
    assert!(
        looks_until(PATIENCE, || server.workers().is_empty()),
        "{:?}",
        server.workers()
    );
}

fn node() {
    let server = Server::start(Options::default()).unwrap();
    let worker = Start::of(*images::NODE)
        .option("--network=host")
        .with("OJS_URL", &server.url())
        .with("OJS_HEALTH_LISTEN", "off")
        .start();
    let job = server
        .enqueue(r#"{"type":"image.resize","args":["cat.png",2]}"#)
        .unwrap();
    become_held(&server, &worker, 1);
    let ended = worker.stop(&[]);
    is_in_time(&worker, ended, Duration::from_secs(10));
    let job = server.job(&job).unwrap();
    assert_eq!(
        (job.times_acked, job.result.as_deref()),
        (1, Some(r#"{"resized":"cat.png"}"#))
    );
}
