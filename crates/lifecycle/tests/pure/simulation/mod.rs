//! Random lives of a worker, simulated from a seed, against a slow and obvious reference of the
//! contract's promises.
//!
//! `SEED=17 cargo test --test pure simulation` replays one run and prints its events;
//! `RUNS=1000000` runs more, `START=5000` others. A run that breaks a promise is shrunk before it
//! is shown.

mod absences;
mod accounts;
mod allowances;
mod asks;
mod backend;
mod blame;
mod course;
mod departures;
mod farewells;
mod fetches;
mod hangs;
mod happen;
mod hedges;
mod idle;
mod ledger;
mod links;
mod looks;
mod memory;
mod outcomes;
mod plan;
mod promise;
mod recycles;
mod scene;
mod shell;
mod steps;
mod streams;
mod stuck;
mod talk;
mod world;

use crate::chance;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use plan::Plan;
use promise::Broken;
use world::World;

/// Default number of runs.
const RUNS: u64 = 100_000;

/// One run in this many is run twice, and has to give equal orders.
const TWICE: u64 = 64;

#[test]
fn whatever_happens_the_promises_are_kept() {
    if let Some(seed) = number("SEED") {
        return replay(seed);
    }
    if number("SURVEY").is_some() {
        return survey();
    }
    let runs = number("RUNS").unwrap_or(RUNS);
    let start = number("START").unwrap_or(1);
    let threads = thread::available_parallelism().map_or(2, |count| count.get() as u64);
    let is_over = AtomicBool::new(false);
    let failed = thread::scope(|scope| {
        let part = |first: u64| {
            let is_over = &is_over;
            move || {
                let seeds = (first..start + runs).step_by(usize::try_from(threads).unwrap());
                for seed in seeds {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    if let Err(broken) = check(seed) {
                        is_over.store(true, Ordering::Relaxed);
                        return Some((seed, broken));
                    }
                }
                None
            }
        };
        let threads: Vec<_> = (start..start + threads).map(|first| scope.spawn(part(first))).collect();
        threads.into_iter().find_map(|thread| thread.join().unwrap())
    });
    if let Some((seed, broken)) = failed {
        panic!("{}", report(seed, &broken));
    }
    crate::figure(format_args!("simulation: {runs} lives"));
}

/// Every promise that is broken, how often, and by which seed first: for a machine that is known to
/// be wrong.
fn survey() {
    let mut found: BTreeMap<&str, (u64, u64, String)> = BTreeMap::new();
    let start = number("START").unwrap_or(1);
    for seed in start..start + number("RUNS").unwrap_or(RUNS) {
        if let Err(broken) = check(seed) {
            found.entry(broken.promise).or_insert((0, seed, broken.detail)).0 += 1;
        }
    }
    for (promise, (count, seed, detail)) in found {
        println!("{count:>7} x {promise} (first: seed {seed}: {detail})");
    }
}

/// Orders and notices of the machine, without those that no run of this world can cause.
const KINDS: [&str; 79] = [
    "StartWorker",
    "SignalWorker",
    "SignalProcess",
    "TerminateDescendants",
    "KillDescendants",
    "KillEverything",
    "ReadToEnd",
    "Close",
    "Exit",
    "Hello",
    "Job",
    "Lifecycle",
    "Cancel",
    "Ok",
    "Error",
    "Ping",
    "Register",
    "Heartbeat",
    "Fetch",
    "Report",
    "Acked",
    "Failed",
    "Requeued",
    "GetJob",
    "Progress",
    "Checkpoint",
    "Deregister",
    "Listen",
    "Listening",
    "WokenUp",
    "StateChanged",
    "Idle",
    "OnceDone",
    "OnceNotDone",
    "Stayed",
    "DrainBegan",
    "Draining",
    "Drained",
    "SameRequest",
    "StopBegan",
    "GraceEnded",
    "EndingAtOnce",
    "Killing",
    "KillGaveUp",
    "WorkerEnded",
    "WorkerWasEnded",
    "DescendantsLeft",
    "RestartIn",
    "Recycling",
    "Recycled",
    "StartNext",
    "TakeOver",
    "NextNotReady",
    "StartPostponed",
    "NotReady",
    "HolderReady",
    "EndingProcess",
    "Claimed",
    "HandedOver",
    "OutcomeSent",
    "Settled",
    "Abandoned",
    "Void",
    "Adopted",
    "Replaced",
    "Unanswered",
    "ReservationLost",
    "TimedOut",
    "CancelledByOperator",
    "ResultDropped",
    "CheckpointNotSaved",
    "NoHandler",
    "CallFailed",
    "BackendIsAway",
    "BackendIsBack",
    "FetchAbandoned",
    "PrestopLapsed",
    "MemoryGateClosed",
    "MemoryGateOpened",
];

/// A simulation that never gets somewhere promises nothing about it.
#[test]
fn every_kind_of_order_and_notice_occurs() {
    let mut missing: BTreeSet<&str> = KINDS.into_iter().collect();
    for seed in 1..=3_000 {
        let mut world = World::new(Plan::new(seed), true);
        world.run().unwrap_or_default();
        for line in world
            .script
            .unwrap_or_default()
            .iter()
            .filter(|line| line[9..].starts_with("         "))
        {
            missing.retain(|kind| !line.split(|c: char| !c.is_alphanumeric()).any(|word| word == *kind));
        }
        if missing.is_empty() {
            return;
        }
    }
    panic!("never seen: {missing:?}");
}

/// The test names a second FETCH, because no other name distinguishes it from the first one.
#[test]
fn two_fetches_are_on_their_way_at_one_time() {
    let has_two = |seed| {
        let mut world = World::new(Plan::new(seed), false);
        world.run().unwrap_or_default();
        world.talk.fetches.most == 2
    };
    assert!((1..=3_000).any(has_two));
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn check(seed: u64) -> Result<(), Broken> {
    let plan = Plan::new(seed);
    let hash = run(&plan)?;
    if seed.is_multiple_of(TWICE) && run(&plan)? != hash {
        return Err(Broken {
            promise: "the same seed orders the same",
            detail: "it did not".to_owned(),
        });
    }
    Ok(())
}

fn run(plan: &Plan) -> Result<u64, Broken> {
    catch_unwind(AssertUnwindSafe(|| World::new(plan.clone(), false).run())).unwrap_or_else(|_| {
        Err(Broken {
            promise: "no panic",
            detail: "see above".to_owned(),
        })
    })
}

/// The plan without the parts that are not needed to break that promise.
fn shrink(mut plan: Plan, promise: &str) -> Plan {
    let breaks = |plan: &Plan| run(plan).is_err_and(|broken| broken.promise == promise);
    for change in plan::SIMPLER {
        let mut simpler = plan.clone();
        change(&mut simpler);
        if breaks(&simpler) {
            plan = simpler;
        }
    }
    loop {
        let before = plan.twists.len();
        let mut index = 0;
        while index < plan.twists.len() {
            let mut fewer = plan.twists.clone();
            fewer.remove(index);
            let smaller = plan.with_twists(fewer);
            if breaks(&smaller) {
                plan = smaller;
            } else {
                index += 1;
            }
        }
        if plan.twists.len() == before {
            return plan;
        }
    }
}

/// The lines that a person needs to see why.
fn report(seed: u64, broken: &Broken) -> String {
    let plan = shrink(Plan::new(seed), broken.promise);
    let mut text = format!("seed {seed} breaks \"{}\": {}\n", broken.promise, broken.detail);
    writeln!(
        text,
        "replay: SEED={seed} cargo test --test pure simulation\n\nwhat it takes:"
    )
    .unwrap();
    writeln!(
        text,
        "  {:?}\n  {:?}, SIGTERM at {} ms",
        plan.options, plan.backend, plan.horizon
    )
    .unwrap();
    for twist in &plan.twists {
        writeln!(text, "  {twist:?}").unwrap();
    }
    let mut world = World::new(plan, true);
    let end = catch_unwind(AssertUnwindSafe(|| world.run()));
    writeln!(text, "\nwhat happens (s; -> a fact, indented: what it causes):").unwrap();
    let lines = world.script.take().unwrap_or_default();
    for line in lines.iter().filter(|line| !is_dull(line)) {
        writeln!(text, "{line}").unwrap();
    }
    match end {
        Ok(Err(broken)) => writeln!(text, "\n\"{}\": {}", broken.promise, broken.detail).unwrap(),
        Ok(Ok(_)) => writeln!(text, "\nit ends well in {:?}", world.phase()).unwrap(),
        Err(_) => writeln!(text, "\nit panics").unwrap(),
    }
    text
}

/// Polls that bring nothing, and their answers, are most of a life.
fn is_dull(line: &str) -> bool {
    line.contains("Fetched([])") || line.ends_with("due: Fetch")
}

fn replay(seed: u64) {
    match check(seed) {
        Err(broken) => panic!("{}", report(seed, &broken)),
        Ok(()) => {
            let mut world = World::new(Plan::new(seed), true);
            world.run().unwrap();
            println!(
                "seed {seed} keeps every promise:\n{}",
                world.script.unwrap_or_default().join("\n")
            );
        }
    }
}
