//! Jobs that are in progress when the worker stops, is stopped or is gone.

use std::time::Duration;

use super::{CUT_SHORT, OBEYS, OFTEN, WORKS};
use crate::backend::{Endpoint, Outcome};
use crate::stage::{PATIENCE, Stage, job, never};
use crate::support::wait::wait_until;

#[test]
fn j_01_after_a_crash_nothing_is_said_and_the_job_comes_back_by_its_reservation() {
    let stage = Stage::new();
    stage.backend.reserve_for(Duration::from_secs(1));
    stage.enqueue([1]);
    let mut crashed = stage.worker(OBEYS).named("crashed").with(OFTEN.0, OFTEN.1).start();
    crashed.notes_line("job j1");
    crashed.signal(libc::SIGKILL);
    assert!(wait_until(PATIENCE, || !crashed.is_running()));
    let said = stage.backend.records().len();
    never("a request after the crash", || stage.backend.records().len() > said);
    assert_eq!(stage.count(Endpoint::Nack) + stage.count(Endpoint::Deregister), 0);
    let mut next = stage.worker(WORKS).named("next").with(OFTEN.0, OFTEN.1).start();
    stage.becomes("j1", &[Outcome::Lapsed, Outcome::Acked(None)]);
    next.stops();
}

#[test]
fn j_02_a_job_longer_than_the_grace_period_fails_as_interrupted() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(OBEYS).with_all(&CUT_SHORT).start();
    init.notes_line("job j1");
    init.stops();
    let error = stage.failure("j1");
    assert_eq!(error["type"], "ShutdownError", "{error}");
    assert_eq!(error["code"], "shutdown", "{error}");
    assert_eq!(error["details"]["kind"], "ShutdownTimeout", "{error}");
    assert_eq!(error["details"]["reason"], "shutdown", "{error}");
    assert!(error["message"].as_str().unwrap().contains("shut down"), "{error}");
    assert!(error["details"]["elapsed_ms"].as_u64().unwrap() >= 300, "{error}");
    assert_eq!(stage.count(Endpoint::Nack), 1);
}

#[test]
fn j_03_the_next_attempt_goes_on_where_the_interrupted_one_saved_its_state() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut first = stage.worker(OBEYS).named("first").with_all(&CUT_SHORT).start();
    first.notes_line("job j1");
    first.order(r#"checkpoint j1 {"state":{"step":1}}"#);
    first.order(r#"checkpoint j1 {"state":{"step":9007199254740993}}"#);
    first.notes_line("ok j1 checkpoint");
    first.stops();
    assert_eq!(stage.failure("j1")["type"], "ShutdownError");
    stage.backend.retry("j1");
    let script = "
link = Link()
link.ready()
frame = link.until('job')
note('resumed', json.dumps(frame['checkpoint']), frame['job']['attempt'])
link.ack(frame['job']['id'])
link.work()";
    let mut second = stage.worker(script).named("second").start();
    assert_eq!(second.noted("resumed"), r#"{"step": 9007199254740993} 1"#);
    let failed = stage.outcomes("j1").remove(0);
    stage.becomes("j1", &[failed, Outcome::Acked(None)]);
    second.stops();
}

#[test]
fn j_04_the_meta_of_a_job_passes_unchanged_and_its_checkpoint_is_found() {
    let meta = r#"{"trace":"00-a1","checkpoint":{"page":12.50,"big":9007199254740993}}"#;
    let stage = Stage::new();
    stage.backend.enqueue(&job(1, &format!(r#","meta":{meta}"#)));
    let script = "
link = Link()
link.ready()
while True:
    line = link.line()
    if b'\"job\":' in line:
        note('line', line.decode())
        note('checkpoint', json.dumps(json.loads(line)['checkpoint']))";
    let mut init = stage.worker(script).start();
    let line = init.noted("line");
    assert!(line.contains(&format!(r#""meta":{meta}"#)), "{line}");
    assert_eq!(init.noted("checkpoint"), r#"{"page": 12.5, "big": 9007199254740993}"#);
}

#[test]
fn j_05_an_interrupted_job_counts_as_an_attempt_unless_it_is_to_be_given_back() {
    for (leftovers, requeue) in [(None, None), (Some("fail"), None), (Some("requeue"), Some(true))] {
        let stage = Stage::new();
        stage.enqueue([1]);
        let mut start = stage.worker(OBEYS).with_all(&CUT_SHORT);
        if let Some(leftovers) = leftovers {
            start = start.with("OJS_LEFTOVERS", leftovers);
        }
        let mut init = start.start();
        init.notes_line("job j1");
        init.stops();
        let said = stage.backend.records_of(Endpoint::Nack).remove(0).json();
        assert_eq!(
            said.get("requeue").and_then(serde_json::Value::as_bool),
            requeue,
            "{said}"
        );
        match requeue {
            Some(_) => assert_eq!(stage.outcomes("j1"), [Outcome::Requeued]),
            None => assert_eq!(stage.failure("j1")["type"], "ShutdownError"),
        }
    }
}

#[test]
fn j_06_an_interrupted_job_may_be_tried_again() {
    // At the end of the grace period, and cut short by a second signal.
    for is_forced in [false, true] {
        let stage = Stage::new();
        stage.enqueue([1]);
        let grace = if is_forced { "30s" } else { CUT_SHORT[0].1 };
        let mut init = stage
            .worker(OBEYS)
            .with_all(&[(CUT_SHORT[0].0, grace), CUT_SHORT[1]])
            .start();
        init.notes_line("job j1");
        init.signal(libc::SIGTERM);
        init.notes_line("lifecycle terminate sigterm");
        if is_forced {
            init.signal_again(libc::SIGTERM);
        }
        init.ends_with(0);
        let error = stage.failure("j1");
        assert_eq!(error["retryable"], true, "{error}");
        let kind = if is_forced { "forced" } else { "ShutdownTimeout" };
        assert_eq!(error["details"]["kind"], kind, "{error}");
    }
}

#[test]
fn j_07_no_job_is_lost_by_a_planned_restart_a_scale_in_or_a_crash() {
    let stage = Stage::new();
    stage.backend.reserve_for(Duration::from_secs(1));
    let start = |name, number| {
        stage.enqueue([number]);
        let alone = ("OJS_CONCURRENCY", "1");
        let mut init = stage.worker(OBEYS).named(name).with_all(&[OFTEN, alone]).start();
        init.notes_line(&format!("job j{number}"));
        init
    };
    // Planned: the job is finished first.
    let mut planned = start("planned", 1);
    planned.signal(libc::SIGTERM);
    planned.notes_line("lifecycle terminate sigterm");
    planned.order("ack j1");
    planned.ends_with(0);
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    // Scale-in with a preStop hook: quiet while other workers take over, then the end.
    let mut scaled_in = start("scaled-in", 2);
    scaled_in.signal(libc::SIGTSTP);
    scaled_in.notes_line("lifecycle quiet sigtstp");
    let mut other = start("other", 3);
    scaled_in.signal(libc::SIGTERM);
    scaled_in.notes_line("lifecycle terminate sigterm");
    scaled_in.order("ack j2");
    scaled_in.ends_with(0);
    assert_eq!(stage.outcomes("j2"), [Outcome::Acked(None)]);
    // A crash: whoever is left gets the job.
    let mut crashed = start("crashed", 4);
    crashed.signal(libc::SIGKILL);
    assert!(wait_until(PATIENCE, || !crashed.is_running()));
    other.order("ack j3");
    other.notes_line("job j4");
    other.order("ack j4");
    stage.becomes("j3", &[Outcome::Acked(None)]);
    stage.becomes("j4", &[Outcome::Lapsed, Outcome::Acked(None)]);
    other.stops();
}
