//! `docker kill --signal`, and what the health check says meanwhile.

use std::time::Duration;

use ojs_devserver::{Fault, FaultRule, JobState, Options, Server};

use crate::container::{Container, KILLED, Start, become_held, become_state, busy_with, enqueue, errors};
use crate::images::shared;
use crate::support::wait::{pause, wait_until};
use crate::support::{proc, sys};
use crate::{PATIENCE, looks_until};

/// Two stop signals of one kind that are so far apart are two requests; within 100 ms they are one.
const ANOTHER_REQUEST: Duration = Duration::from_millis(150);

/// Every test of this file.
pub const ALL: [(&str, fn()); 7] = [
    ("sigtstp_quiets_a_container_and_sigcont_wakes_it", quiet_and_back),
    ("sigterm_sigint_and_sigquit_let_a_container_finish_its_job", graceful),
    ("a_second_sigterm_cuts_the_drain_short_and_a_third_ends_at_once", forced),
    ("sighup_sigusr1_sigusr2_and_sigwinch_reach_the_worker", forwarded),
    ("a_job_whose_container_was_killed_is_done_by_another_one", killed),
    ("a_container_that_stands_still_is_unhealthy_until_it_goes_on", frozen),
    ("quiet_is_no_reason_to_restart_a_container", quiet_is_live),
];

/// A health check as in the examples' images, only more often.
pub fn checked(start: Start, command: &str) -> Start {
    start
        .option(&format!("--health-cmd={command}"))
        .option("--health-interval=1s")
        .option("--health-timeout=3s")
        .option("--health-retries=2")
}

/// The exit status of `ojs-init health PROBE` in it.
fn probe(worker: &Container, probe: &str) -> Option<i32> {
    worker.exec(&["/ojs-init", "health", probe]).status.code()
}

fn quiet_and_back() {
    let server = Server::start(Options::default()).unwrap();
    let worker = Start::worker(&server).start();
    enqueue(&server, "sleep", 0.0);
    become_state(&server, JobState::Completed, 1);
    worker.signal("TSTP");
    worker.logs("quiet");
    enqueue(&server, "sleep", 0.0);
    assert!(
        !server.wait(Duration::from_millis(800), |server| server.count(JobState::Completed)
            == 2)
    );
    worker.signal("CONT");
    become_state(&server, JobState::Completed, 2);
    assert!(worker.is_running());
}

fn graceful() {
    for signal in ["TERM", "INT", "QUIT"] {
        let server = Server::start(Options::default()).unwrap();
        let worker = Start::worker(&server).start();
        let job = &busy_with(&server, &worker, &[("sleep", 1.0)])[0];
        worker.signal(signal);
        assert_eq!(worker.ends(PATIENCE).status, 0, "{signal}: {}", worker.log());
        assert_eq!(server.job(job).unwrap().times_acked, 1, "{signal}");
    }
}

fn forced() {
    let server = Server::start(Options::default()).unwrap();
    let start = || {
        Start::worker(&server)
            .with("DEAF", "1")
            .with("OJS_TERMINATION_GRACE_PERIOD", "60s")
            .start()
    };
    let worker = start();
    let job = &busy_with(&server, &worker, &[("stuck", 0.0)])[0];
    worker.signal("TERM");
    worker.logs("draining");
    pause(ANOTHER_REQUEST);
    worker.signal("TERM");
    assert_eq!(worker.ends(PATIENCE).status, 0, "{}", worker.log());
    assert_eq!(errors(&server, job), ["ShutdownError"]);

    let worker = start();
    become_held(&server, &worker, 1);
    let init = worker.pid();
    // The stop phase waits for what it does not get.
    server.fault(FaultRule::on_all(Fault::Hang)).unwrap();
    worker.signal("TERM");
    worker.logs("draining");
    pause(ANOTHER_REQUEST);
    worker.signal("TERM");
    // The stop phase is short: no client is started to look at it, nor to send the last one.
    let is_alone = wait_until(PATIENCE, || proc::children(init).is_empty());
    assert!(is_alone, "{}", worker.log());
    pause(ANOTHER_REQUEST);
    sys::send(init, libc::SIGTERM).unwrap();
    assert_eq!(worker.ends(PATIENCE).status, 143, "{}", worker.log());
    assert!(worker.log().contains("killed by SIGKILL"), "{}", worker.log());
}

fn forwarded() {
    let server = Server::start(Options::default()).unwrap();
    let journal = shared("heard");
    let worker = Start::worker(&server)
        .with("JOURNAL", "/journal")
        .option(&format!("--volume={}:/journal", journal.display()))
        .start();
    enqueue(&server, "sleep", 0.0);
    become_state(&server, JobState::Completed, 1);
    for signal in ["HUP", "USR1", "USR2", "WINCH"] {
        worker.signal(signal);
        let notes = || std::fs::read_to_string(journal.join("notes")).unwrap_or_default();
        let heard = looks_until(PATIENCE, || notes().contains(&format!("signal SIG{signal}\n")));
        assert!(heard, "{signal}: {}", notes());
    }
    assert!(worker.is_running());
}

fn killed() {
    let options = Options {
        heartbeat_interval: Duration::from_millis(500),
        heartbeat_timeout: Duration::from_secs(3),
        ..Options::default()
    };
    let server = Server::start(options).unwrap();
    let first = Start::worker(&server).start();
    // Long enough that it is not done before the engine has carried that out, on a busy machine.
    let job = &busy_with(&server, &first, &[("sleep", 10.0)])[0];
    first.signal("KILL");
    assert_eq!(first.ends(PATIENCE).status, KILLED);
    let _second = Start::worker(&server).start();
    become_state(&server, JobState::Completed, 1);
    let job = server.job(job).unwrap();
    assert_eq!((job.times_acked, job.times_delivered), (1, 2));
}

fn frozen() {
    let server = Server::start(Options::default()).unwrap();
    let worker = checked(Start::worker(&server), "/ojs-init health live").start();
    busy_with(&server, &worker, &[("sleep", 1.0)]);
    worker.health_becomes("healthy");
    worker.signal("STOP");
    worker.health_becomes("unhealthy");
    worker.signal("CONT");
    worker.health_becomes("healthy");
    become_state(&server, JobState::Completed, 1);
    assert_eq!(worker.stop(&[]).status, 0, "{}", worker.log());
}

fn quiet_is_live() {
    let server = Server::start(Options::default()).unwrap();
    let live = checked(Start::worker(&server), "/ojs-init health live").start();
    let healthy = checked(Start::worker(&server), "/ojs-init health").start();
    for worker in [&live, &healthy] {
        worker.health_becomes("healthy");
        worker.signal("TSTP");
    }
    healthy.health_becomes("unhealthy");
    assert_eq!(live.health(), "healthy");
    let probes = ["live", "ready"].map(|name| probe(&live, name));
    assert_eq!(probes, [Some(0), Some(1)], "{}", live.log());
}
