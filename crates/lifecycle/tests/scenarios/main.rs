//! Scripts that a person reads without the code: `crates/lifecycle/tests/scenarios/*.txt`.
//!
//! A script begins with the settings; then it has events with their times. Lines that begin with
//! `>` are the orders of the machine. Lines with `~` are moments at which a timer became due or an
//! answer did not arrive. `UPDATE_GOLDEN=1 cargo test --test scenarios` writes both, and the
//! reviewer of the change reads them. `cargo test --test scenarios second_sigterm` plays the
//! scripts whose names contain that.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its scripts has failed")]

mod misunderstandings;
mod play;
#[path = "../support/script/mod.rs"]
mod script;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

const RENEW: &str = "UPDATE_GOLDEN=1 cargo test --test scenarios";

fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut scripts: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    scripts.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    scripts.sort();
    let mut trials: Vec<Trial> = scripts.into_iter().map(trial_of).collect();
    let name = "line_of_a_script_that_says_more_or_less_than_its_words_is_an_error";
    trials.push(Trial::test(name, misunderstandings::are_errors));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial_of(path: PathBuf) -> Trial {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    Trial::test(name, move || check(&path))
}

fn check(path: &Path) -> Result<(), Failed> {
    let script = fs::read_to_string(path)?;
    let played = play::play(&script)?;
    if played == script {
        return Ok(());
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, played)?;
        return Ok(());
    }
    Err(difference(&script, &played).into())
}

/// The first lines that differ, and where.
fn difference(expected: &str, played: &str) -> String {
    let same = expected
        .lines()
        .zip(played.lines())
        .take_while(|(expected, played)| expected == played)
        .count();
    let from = |text: &str| -> String {
        let shown: Vec<&str> = text.lines().skip(same.saturating_sub(4)).take(12).collect();
        shown.join("\n")
    };
    format!(
        "from line {} on\n--- expected\n{}\n--- played\n{}\n--- if it is meant: {RENEW}",
        same + 1,
        from(expected),
        from(played)
    )
}
