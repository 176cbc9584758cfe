//! Handlers that hang and processes that die: under which name, and what becomes of everybody else.

use crate::backend::{Endpoint, Outcome};
use crate::stage::{Init, PATIENCE, Stage, Start, job};
use crate::support::wait::wait_until;

/// Times short enough for a test.
const SHORT: [(&str, &str); 2] = [("OJS_TIMEOUT_GRACE", "200ms"), ("OJS_CANCEL_GRACE", "200ms")];

/// The words about the handler of job 1.
const HUNG: &str = "job j1 (t) ran 0.2 s past its timeout";

/// Its first life takes two jobs and answers nothing, the second one works.
const DEAF_AT_FIRST: &str = "
if os.path.exists(os.environ['NOTES'] + '.second'):
    link = Link()
    link.ready(2)
    link.work()
open(os.environ['NOTES'] + '.second', 'w').close()
note_signals(signal.SIGTERM)
link = Link()
link.ready(2)
link.job()
link.job()
link.note_all()";

/// A job with a timeout, and one without.
fn two_jobs(stage: &Stage) {
    stage.backend.enqueue(&job(1, r#","timeout_ms":100"#));
    stage.enqueue([2]);
}

fn told<'a>(start: Start<'a>, stage: &Stage) -> Start<'a> {
    let path = stage.at("termination-log");
    std::fs::write(&path, "").unwrap();
    start.with("OJS_TERMINATION_LOG", path)
}

fn termination_log(stage: &Stage) -> String {
    std::fs::read_to_string(stage.at("termination-log")).unwrap()
}

/// Each line that tells of the end says who ended it, and why.
fn is_named(init: &Init) {
    let log = init.log();
    let ended = format!("error: the worker was ended: {HUNG} (");
    for line in ["which holds 2 jobs: ", &ended] {
        assert!(log.contains(line), "{line:?} is not in {log}");
    }
    let last = format!("error: the worker was ended: {HUNG}");
    let is_last = |line: &str| line.contains(&last) && line.ends_with("; exit status 1");
    assert!(log.lines().any(is_last), "{last:?} with its status is not in {log}");
    assert!(!log.contains("by itself"), "{log}");
}

#[test]
fn a_worker_with_a_handler_that_hangs_is_started_again_and_its_other_job_is_done() {
    let stage = Stage::new();
    two_jobs(&stage);
    let mut init = stage.worker(DEAF_AT_FIRST).with_all(&SHORT).start();
    let is_done = || stage.outcomes("j2").last() == Some(&Outcome::Acked(None));
    assert!(wait_until(crate::stage::PATIENCE, is_done), "{}", init.story());
    assert_eq!(stage.failure("j1")["code"], "timeout");
    let [Outcome::Requeued, Outcome::Acked(None)] = stage.outcomes("j2").as_slice() else {
        panic!("{:?}", stage.outcomes("j2"))
    };
    assert_eq!(stage.backend.records_of(Endpoint::Register).len(), 2);
    assert!(
        init.log().contains(&format!("the worker was ended: {HUNG}")),
        "{}",
        init.story()
    );
    init.stops();
}

#[test]
fn a_worker_with_a_handler_that_hangs_and_is_not_started_again_ends_the_init_with_1_and_its_name() {
    let stage = Stage::new();
    two_jobs(&stage);
    let start = stage
        .worker(DEAF_AT_FIRST)
        .with_all(&SHORT)
        .with("OJS_RESTART", "never");
    let mut init = told(start, &stage).start();
    init.ends_with(1);
    is_named(&init);
    let text = termination_log(&stage);
    assert!(
        text.starts_with(&format!("the worker was ended: {HUNG}; exit status 1")),
        "{text}"
    );
    assert_eq!(stage.outcomes("j2"), [Outcome::Requeued]);
}

#[test]
fn a_shell_in_front_of_the_worker_that_hangs_is_not_taken_for_the_cause() {
    let stage = Stage::new();
    stage.backend.enqueue(&job(1, r#","timeout_ms":100"#));
    // Its attempts are used up: a requeue would discard it.
    stage.backend.enqueue(&job(2, r#","max_attempts":0"#));
    let raw = crate::stage::root().join("tests/support/raw_worker.py");
    std::fs::write(stage.at("worker.py"), DEAF_AT_FIRST).unwrap();
    let line = format!(
        "python3 -S -E {} \"$(cat {})\"; exit $?",
        raw.display(),
        stage.at("worker.py").display()
    );
    let start = stage.command(&["sh", "-c", &line]).with_all(&SHORT);
    let mut init = told(start.with("OJS_RESTART", "never"), &stage).start();
    init.ends_with(1);
    is_named(&init);
    assert_eq!(stage.failure("j1")["code"], "timeout");
    assert!(stage.outcomes("j2").is_empty(), "{:?}", stage.outcomes("j2"));
    let text = termination_log(&stage);
    assert!(
        text.ends_with("1 job left to the visibility timeout\nleft to the visibility timeout:\nj2 t\n"),
        "{text}"
    );
}

#[test]
fn a_process_that_dies_without_a_job_is_a_warning_with_what_can_still_be_taken() {
    let stage = Stage::new();
    let script = "
def serve():
    link = Link()
    link.ready(2)
    note('serves', os.getpid())
    link.work()

[child(serve) for _ in range(3)]
rest()";
    let mut init = stage.worker(script).with("OJS_CONCURRENCY", "6").start();
    let are_ready = |init: &Init| init.log().matches(" takes up to 2 jobs").count() == 3;
    assert!(wait_until(PATIENCE, || are_ready(&init)), "{}", init.story());
    let victim = init.noted("serves");
    crate::support::sys::send(init.outer_pid(&victim), libc::SIGKILL).unwrap();
    init.logs(&format!("of process {victim} closed: 4 of 6 jobs can be taken now"));
    stage.enqueue([1, 2]);
    stage.wait_for_outcomes();
    init.stops();
}
