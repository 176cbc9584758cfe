//! Ten thousand jobs, with and without a backend in the middle.

use std::time::{Duration, Instant};

use ojs_devserver::{Fault, FaultRule, Operation, Options, Server};

use super::*;
use crate::support::wait::now;

const JOBS: usize = 10_000;

/// How long the backend is away.
const OUTAGE: Duration = Duration::from_secs(20);

/// Every test of this file.
pub const ALL: [(&str, fn()); 5] = [
    (
        "ten_thousand_jobs_through_the_python_client_have_exactly_one_ack_each",
        undisturbed,
    ),
    (
        "ten_thousand_jobs_have_exactly_one_ack_each_though_the_backend_refuses_connections_for_20_seconds",
        refused,
    ),
    (
        "ten_thousand_jobs_have_exactly_one_ack_each_though_the_backend_does_not_answer_for_20_seconds",
        unanswered,
    ),
    (
        "ten_thousand_jobs_have_exactly_one_ack_each_though_every_fifth_ack_is_carried_out_and_not_answered",
        answers_lost,
    ),
    (
        "jobs_of_a_fetch_whose_answer_was_lost_come_back_and_are_done_once",
        claimed_for_nobody,
    ),
];

/// Runs all of them, and does `in_the_middle` when a third is done.
fn ten_thousand_jobs(server: &Server, in_the_middle: impl FnOnce()) -> Vec<JobSnapshot> {
    let stage = Stage::new();
    enqueue(server, JOBS, "");
    let mut init = with_python(&stage, server, QUICK).start();
    assert!(server.wait(PATIENCE, |server| done(server) > 0), "{}", init.story());
    let began: Instant = now();
    assert!(
        server.wait(PATIENCE, |server| done(server) >= JOBS / 3),
        "{}",
        init.story()
    );
    in_the_middle();
    let jobs = all_are_done(server, JOBS);
    let seconds = began.elapsed().as_secs_f64();
    println!("{JOBS} jobs in {seconds:.1} s: {:.0} jobs/s", JOBS as f64 / seconds);
    init.stops();
    assert_eq!(server.workers(), [""; 0], "nobody is left registered");
    jobs
}

fn undisturbed() {
    let server = patient();
    let jobs = ten_thousand_jobs(&server, || {});
    delivered_once_each(&server, &jobs);
}

fn refused() {
    let server = patient();
    let jobs = ten_thousand_jobs(&server, || {
        assert!(server.refuse_connections());
        let before = done(&server);
        assert!(before < JOBS, "the outage came too late");
        lasts(OUTAGE);
        assert_eq!(done(&server), before, "nothing got through");
        assert!(server.accept_connections());
    });
    delivered_once_each(&server, &jobs);
}

fn unanswered() {
    let server = patient();
    let jobs = ten_thousand_jobs(&server, || {
        let hangs = server.fault(FaultRule::on_all(Fault::Hang)).unwrap();
        let before = done(&server);
        assert!(before < JOBS, "the outage came too late");
        lasts(OUTAGE);
        server.clear_fault(hangs);
    });
    delivered_once_each(&server, &jobs);
}

/// Outcomes that the backend has and nobody heard of: a repeated ACK is told that the job is done
/// already.
fn answers_lost() {
    let server = patient();
    let fault = FaultRule::on(Operation::Ack, Fault::LoseReply).every(5);
    server.fault(fault).unwrap();
    let jobs = ten_thousand_jobs(&server, || {});
    delivered_once_each(&server, &jobs);
}

/// Jobs that were claimed for nobody come back when their time is over, and nothing happens to them
/// twice.
fn claimed_for_nobody() {
    let server = Server::start(Options {
        visibility_timeout: Duration::from_secs(3),
        ..Options::default()
    })
    .unwrap();
    enqueue(&server, 500, r#","retry":{"max_attempts":100}"#);
    let fault = FaultRule::on(Operation::Fetch, Fault::LoseReply).every(4).times(5);
    server.fault(fault).unwrap();
    let stage = Stage::new();
    // So long nobody has the jobs of an answer that was lost.
    let mut init = with_python(&stage, &server, QUICK)
        .with("OJS_VISIBILITY_TIMEOUT", "3s")
        .start();
    let jobs = all_are_done(&server, 500);
    init.stops();
    // The backend counts those that nobody heard of as active, so there may seem to be too many.
    acked_once_each(&jobs);
    let again = jobs.iter().filter(|job| job.times_delivered > 1).count();
    assert!(again > 0, "no answer was lost");
}
