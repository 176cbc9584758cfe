//! Every state that the machine can reach in a few small worlds, breadth first: each promise is
//! checked at each step, and a broken one is shown with the shortest way to it.
//!
//! The bounds: each world limits how often each kind of event may happen on one path, and how many
//! states are explored. A world whose states are all seen prints `all of them`. Time moves only to
//! the machine's next timer, and requests are answered at those moments or never. The states at the
//! bound run to the exit in a silent world. `EXPLORE_STATES=1000000 cargo test --test pure
//! exploration` explores more.
//!
//! Two states are equal if they differ only in the time of day, in the numbers of requests and
//! claims, and in the place in the sequence of pseudo-random pauses (`exploration/fingerprint.rs`).

mod cancels;
mod choices;
mod fetches;
mod fingerprint;
mod gateway;
mod promises;
mod pulls;
mod requests;
mod streams;
mod world;

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use ojs_lifecycle::api::{Leftovers, Options, Queues, Restart};
use world::{Action, Budget, Cast, Kin, World};

use crate::figure;
use crate::script::{render, settings};

const NOTHING: Budget = Budget {
    sigterm: 0,
    sigtstp: 0,
    sigcont: 0,
    terminate: 0,
    cancels: 0,
    jobs: 0,
    surplus: 0,
    failures: 0,
    deaths: 0,
    hang_ups: 0,
    pulls: 0,
    repeats: 0,
    beats: 0,
    news: 0,
    waits: 0,
};

/// One world to explore.
struct Setting {
    name: &'static str,
    options: Options,
    budget: Budget,
    cast: Cast,
    most_states: usize,
}

fn options(concurrency: u32) -> Options {
    let mut options = settings::defaults();
    options.concurrency = concurrency;
    // Few heartbeats and no drain log in between: they are answered at once and change nothing.
    options.times.grace_period = Duration::from_secs(4);
    options.times.limit = Some(Duration::from_secs(9));
    options
}

/// The step that led to a state.
struct Step {
    from: Option<usize>,
    action: Action,
    depth: u32,
}

fn explore(setting: &Setting) {
    let first = World::new(&setting.options, setting.budget, setting.cast);
    let mut steps = vec![Step {
        from: None,
        action: Action::Starts,
        depth: 0,
    }];
    let mut known = BTreeSet::from([fingerprint::of(&first.identity(), first.now)]);
    let mut open = VecDeque::from([(first, 0)]);
    let (mut transitions, mut exits) = (0_usize, 0_usize);
    while let Some((world, at)) = open.pop_front() {
        if known.len() >= setting.most_states {
            open.push_front((world, at));
            break;
        }
        for action in world.actions() {
            let mut next = world.clone();
            next.seen.clear();
            next.take(&action);
            transitions += 1;
            assert!(next.broken.is_none(), "{}", story(setting, &steps, at, &action, &next));
            exits += usize::from(next.exited.is_some());
            if known.insert(fingerprint::of(&next.identity(), next.now)) {
                let depth = steps[at].depth + 1;
                steps.push(Step {
                    from: Some(at),
                    action,
                    depth,
                });
                open.push_back((next, steps.len() - 1));
            }
        }
    }
    let in_front = open.len();
    for (world, at) in open {
        run_out(setting, &steps, world, at);
    }
    let depth = steps.last().map_or(0, |step| step.depth);
    let extent = if in_front == 0 {
        "all of them".to_owned()
    } else {
        format!("bounded: {in_front} more in front, each let run to the exit in silence")
    };
    figure(format_args!(
        "{}: {} states, {transitions} transitions, {exits} exits, depth {depth}; {extent}",
        setting.name,
        known.len(),
    ));
    assert!(exits + in_front > 0, "{}: nobody ever comes to the exit", setting.name);
}

/// From here on the world is silent: only time passes.
fn run_out(setting: &Setting, steps: &[Step], mut world: World, at: usize) {
    if !world.machine.snapshot().phase.is_terminating() {
        world.take(&Action::Signal(ojs_values::signal::Signal::TERM));
    }
    while world.exited.is_none() {
        let action = Action::TimeComesToTheNextTimer;
        world.take(&action);
        assert!(world.broken.is_none(), "{}", story(setting, steps, at, &action, &world));
    }
}

/// The shortest way to a broken promise, step by step.
fn story(setting: &Setting, steps: &[Step], at: usize, last: &Action, broken: &World) -> String {
    let mut way = vec![last.clone()];
    let mut at = Some(at);
    while let Some(step) = at.map(|at| &steps[at]) {
        if step.from.is_some() {
            way.push(step.action.clone());
        }
        at = step.from;
    }
    way.reverse();
    let mut text = format!("{}: {}\n", setting.name, broken.broken.as_deref().unwrap_or_default());
    let mut world = World::new(&setting.options, setting.budget, setting.cast);
    for action in way {
        world.seen.clear();
        world.take(&action);
        let now = ojs_lifecycle::api::Moment::new(Duration::ZERO).elapsed(world.now);
        text.push_str(&format!("{:<9} {action:?}\n", format!("{:.3}", now.as_secs_f64())));
        for effect in &world.seen {
            text.push_str(&format!("          > {}\n", render::effect(effect)));
        }
    }
    text
}

/// Most states of one world that are looked at when it has more than `MOST_OF_A_SMALL_ONE`;
/// `EXPLORE_STATES` sets both.
const MOST_STATES: usize = 10_000;

/// Worlds with no more states than this are explored whole.
const MOST_OF_A_SMALL_ONE: usize = 24_000;

/// A world that is looked through.
fn small_world(name: &'static str, options: Options, budget: Budget, holders: u8, each: u32) {
    world_up_to(
        MOST_OF_A_SMALL_ONE,
        name,
        options,
        budget,
        of_the_socket(budget, holders, each),
    );
}

/// A world that has too many states to look at all of them.
fn world(name: &'static str, options: Options, budget: Budget, holders: u8, each: u32) {
    world_up_to(MOST_STATES, name, options, budget, of_the_socket(budget, holders, each));
}

/// A world of workers behind the gateway, each holder with room for one job.
fn behind_the_gateway(name: &'static str, budget: Budget, holders: u8, kin: Kin) {
    let mut options = options(2);
    options.queues = Queues::AsAsked;
    options.enforce_timeouts = false;
    world_up_to(MOST_STATES, name, options, budget, Cast::new(holders, 1, kin));
}

fn of_the_socket(budget: Budget, holders: u8, each: u32) -> Cast {
    let kin = if budget.pulls > 0 { Kin::Asking } else { Kin::Told };
    Cast::new(holders, each, kin)
}

fn world_up_to(most: usize, name: &'static str, options: Options, budget: Budget, cast: Cast) {
    let asked = std::env::var("EXPLORE_STATES")
        .ok()
        .and_then(|states| states.parse().ok());
    explore(&Setting {
        name,
        options,
        budget,
        cast,
        most_states: asked.unwrap_or(most),
    });
}

#[test]
fn one_job_and_one_sigterm() {
    let budget = Budget {
        sigterm: 1,
        jobs: 1,
        ..NOTHING
    };
    small_world("one job, one SIGTERM", options(1), budget, 1, 1);
}

#[test]
fn two_jobs_and_one_sigterm() {
    let budget = Budget {
        sigterm: 1,
        jobs: 2,
        ..NOTHING
    };
    world("two jobs, one SIGTERM", options(2), budget, 1, 2);
}

#[test]
fn one_job_and_three_sigterms() {
    let budget = Budget {
        sigterm: 3,
        jobs: 1,
        ..NOTHING
    };
    world("one job, three SIGTERMs", options(1), budget, 1, 1);
}

#[test]
fn one_job_and_every_signal() {
    let budget = Budget {
        sigterm: 2,
        sigtstp: 1,
        sigcont: 1,
        terminate: 1,
        jobs: 1,
        waits: 1,
        ..NOTHING
    };
    world("one job, every signal", options(1), budget, 1, 1);
}

#[test]
fn a_hook_a_terminate_and_a_sigterm() {
    let mut options = options(1);
    options.tstp_starts_clock = true;
    let budget = Budget {
        sigterm: 1,
        sigtstp: 1,
        terminate: 1,
        waits: 2,
        ..NOTHING
    };
    world("SIGTSTP as a hook, terminate, SIGTERM", options, budget, 1, 1);
}

#[test]
fn one_job_and_an_idle_end() {
    let mut options = options(1);
    options.exit_when_idle = Some(Duration::from_millis(400));
    let budget = Budget {
        sigterm: 1,
        sigtstp: 1,
        sigcont: 1,
        jobs: 1,
        failures: 1,
        waits: 2,
        ..NOTHING
    };
    world("one job, an idle end", options, budget, 1, 1);
}

#[test]
fn one_job_and_no_other() {
    let mut options = options(1);
    options.once = true;
    let budget = Budget {
        sigterm: 1,
        jobs: 2,
        surplus: 1,
        failures: 1,
        deaths: 1,
        waits: 1,
        ..NOTHING
    };
    world("the one job of --once", options, budget, 1, 1);
}

#[test]
fn one_job_a_sigterm_and_a_backend_that_fails() {
    let budget = Budget {
        sigterm: 1,
        jobs: 1,
        failures: 2,
        ..NOTHING
    };
    world("one job, two failures", options(1), budget, 1, 1);
}

#[test]
fn more_jobs_than_asked_for_and_a_backend_that_fails() {
    let budget = Budget {
        sigterm: 1,
        jobs: 2,
        surplus: 1,
        failures: 1,
        ..NOTHING
    };
    world("a surplus, one failure", options(1), budget, 1, 1);
}

#[test]
fn two_processes_two_jobs_and_a_death() {
    let budget = Budget {
        sigterm: 1,
        jobs: 2,
        deaths: 1,
        hang_ups: 1,
        ..NOTHING
    };
    world("two processes, one death, one hang-up", options(2), budget, 2, 1);
}

#[test]
fn one_job_and_a_death() {
    let budget = Budget {
        sigterm: 1,
        jobs: 1,
        deaths: 1,
        hang_ups: 1,
        ..NOTHING
    };
    world("one job, one death, one hang-up", options(1), budget, 1, 1);
}

#[test]
fn a_worker_that_is_started_again() {
    let mut options = options(1);
    options.restart = Restart::Always;
    let budget = Budget {
        sigterm: 1,
        jobs: 1,
        deaths: 1,
        waits: 3,
        ..NOTHING
    };
    world("restart", options, budget, 1, 1);
}

#[test]
fn leftovers_that_are_requeued() {
    let mut options = options(1);
    options.leftovers = Leftovers::Requeue;
    let budget = Budget {
        sigterm: 2,
        jobs: 1,
        failures: 1,
        ..NOTHING
    };
    world("leftovers go back", options, budget, 1, 1);
}

#[test]
fn a_holder_that_asks_for_its_jobs() {
    let budget = Budget {
        sigterm: 1,
        jobs: 2,
        pulls: 2,
        waits: 2,
        ..NOTHING
    };
    world("one that asks, two jobs", options(2), budget, 1, 2);
}

#[test]
fn two_that_ask_a_death_and_a_quiet() {
    let budget = Budget {
        sigterm: 1,
        sigtstp: 1,
        sigcont: 1,
        jobs: 2,
        deaths: 1,
        hang_ups: 1,
        pulls: 1,
        waits: 1,
        ..NOTHING
    };
    world("two that ask, one death, one hang-up, quiet", options(2), budget, 2, 1);
}

#[test]
fn an_sdk_that_tells_its_outcomes_twice() {
    let budget = Budget {
        sigterm: 1,
        jobs: 1,
        pulls: 1,
        repeats: 2,
        failures: 1,
        waits: 2,
        ..NOTHING
    };
    behind_the_gateway("one that waits for answers, two repeats", budget, 1, Kin::Gateway);
}

#[test]
fn two_ends_of_an_sdk_of_which_one_dies() {
    let budget = Budget {
        sigterm: 1,
        jobs: 2,
        deaths: 1,
        hang_ups: 1,
        repeats: 1,
        waits: 1,
        ..NOTHING
    };
    behind_the_gateway(
        "two that wait for answers, one death, one hang-up",
        budget,
        2,
        Kin::Gateway,
    );
}

#[test]
fn an_sdk_in_every_pause() {
    let budget = Budget {
        sigterm: 2,
        sigtstp: 1,
        sigcont: 1,
        terminate: 1,
        jobs: 2,
        surplus: 1,
        pulls: 1,
        waits: 1,
        ..NOTHING
    };
    behind_the_gateway("one that waits for answers, every signal", budget, 1, Kin::Gateway);
}

#[test]
fn an_sdk_that_nobody_knows_drops_its_job_and_answers_late() {
    let budget = Budget {
        sigterm: 1,
        jobs: 1,
        beats: 4,
        repeats: 1,
        failures: 1,
        waits: 1,
        ..NOTHING
    };
    behind_the_gateway("a stranger, four heartbeats, two outcomes", budget, 1, Kin::Strangers);
}

#[test]
fn streams_that_tell_anything_at_any_time() {
    let mut options = options(1);
    options.listen_to = vec!["default".into()];
    let budget = Budget {
        sigterm: 1,
        sigtstp: 1,
        sigcont: 1,
        jobs: 1,
        news: 3,
        waits: 2,
        ..NOTHING
    };
    world("one job, a stream, quiet", options, budget, 1, 1);
}

#[test]
fn streams_that_tell_anything_of_a_backend_that_fails() {
    let mut options = options(1);
    options.listen_to = vec!["default".into(), "mail".into()];
    let budget = Budget {
        sigterm: 1,
        jobs: 1,
        failures: 1,
        news: 2,
        waits: 2,
        ..NOTHING
    };
    world("one job, two streams, one failure", options, budget, 1, 1);
}
