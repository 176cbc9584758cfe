//! Prints what a fleet of workers costs its backend: the real machine of each worker, a model of
//! the backend, and simulated time.
//!
//! `cargo run --profile bench -p ojs-lifecycle --example fleet -- --workers 100 --jobs 5`; without
//! options it prints the whole table. The times of options and figures are in milliseconds, unless
//! their names end in another unit. `json.rs` says what `--json` writes.
#![allow(
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a program that prints, of workers and jobs that are named by their places"
)]

#[path = "../../tests/support/chance.rs"]
#[allow(dead_code, reason = "the fleet uses a part of it")]
mod chance;
#[path = "../../tests/support/script/defaults.rs"]
mod defaults;
#[path = "../../tests/support/fleet/mod.rs"]
mod fleet_model;
mod json;
mod request;
mod table;

use std::process::ExitCode;

use fleet_model::live;
use request::{Request, Trouble};

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(wrong) => {
            println!("{wrong} jobs were not done exactly once");
            ExitCode::FAILURE
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns how many jobs were not done exactly once.
fn run() -> Result<usize, Trouble> {
    let request = Request::read(std::env::args().skip(1))?;
    let options = defaults::defaults();
    let mut rows = Vec::new();
    let mut wrong = 0;
    for mode in &request.modes {
        table::head(*mode, &request.base);
        for workers in &request.workers {
            for jobs_a_second in &request.jobs_a_second {
                let conditions = request.conditions(*mode, *workers, *jobs_a_second);
                let account = live(&conditions, &options);
                table::row(&conditions, &account);
                wrong += account.wrong;
                rows.push((*mode, conditions, account));
            }
        }
    }
    if let Some(path) = &request.json {
        std::fs::write(path, json::page(&request.base, &rows))?;
    }
    Ok(wrong)
}
