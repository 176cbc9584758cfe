//! Black-box conformance of container inits: what a process 1 owes to its child, its orphans and
//! its caller.
//!
//! `cargo test --test conformance` runs every case against ojs-init. `INIT_UNDER_TEST=tini`
//! (dumb-init, catatonit) runs them against another one; `-- --table` runs them against all four
//! and prints one table, with figures; `-- --figures` prints the figures alone. `BINARY_UNDER_TEST`
//! names the binary, otherwise it is the one that cargo built. `CONFORMANCE=table`, for who runs
//! all test programs at once, adds the table to the tests, with what they found; times have wider
//! bounds there.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test program with its own output"
)]

mod case;
mod cases;
mod figures;
mod init;
mod namespace;
mod probe;
mod suite;
#[allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "shared with other test programs"
)]
#[path = "../support/mod.rs"]
mod support;
mod table;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::Arguments;

use crate::figures::Tolerance;
use crate::suite::Workshop;
use crate::table::Results;

/// Cases wait more than they compute, so there may be more of them than processors.
const THREADS: usize = 6;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(status) = probe::play(&words) {
        return ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX));
    }
    // Settings of nohup, or of a shell that put us into the background, are none of the inits'
    // doing.
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: the default disposition is no code of ours.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    if let Err(error) = namespace::become_root() {
        eprintln!("conformance: {error}");
        return ExitCode::FAILURE;
    }
    let asked = |word: &str| words.iter().any(|given| given == word);
    let outcome = if asked("--table") {
        Workshop::open(true).and_then(|workshop| table::run(&workshop, Results::new(), Tolerance::QUIET_MACHINE))
    } else if asked("--figures") {
        figures::run()
    } else {
        let mut arguments = Arguments::from_args();
        arguments.test_threads.get_or_insert(THREADS);
        let wants_table = std::env::var_os("CONFORMANCE").is_some_and(|wish| wish == "table");
        run_suite(&arguments, wants_table)
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run_suite(arguments: &Arguments, wants_table: bool) -> Result<bool, String> {
    let workshop = Arc::new(Workshop::open(wants_table)?);
    let (is_good, results) = suite::run(arguments, &workshop)?;
    let is_listed = arguments.list;
    Ok(is_good && (!wants_table || is_listed || table::run(&workshop, results, Tolerance::SHARED_MACHINE)?))
}
