//! Shutdowns by the hundred: real inits, real workers and a backend that misbehaves, put together
//! by chance, and judged from outside. `make trials COUNT=5000`; a trial that fails prints how to
//! play it again. `cargo test` plays 380.
//!
//! Needs root (PID namespaces) and python3.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a trial whose processes do not do as they are told has failed"
)]

#[path = "../support/sdk_workers/rust_client.rs"]
mod rust_client;
#[path = "../support/sdk_workers/rust_worker.rs"]
mod rust_worker;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/sdk.rs"]
mod sdk;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

mod asked;
mod asks;
mod course;
mod crash;
mod ends;
mod exec;
mod figures;
mod gateway;
mod handler;
mod journal;
mod kinds;
mod launch;
mod names;
mod operator;
mod picture;
mod plan;
mod promises;
mod recycles;
mod weather;
mod worker;

use sdk::Proof;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use figures::{FAILURES, Figures};

use plan::Plan;
use promises::{Broken, Measured};

/// Trials that are played at the same time: most of the time they wait.
const AT_ONCE: usize = 16;

/// Trials of a run that asks for no number.
const COUNT: u64 = 200;

/// Those of them whose workers are made with an SDK come on top.
const GATEWAY_COUNT: u64 = 120;

/// And those whose jobs are a process each.
const EXEC_COUNT: u64 = 60;

/// Their seed: what the tests say of a change shall not hang on the day. A run that asks for a
/// number gets one of its own.
const SEED: u64 = 2026;

/// The name of all trials where tests have names.
const NAME: &str = "shutdowns_put_together_by_chance_keep_every_promise";

/// Calm trials before them, one after the other.
const CALM: u64 = 30;

/// Of a trial.
#[derive(Debug, Clone, Copy)]
enum Number {
    Usual(u64),
    /// The worker is made with an SDK.
    Gateway(u64),
    /// Each job is a process.
    Exec(u64),
}

impl Number {
    fn plan(self, seed: u64, proof: Option<Proof>) -> Plan {
        let drawn = match self {
            Self::Usual(number) => Plan::draw(seed, number),
            Self::Gateway(number) => gateway::draw(seed, number),
            Self::Exec(number) => exec::draw(seed, number),
        };
        Plan {
            proof: proof.unwrap_or(drawn.proof),
            ..drawn
        }
    }
}

/// The orders of a run.
struct Orders {
    trials: Vec<Number>,
    seed: u64,
    /// One trial, and nothing beside it.
    is_only: bool,
    /// By what every init knows its callers; none: as it is drawn.
    proof: Option<Proof>,
    /// Only trials whose description has this.
    like: Option<String>,
    /// The run is over when one of these promises was broken in `figures::ENOUGH` trials.
    until: Vec<String>,
    at_once: usize,
    /// Where what is left of a trial that failed is kept.
    keep: PathBuf,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == sdk::WORKER) {
        return rust_worker::main();
    }
    if words.first().is_some_and(|word| word == "worker") {
        worker::main();
    }
    if words.first().is_some_and(|word| word == "handler") {
        handler::main();
    }
    if words.iter().any(|word| word == "--list") {
        println!("{NAME}: test");
        return ExitCode::SUCCESS;
    }
    if !is_meant(&words) {
        println!("{NAME}: filtered out");
        return ExitCode::SUCCESS;
    }
    run(&orders(&words))
}

/// As other test programs do: with names on the command line, only what has one of them in its own
/// is run.
fn is_meant(words: &[String]) -> bool {
    let mut names = Vec::new();
    let mut skipped = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--skip" => skipped.extend(words.next()),
            "--ignored" => return false,
            "--count" | "--seed" | "--only" | "--proof" | "--like" | "--until" | "--at-once" | "--keep"
            | "--test-threads" | "--format" | "--color" | "--logfile" | "-Z" => drop(words.next()),
            flag if flag.starts_with('-') => {}
            _ => names.push(word),
        }
    }
    let is_of_ours = |word: &&String| NAME.contains(word.as_str());
    (names.is_empty() || names.iter().any(is_of_ours)) && !skipped.iter().any(is_of_ours)
}

/// Reads the command line. Any other argument of a test program means nothing here.
///
/// - `--count N`: 0 plays only the calm trials.
/// - `--gateway`: with workers made with an SDK; `--exec`: with a process for each job.
/// - `--proof P`: of the gateway's, by what the init knows its callers: `process`,
///   `uid-and-bearer`, `uid` or `any`.
/// - `--seed S`, `--at-once N`, `--keep DIR`.
/// - `--only NUMBER`; `--like WORDS`: only trials whose story has these words (`is store`,
///   `recycled by`).
/// - `--until PROMISE`: ends when that promise was broken in three trials; may come twice.
fn orders(words: &[String]) -> Orders {
    let word = |name: &str| words.get(words.iter().position(|word| word == name)? + 1);
    let value = |name: &str| word(name)?.parse::<u64>().ok();
    let is_usual = word("--count").is_none();
    let has = |flag: &str| words.iter().any(|word| word == flag);
    let number = match (has("--gateway"), has("--exec")) {
        (true, _) => Number::Gateway,
        (false, true) => Number::Exec,
        (false, false) => Number::Usual,
    };
    let trials = match (value("--only"), value("--count")) {
        (Some(only), _) => vec![number(only)],
        (None, Some(count)) => (0..count).map(number).collect(),
        (None, None) => {
            let gateways = (0..GATEWAY_COUNT).map(Number::Gateway);
            let execs = (0..EXEC_COUNT).map(Number::Exec);
            (0..COUNT).map(Number::Usual).chain(gateways).chain(execs).collect()
        }
    };
    let seed = value("--seed").unwrap_or_else(|| if is_usual { SEED } else { support::sys::monotonic_ns() });
    Orders {
        trials,
        seed,
        is_only: word("--only").is_some(),
        proof: word("--proof").map(|name| Proof::named(name)),
        like: word("--like").cloned(),
        until: words
            .windows(2)
            .filter(|pair| pair[0] == "--until")
            .map(|pair| pair[1].clone())
            .collect(),
        at_once: value("--at-once").map_or(AT_ONCE, |count| usize::try_from(count).unwrap()),
        keep: word("--keep").map_or_else(
            || std::env::temp_dir().join(format!("ojs-trials-{seed}")),
            PathBuf::from,
        ),
    }
}

fn run(orders: &Orders) -> ExitCode {
    // Files that an init leaves in the directory of its trial may be another user's, and are read
    // and locked all the same.
    nix::sys::stat::umask(nix::sys::stat::Mode::empty());
    let rarest = plan::rarest_pair(plan::THOROUGH);
    assert!(
        rarest >= plan::LEAST_TIMES,
        "a pair of behaviour, weather and occasion comes up {rarest} times in {} trials",
        plan::THOROUGH
    );
    println!("{} trials, seed {}", orders.trials.len(), orders.seed);
    let figures = Mutex::new(Figures::default());
    if !orders.is_only {
        for number in 0..CALM {
            play(orders, &Plan::calm(orders.seed, number), &figures);
            if figures.lock().unwrap().failed() > 0 {
                break;
            }
        }
        figures.lock().unwrap().judge_calm();
    }
    let next = AtomicUsize::new(0);
    let late = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..orders.at_once.max(1) {
            scope.spawn(|| {
                loop {
                    let number = orders.trials.get(next.fetch_add(1, Ordering::Relaxed));
                    let Some(&number) = number.filter(|_| figures.lock().unwrap().go_on(&orders.until)) else {
                        return;
                    };
                    let plan = number.plan(orders.seed, orders.proof);
                    if !orders
                        .like
                        .as_ref()
                        .is_none_or(|words| plan.to_string().contains(words))
                    {
                        continue;
                    }
                    let is_alone = orders.is_only || late.lock().unwrap().len() >= FAILURES;
                    if is_alone {
                        play(orders, &plan, &figures);
                    } else if !play_beside_others(orders, &plan, &figures) {
                        late.lock().unwrap().push(number);
                    }
                }
            });
        }
    });
    for number in late.into_inner().unwrap() {
        let plan = number.plan(orders.seed, orders.proof);
        println!("{} {} again, with nothing beside it", plan.kind(), plan.number);
        play(orders, &plan, &figures);
    }
    let figures = figures.into_inner().unwrap();
    println!("{figures}");
    if figures.failed() == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn play(orders: &Orders, plan: &Plan, figures: &Mutex<Figures>) {
    let (broken, measured) = judge(orders, plan);
    figures.lock().unwrap().add(plan, measured, &broken);
}

/// The same; not if nothing but promises about time were broken, or the heartbeats paused, which
/// tells nothing while others keep the machine busy: it has to be played again.
fn play_beside_others(orders: &Orders, plan: &Plan, figures: &Mutex<Figures>) -> bool {
    let (broken, measured) = judge(orders, plan);
    let is_late = !broken.is_empty() && broken.iter().all(Broken::is_of_time) || broken.iter().any(Broken::is_a_pause);
    if is_late {
        figures.lock().unwrap().doubt(&broken);
        return false;
    }
    figures.lock().unwrap().add(plan, measured, &broken);
    true
}

/// Where a trial has its files: in memory if that can be had. A disk that is busy holds up whoever
/// writes a log for a second.
fn files() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let is_writable = nix::unistd::access(memory, nix::unistd::AccessFlags::W_OK).is_ok();
    if is_writable {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    }
}

fn judge(orders: &Orders, plan: &Plan) -> (Vec<Broken>, Measured) {
    let name = format!("ojs-{}-{}-{}", plan.kind(), std::process::id(), plan.number);
    let story = course::play(plan, &files().join(name));
    let (broken, measured) = promises::judge(plan, &story);
    if !broken.is_empty() || orders.is_only {
        print!("{}", picture::tell(plan, &story, &broken, &orders.keep));
    }
    (broken, measured)
}
