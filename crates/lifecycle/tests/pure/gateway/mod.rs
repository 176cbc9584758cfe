//! Random lives of workers that ask for their jobs and wait for the answer to each outcome, as
//! those behind an HTTP gateway do. A process may have several holders or be unknown, and answers
//! may be lost. Outcomes are reported twice or contradict each other, clients disconnect before
//! their answer, jobs are dropped silently, a process is killed while its parent lives.
//!
//! `SEED=17 cargo test --test pure gateway::` lives one life again and prints its events;
//! `RUNS=100000` lives a tenth of that number, because a life lasts as long as ten of the
//! simulation's.

mod backend;
mod promises;
mod world;

use world::World;

/// Least lives in a run of the tests.
const LIVES: u64 = 3_000;

/// Lives of the simulation that last as long as one of these.
const LIVES_OF_SIMULATION: u64 = 10;

#[test]
fn whatever_happens_each_outcome_is_answered_once_and_told_once() {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    if let Some(seed) = number("SEED") {
        let mut world = World::new(seed);
        world.live();
        println!("{}", world.story.join("\n"));
        assert_eq!(world.broken, None, "seed {seed}");
        return;
    }
    let lives = number("RUNS").unwrap_or_default() / LIVES_OF_SIMULATION;
    let lives = lives.max(LIVES);
    let mut seen = [0_u64; world::THINGS.len()];
    for seed in 1..=lives {
        let mut world = World::new(seed);
        world.live();
        assert_eq!(world.broken, None, "SEED={seed} tells what happened");
        for (all, one) in seen.iter_mut().zip(world.seen) {
            *all += u64::from(one);
        }
    }
    let never = world::THINGS.iter().zip(seen).find(|(_, count)| *count == 0);
    assert_eq!(
        never, None,
        "a simulation that never gets somewhere promises nothing about it"
    );
    crate::figure(format_args!("simulation of gateway workers: {lives} lives"));
}
