//! A life of the machine: the bytes are its options, events and times.
//!
//! The world around it is hostile, but possible: a worker, a backend and operators do anything at
//! any time, and the shell reports only what can happen (a holder comes once, a process ends once).
//! At the end a SIGTERM comes, and nothing else any more: the machine has to exit by itself.

mod bytes;
mod options;
mod replies;
mod world;

use std::time::Duration;

use ojs_lifecycle::api::{Event, Phase};
use ojs_values::signal::Signal;

use bytes::Bytes;
use world::World;

/// Most events of a life: a longer one is only slower.
const MOST_EVENTS: usize = 400;

/// Most timers that may come due between the SIGTERM and the exit. The longest end of these worlds
/// lasts minutes, with some timers a second.
const MOST_TIMERS: usize = 50_000;

/// A life.
pub fn lifecycle(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let options = options::options(&mut bytes);
    let limit = options.times.limit;
    let mut world = World::new(options);
    for _ in 0..MOST_EVENTS {
        if bytes.is_empty() || world.has_exited() {
            break;
        }
        world.step(&mut bytes);
    }
    if world.has_exited() {
        return;
    }
    let began = world.now;
    world.happen(Event::SignalArrived(Signal::TERM));
    let mut timers = 0;
    while !world.has_exited() {
        assert!(timers < MOST_TIMERS, "no end: {:?}", world.machine.snapshot());
        assert!(world.pass_time(), "nothing is due: {:?}", world.machine.snapshot());
        timers += 1;
    }
    assert_eq!(world.machine.snapshot().phase, Phase::Exited);
    let lasted = began.elapsed(world.now);
    assert!(limit.is_none_or(|limit| lasted <= limit), "{lasted:?} of {limit:?}");
    assert!(lasted < Duration::from_secs(3_600));
}
