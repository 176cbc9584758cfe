//! Containers of a real Docker Engine, and what orchestrators do to them.
//!
//! Needs root, Debian's docker.io and docker-compose, and python3 and node to make images of. The
//! engine is one of its own, in a temporary directory, or that of `DOCKER_HOST`. Where there can be
//! none, every test is shown as ignored, or as failed with `CONTAINERS=required`; with
//! `CONTAINERS=full` what takes long is not scaled down.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "the test is the outside world, and one whose containers do not do as they are told has failed"
)]

mod container;
#[path = "../support/engine.rs"]
mod docker_engine;
mod images;
#[path = "../support/network.rs"]
mod network;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

mod clients;
mod compose;
mod confinement;
mod exec;
mod image;
mod kubelet;
mod pods;
mod readme;
mod rolling;
mod signals;
mod stops;

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use docker_engine::Engine;
use libtest_mimic::{Arguments, Conclusion, Trial};
use support::wait::{now, pause};

/// Longest that anything may take which does happen. Much more than it needs: the machine may be
/// busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many tests run at the same time. They wait more than they work. But each starts a worker,
/// has probes, and is judged by the limit of a kubelet. On two processors 16 of them stood in line
/// for longer than the margin.
const AT_ONCE: usize = 8;

/// The demand on this program: `required` or `full`; else what can be had.
const WANTED: &str = "CONTAINERS";

static ENGINE: OnceLock<Engine> = OnceLock::new();

/// The engine that all tests share.
fn engine() -> &'static Engine {
    ENGINE.get().unwrap()
}

/// The sources.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Whether this variable says so.
fn wanted() -> String {
    std::env::var(WANTED).unwrap_or_default()
}

/// Whether nothing is to be scaled down.
fn in_full() -> bool {
    wanted() == "full"
}

/// Between two looks at a container: each is a process.
const LOOK: Duration = Duration::from_millis(150);

/// As `wait_until`, for a condition that costs something to look at.
fn looks_until(patience: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = now() + patience;
    while !condition() {
        if now() >= deadline {
            return false;
        }
        pause(LOOK);
    }
    true
}

/// Measurements, for people: they are printed at the end.
static MEASURED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Adds to it.
fn measured(what: &str, figures: &str) {
    MEASURED.lock().unwrap().push(format!("measured: {what}: {figures}"));
}

fn main() -> ExitCode {
    let name = std::env::args().next().unwrap_or_default();
    if name.ends_with("ojs-devserver") {
        // In an image of ours.
        return ojs_devserver::cli::run();
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    if arguments.list {
        return libtest_mimic::run(&arguments, trials(false)).exit_code();
    }
    match Engine::start() {
        Ok(engine) => with(engine, &arguments).exit_code(),
        Err(why) if wanted().is_empty() => {
            eprintln!("containers: NOT RUN: {why}");
            libtest_mimic::run(&arguments, trials(true)).exit_code()
        }
        Err(why) => {
            eprintln!("containers: cannot run, and {WANTED} is set: {why}");
            ExitCode::FAILURE
        }
    }
}

fn with(engine: Engine, arguments: &Arguments) -> Conclusion {
    let engine = ENGINE.get_or_init(|| engine);
    let run = || {
        images::prepare(engine);
        libtest_mimic::run(arguments, trials(false))
    };
    let conclusion = std::panic::catch_unwind(run);
    engine.stop();
    println!("{}", MEASURED.lock().unwrap().join("\n"));
    conclusion.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Those that take long come first, and those with the shortest limits when the first dozen has
/// started.
fn trials(are_ignored: bool) -> Vec<Trial> {
    let tests = [
        pods::ALL.as_slice(),
        &compose::ALL,
        &rolling::ALL,
        &signals::ALL,
        &confinement::ALL,
        &exec::ALL,
        &image::ALL,
        &stops::ALL,
        &readme::ALL,
    ]
    .concat();
    let compiled = image::FROM_SOURCES
        .into_iter()
        .chain(clients::INTERPRETED)
        .chain(clients::COMPILED);
    let compiled = compiled.filter(|_| in_full());
    let trial = |(name, test): (&'static str, fn())| {
        let run = move || {
            test();
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(are_ignored)
    };
    compiled.chain(tests).map(trial).collect()
}
