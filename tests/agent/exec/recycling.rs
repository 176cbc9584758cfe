//! Recycling in mode exec: the runner is replaced, and its jobs are finished first.

use crate::backend::Outcome;
use crate::exec::handler;
use crate::stage::Stage;
use crate::support::under_test;

#[test]
fn the_runner_is_replaced_after_so_many_jobs() {
    let stage = Stage::new();
    let start = handler(&stage, "cat > /dev/null").with("OJS_WORKER_MAX_JOBS", "5");
    let mut init = start.with("OJS_CONCURRENCY", "2").start();
    stage.enqueue(1..=20);
    stage.wait_for_outcomes();
    let recycled = init.log().matches("recycling the worker, because").count();
    assert!(recycled >= 3, "{}", init.story());
    init.stops();
    for number in 1..=20 {
        assert_eq!(stage.outcomes(&format!("j{number}")), [Outcome::Acked(None)]);
    }
}

#[test]
fn a_runner_that_starts_after_the_program_was_replaced_names_the_new_file_to_its_jobs() {
    let stage = Stage::new();
    let (program, new) = (stage.at("ojs-init"), stage.at("ojs-init.new"));
    std::fs::copy(under_test::init(), &program).unwrap();
    std::fs::copy(under_test::init(), &new).unwrap();
    let mut init = handler(&stage, r#""$OJS_INIT" job heartbeat"#)
        .through(&["sh", "-c", r#"shift; exec "$PROGRAM" "$@""#, "sh"])
        .with("PROGRAM", &program)
        .with("OJS_WORKER_MAX_JOBS", "1")
        .start();
    stage.enqueue([1]);
    stage.becomes("j1", &[Outcome::Acked(None)]);
    std::fs::rename(&new, &program).unwrap();
    for number in 2..=3 {
        stage.enqueue([number]);
        stage.becomes(&format!("j{number}"), &[Outcome::Acked(None)]);
    }
    init.stops();
}
