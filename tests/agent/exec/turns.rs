//! The start of a process makes its caller wait; the init's loop never does.

use std::time::Duration;

use super::handler;
use crate::backend::Endpoint;
use crate::stage::{PATIENCE, Stage};
use crate::support::trace::Turns;
use crate::support::under_test;

/// Jobs at once, and how many there are.
const AT_ONCE: u32 = 100;
const JOBS: u32 = 500;

/// Longest turn of the loop, in processor time, of what users have; and of a build that is not
/// optimised. By itself it is 3 to 5 ms, among other tests up to 9; to start a hundred processes
/// takes a multiple of that.
const LONGEST: Duration = Duration::from_millis(15);
const LONGEST_UNOPTIMISED: Duration = Duration::from_millis(40);

/// Delays that the machine causes now and then count as processor time, too. A turn that is long
/// for what is done in it is long in each round.
const ROUNDS: u32 = 6;

#[test]
fn no_turn_of_the_inits_loop_is_long_while_a_hundred_processes_start_and_end() {
    let stage = Stage::new();
    let mut init = handler(&stage, "true")
        .with("OJS_CONCURRENCY", AT_ONCE.to_string())
        .with("OJS_LOG_LEVEL", "info")
        .start();
    stage.wait_for_more(Endpoint::Heartbeat, 1);
    let most = if under_test::is_static() {
        LONGEST
    } else {
        LONGEST_UNOPTIMISED
    };
    let mut turns = Turns::attach(init.pid).unwrap();
    let mut longest = Vec::new();
    for round in 0..ROUNDS {
        let before = turns.turns().len();
        stage.enqueue(round * JOBS..(round + 1) * JOBS);
        let are_done = turns.run_until(PATIENCE * 6, || {
            let outcomes = stage.backend.outcomes();
            outcomes.values().all(|outcomes| !outcomes.is_empty())
        });
        assert!(are_done.unwrap(), "{}", init.story());
        let of_round = &turns.turns()[before..];
        assert!(of_round.len() > 50, "{} turns were seen", of_round.len());
        longest.extend(of_round.iter().max());
        if longest[longest.len() - 1] < most {
            break;
        }
    }
    println!("the longest turn of each round: {longest:?} of processor time");
    let least = longest.iter().min().copied().unwrap_or_default();
    assert!(Duration::ZERO < least && least < most, "{longest:?}: {}", init.story());
    drop(turns);
    init.stops();
}
