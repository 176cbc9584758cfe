//! Shutdowns by the hundred: real inits, real workers and a backend that misbehaves, put together by chance, and judged from
//! outside. `make trials COUNT=5000`; a trial that fails prints how to play it again.
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

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "support/mod.rs"]
mod support;
#[path = "support/under_test.rs"]
mod under_test;

#[path = "trials/course.rs"]
mod course;
#[path = "trials/figures.rs"]
mod figures;
#[path = "trials/journal.rs"]
mod journal;
#[path = "trials/plan.rs"]
mod plan;
#[path = "trials/promises.rs"]
mod promises;
#[path = "trials/worker.rs"]
mod worker;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use figures::Figures;
use plan::Plan;
use promises::Broken;

/// Trials that are played at the same time: most of the time they wait.
const AT_ONCE: usize = 16;

/// Trials of a run that asks for no number.
const COUNT: u64 = 300;

/// A run ends after so many failures: what is wrong is known by then.
const FAILURES: usize = 20;

/// What a run is to do.
struct Orders {
    count: u64,
    seed: u64,
    only: Option<u64>,
    at_once: usize,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "worker") {
        worker::main();
    }
    run(&orders(&words))
}

/// `--count N`, `--seed S`, `--only NUMBER`, `--at-once N`; what else a test program is called with means nothing here.
fn orders(words: &[String]) -> Orders {
    let value = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1)?.parse::<u64>().ok()
    };
    Orders {
        count: value("--count").unwrap_or(COUNT),
        seed: value("--seed").unwrap_or_else(support::sys::monotonic_ns),
        only: value("--only"),
        at_once: value("--at-once").map_or(AT_ONCE, |count| usize::try_from(count).unwrap()),
    }
}

fn run(orders: &Orders) -> ExitCode {
    let (first, last) = orders.only.map_or((0, orders.count), |only| (only, only + 1));
    println!("{} trials, seed {}", last - first, orders.seed);
    let next = AtomicU64::new(first);
    let figures = Mutex::new(Figures::default());
    std::thread::scope(|scope| {
        for _ in 0..orders.at_once.max(1) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= last || figures.lock().unwrap().failed() >= FAILURES {
                        return;
                    }
                    play(orders, number, &figures);
                }
            });
        }
    });
    let figures = figures.into_inner().unwrap();
    println!("{figures}");
    if figures.failed() == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn play(orders: &Orders, number: u64, figures: &Mutex<Figures>) {
    let plan = Plan::draw(orders.seed, number);
    let dir = std::env::temp_dir().join(format!("ojs-trial-{}-{number}", std::process::id()));
    let story = course::play(&plan, &dir);
    let (broken, measured) = promises::judge(&plan, &story);
    let has_failed = !broken.is_empty();
    if has_failed || orders.only.is_some() {
        tell(&plan, &story, &broken);
    }
    figures.lock().unwrap().add(&plan, measured, &broken);
}

fn tell(plan: &Plan, story: &course::Story, broken: &[Broken]) {
    use std::fmt::Write;
    let mut text = format!("\n{plan}\n");
    for broken in broken {
        let _ = writeln!(text, "  BROKEN {broken}");
    }
    let _ = writeln!(
        text,
        "  again: make trials ARGS='--seed {} --only {}'",
        plan.seed, plan.number
    );
    let _ = writeln!(text, "  {plan:?}");
    let _ = writeln!(
        text,
        "  signals: {:?}, directed: {:?}, ended: {:?}",
        story.sent, story.directed, story.ended
    );
    for event in &story.events {
        let from = event.arrived_ms.unwrap_or(event.ms);
        let jobs: Vec<&str> = event
            .jobs
            .iter()
            .map(|job| &job[job.len().saturating_sub(4)..])
            .collect();
        let _ = writeln!(
            text,
            "  {from:8.1} {:+7.1} {:<11} {:?} {:?} {:?} {}",
            event.ms - from,
            event.operation,
            event.state,
            event.status,
            event.fault,
            jobs.join(" ")
        );
    }
    for job in &story.jobs {
        let _ = writeln!(
            text,
            "  {} {:?} {:?} {:?}",
            job.id, job.state, job.deliveries, job.errors
        );
    }
    for note in &story.notes {
        let _ = writeln!(text, "  note {} {} {}", note.at / 1_000_000, note.word.name(), note.job);
    }
    text.push_str(&story.log);
    print!("{text}");
}
