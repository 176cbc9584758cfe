//! Whoever starts processes waits for them; the init's loop never does.

use std::time::Duration;

use super::handler;
use crate::backend::Endpoint;
use crate::stage::{PATIENCE, Stage};
use crate::support::trace::Turns;
use crate::support::under_test;

/// Jobs at once, and how many there are.
const AT_ONCE: u32 = 100;
const JOBS: u32 = 500;

/// Longest turn of the loop, in processor time, of what users have; and of a build that is not optimised. A turn in which a hundred
/// outcomes come at once takes 6 to 9 ms, most of it for the hundred requests that go out then.
const LONGEST: Duration = Duration::from_millis(20);
const LONGEST_UNOPTIMISED: Duration = Duration::from_millis(50);

#[test]
fn no_turn_of_the_inits_loop_is_long_while_a_hundred_processes_start_and_end() {
    let stage = Stage::new();
    let mut init = handler(&stage, "true")
        .with("OJS_CONCURRENCY", AT_ONCE.to_string())
        .with("OJS_LOG_LEVEL", "info")
        .start();
    stage.wait_for_more(Endpoint::Heartbeat, 1);
    let mut turns = Turns::attach(init.pid).unwrap();
    stage.enqueue(0..JOBS);
    let are_done = turns.run_until(PATIENCE * 6, || {
        let outcomes = stage.backend.outcomes();
        outcomes.values().all(|outcomes| !outcomes.is_empty())
    });
    assert!(are_done.unwrap(), "{}", init.story());
    let longest = turns.turns().iter().max().copied().unwrap_or_default();
    let count = turns.turns().len();
    println!("{count} turns for {JOBS} jobs, the longest {longest:?} of processor time");
    assert!(
        count > 50 && longest > Duration::ZERO,
        "{count} turns were seen, {longest:?}"
    );
    let is_optimised = !std::fs::read(under_test::init()).unwrap()[..4096]
        .windows(4)
        .any(|window| window == b"/ld-");
    let most = if is_optimised { LONGEST } else { LONGEST_UNOPTIMISED };
    assert!(longest < most, "{longest:?}: {}", init.story());
    // Who was watched is let go with the thread that watched.
    drop(turns);
    let _ = init.is_running();
}
