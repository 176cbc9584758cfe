//! The example worker of each client, shut down at moments of chance: no job is lost, none is done
//! twice, and the end comes in time. `make drains COUNT=100` plays so many for each client; `cargo
//! test` plays a few.
//!
//! There is also a job that is longer than any of its workers live. `RESUME_ROWS=30000
//! RESUME_SHUTDOWNS=20 RESUME_GRACE_MS=5000` is one of ten minutes with shutdowns of five seconds.
//! `-- a_long_job --test-threads 7` plays those of all clients at once.
//!
//! Needs root (PID namespaces) and each client's tools. A drain that fails says its number and
//! seed: `DRAINS_SEED=S make drains COUNT=N` plays the same again.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test whose processes do not do as they are told has failed"
)]

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/backend/mod.rs"]
mod backend;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/stage.rs"]
mod stage;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

mod client;
mod drain;
mod resume;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use client::Client;
use drain::Drain;
use libtest_mimic::{Arguments, Failed, Trial};
use support::random::Random;

/// Drains of each client, where nobody asks for a number.
const COUNT: u64 = 8;

/// Those of a client that are played at the same time: most of the time they wait.
const AT_ONCE: usize = 4;

/// The seed where none is given: the tests must not hang on the day.
const SEED: u64 = 2026;

fn main() -> ExitCode {
    let count = number("DRAINS", COUNT);
    let seed = match std::env::var("DRAINS_SEED") {
        Ok(_) => number("DRAINS_SEED", SEED),
        Err(_) if count == COUNT => SEED,
        Err(_) => Random::from_time().seed(),
    };
    let plan = resume::Plan::asked(number);
    let trials = client::all().into_iter().flat_map(|client| {
        let drains = format!("the_example_worker_of_{}_drains_whenever_it_is_asked_to", client.name);
        let resumes = format!(
            "a_long_job_in_{}_lives_through_shutdowns_and_does_each_row_once",
            client.name
        );
        let again = client.clone();
        [
            Trial::test(drains, move || play(&client, count, seed)),
            Trial::test(resumes, move || {
                again.build()?;
                let found = resume::play(&again, plan);
                if found.is_empty() { Ok(()) } else { Err(found.into()) }
            }),
        ]
    });
    let mut arguments = Arguments::from_args();
    // One client after the other: each has its drains side by side. The long jobs wait most of
    // their time: `--test-threads 7` plays those of all clients at once.
    arguments.test_threads.get_or_insert(1);
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn number(variable: &str, otherwise: u64) -> u64 {
    let Ok(text) = std::env::var(variable) else {
        return otherwise;
    };
    text.parse()
        .unwrap_or_else(|_| panic!("{variable}={text}: not a number"))
}

fn play(client: &Client, count: u64, seed: u64) -> Result<(), Failed> {
    client.build()?;
    let next = AtomicU64::new(0);
    let broken = Mutex::new(Vec::new());
    let one_after_the_other = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            let drain = Drain::draw(seed, number);
            let found = drain.play(client);
            if !found.is_empty() {
                broken
                    .lock()
                    .unwrap()
                    .push(format!("drain {number} of seed {seed}: {drain:?}\n{found}"));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(one_after_the_other);
        }
    });
    let broken = broken.into_inner().unwrap();
    println!(
        "{}: {count} drains, {} with a broken promise",
        client.name,
        broken.len()
    );
    if broken.is_empty() {
        Ok(())
    } else {
        Err(broken.join("\n").into())
    }
}
