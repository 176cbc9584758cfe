//! The promises, by theme.

mod cli;
mod command;
mod descriptors;
mod exit_status;
mod groups;
mod hardship;
mod inherited;
mod leftovers;
mod quiet;
mod races;
mod reaping;
mod rewriting;
mod signals;
mod standard_error;
mod stopping;
mod terminal;

use crate::case::Case;

pub use quiet::is_static;
pub use races::image_is_visible;

/// Every case of the suite, in the order of the table.
pub fn all() -> impl Iterator<Item = &'static Case> {
    let themes: [&'static [Case]; 16] = [
        exit_status::CASES,
        cli::CASES,
        command::CASES,
        inherited::CASES,
        descriptors::CASES,
        signals::CASES,
        rewriting::CASES,
        groups::CASES,
        terminal::CASES,
        reaping::CASES,
        stopping::CASES,
        leftovers::CASES,
        hardship::CASES,
        standard_error::CASES,
        races::CASES,
        quiet::CASES,
    ];
    themes.into_iter().flatten()
}

/// The output of `report`, by key.
#[derive(Debug)]
struct Report(String);

impl Report {
    fn get(&self, key: &str) -> Option<&str> {
        self.0
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
    }

    fn mask(&self, key: &str) -> u64 {
        self.get(key)
            .and_then(|text| u64::from_str_radix(text, 16).ok())
            .unwrap_or(u64::MAX)
    }

    fn descriptors(&self) -> Vec<&str> {
        self.0.lines().filter_map(|line| line.strip_prefix("fd=")).collect()
    }
}
