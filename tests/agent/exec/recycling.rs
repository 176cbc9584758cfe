//! Recycling in mode exec: the runner is replaced, and its jobs are finished first.

use crate::backend::Outcome;
use crate::exec::handler;
use crate::stage::Stage;

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
