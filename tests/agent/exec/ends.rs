//! A job ends when its process ends, not when its pipes do.

use std::time::Duration;

use serde_json::json;

use super::{enqueue, handler, nobody_is_left, python};
use crate::backend::Outcome;
use crate::stage::Stage;
use crate::support::wait::now;

/// Much less than the processes that are left would live.
const SOON: Duration = Duration::from_secs(15);

#[test]
fn a_process_in_the_background_that_has_standard_output_holds_nothing_up() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let began = now();
    let mut init = handler(&stage, "sleep 60 & echo done").start();
    stage.wait_for_outcomes();
    assert!(began.elapsed() < SOON);
    let outcomes = stage.outcomes("j1");
    let [Outcome::Acked(Some(result))] = outcomes.as_slice() else {
        panic!("{outcomes:?}: {}", init.story())
    };
    assert_eq!(result.as_str().unwrap().trim_end(), "done");
    nobody_is_left(&mut init);
    init.stops();
}

#[test]
fn who_writes_before_it_reads_is_not_blocked() {
    let stage = Stage::new();
    enqueue(&stage, "j1", "t", &json!(["x".repeat(1 << 20)]), "");
    let script = "import sys
sys.stdout.write('y' * (128 << 10)); sys.stdout.flush()
sys.stderr.write(str(len(sys.stdin.read())) + '\\n')";
    let mut init = python(&stage, script).start();
    stage.becomes("j1", &[Outcome::Acked(Some(json!("y".repeat(128 << 10))))]);
    init.stops();
    let log = init.log();
    let read = log
        .lines()
        .find_map(|line| line.split_once("[job j1] ")?.1.trim().parse::<usize>().ok());
    assert!(read.is_some_and(|read| read > 1 << 20), "{read:?}");
}

#[test]
fn who_ends_without_reading_its_input_has_done_its_job() {
    let stage = Stage::new();
    // Nine megabytes unread.
    enqueue(&stage, "j1", "t", &json!(["x".repeat(9 << 20)]), "");
    let mut init = handler(&stage, "exit 0").with("OJS_MAX_FRAME", "16MiB").start();
    stage.becomes("j1", &[Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn a_gigabyte_of_output_is_a_failure_after_a_bounded_time_and_costs_no_memory() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = handler(&stage, "head -c 1000000000 /dev/zero").start();
    stage.wait_for_outcomes_for(Duration::from_secs(60));
    let error = stage.failure("j1");
    assert_eq!(
        (&error["code"], &error["retryable"]),
        (&json!("result_too_large"), &json!(false)),
        "{error}"
    );
    let runner = super::runner(&mut init);
    let peak = crate::support::proc::status_field(runner, "VmHWM").unwrap();
    let peak: u64 = peak.split_whitespace().next().unwrap().parse().unwrap();
    assert!(peak < 64 << 10, "{peak} KiB");
    init.stops();
}

#[test]
fn a_flood_of_lines_on_standard_error_holds_up_neither_its_job_nor_the_heartbeats() {
    let stage = Stage::new();
    enqueue(&stage, "j1", "flood", &json!([]), "");
    enqueue(&stage, "j2", "t", &json!([]), "");
    let script = "case $OJS_JOB_TYPE in flood) yes 'a line of a flood' | head -c 50000000 >&2;; esac";
    let mut init = handler(&stage, script).with("OJS_LOG_LEVEL", "info").start();
    stage.wait_for_outcomes_for(Duration::from_secs(60));
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    assert_eq!(stage.outcomes("j2"), [Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn a_line_without_an_end_is_cut() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = handler(&stage, "head -c 100000 /dev/zero | tr '\\0' x >&2").start();
    stage.becomes("j1", &[Outcome::Acked(None)]);
    init.stops();
    let log = init.log();
    let longest = log.lines().map(str::len).max().unwrap();
    assert!(log.contains("[job j1] xxxxxxxx") && longest < 10_000, "{longest}");
}
