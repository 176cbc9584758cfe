//! Jobs that are given back again and again, in front of others that could be done.

use super::*;

/// Every test of this file.
pub const ALL: [(&str, fn()); 1] = [(
    "jobs_that_are_given_back_again_and_again_hold_up_no_others",
    good_behind_bad,
)];

/// More of them than places: the backend hands out the oldest first, and whatever was given back is
/// the oldest again.
const BAD: usize = 50;

const GOOD: usize = 5;

/// Gives back whatever has `bad` as its first argument, at once.
const PICKY: &str = "import sys; sys.path.insert(0, 'clients/python')
from ojs_worker import Release, Worker
worker = Worker(concurrency=10)
@worker.job('t')
def handle(job):
    if job.args[0] == 'bad': raise Release('mailer is busy')
worker.run()";

fn good_behind_bad() {
    let server = patient();
    let jobs = |what: &str, count| vec![format!(r#"{{"type":"t","args":["{what}"]}}"#); count];
    for of_kind in [jobs("bad", BAD), jobs("good", GOOD)] {
        server.enqueue_all(of_kind.iter().map(String::as_str)).unwrap();
    }
    let stage = Stage::new();
    let mut init = with_python(&stage, &server, PICKY)
        .with("OJS_CONCURRENCY", "10")
        .start();
    all_are_done(&server, GOOD);
    init.logs("Jobs of type t are given back again and again");
    let bad = server.jobs().into_iter().filter(|job| job.times_acked == 0);
    for job in bad.clone() {
        assert!(job.errors.is_empty(), "{job:#?}");
    }
    init.stops();
    assert_eq!(server.count(JobState::Available), BAD, "{}", init.story());
}
