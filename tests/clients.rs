//! All clients, and the runner that keeps them alike. At the end stands the table of what each of
//! them does.
//!
//! Needs the tools of each client's language.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "the test is the outside world: it starts and waits for processes"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::LazyLock;

use libtest_mimic::{Arguments, Failed, Trial};

/// Most seconds that a test of the runner may take, on a busy machine.
const PATIENCE: &str = "180";

/// Most seconds that all clients together may take.
const PATIENCE_FOR_ALL: &str = "900";

fn main() -> ExitCode {
    if std::env::args().next().unwrap_or_default().ends_with("ojs-devserver") {
        // Under the name that `devserver` gives it.
        return ojs_devserver::cli::run();
    }
    let arguments = Arguments::from_args();
    let folder = root().join("clients/fixtures");
    let mut trials: Vec<Trial> = unit_tests(&std::fs::read_to_string(folder.join("test_play.py")).unwrap())
        .into_iter()
        .map(|test| {
            let folder = folder.clone();
            let name = format!("runner::{}", test.rsplit('.').next().unwrap_or(&test));
            Trial::test(name, move || {
                passes(&folder, PATIENCE, &["python3", "test_play.py", &test])
            })
        })
        .collect();
    assert!(trials.len() > 10, "tests of the runner: {}", trials.len());
    trials.push(Trial::test("all_clients_do_the_same", || {
        let out = out().display().to_string();
        passes(
            root(),
            PATIENCE_FOR_ALL,
            &["python3", "clients/fixtures/table.py", "--out", &out],
        )
    }));
    let table = out().join("table.md");
    let _ = std::fs::remove_file(&table);
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Ok(table) = std::fs::read_to_string(&table) {
        println!("Behaviours of the clients, and how many sessions show them:\n\n{table}");
    }
    conclusion.exit_code()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where the clients are built: beside what cargo gives its tests.
fn out() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("clients")
}

/// The development server, which the clients' helpers for tests start: this very program, under
/// another name.
fn devserver() -> &'static Path {
    static PLACE: LazyLock<PathBuf> = LazyLock::new(|| {
        let place = out().join("bin").join("ojs-devserver");
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        let _ = std::fs::remove_file(&place);
        std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &place).unwrap();
        place
    });
    &PLACE
}

/// Runs a command in a folder; when it fails, shows all that it said.
fn passes(folder: &Path, patience: &str, words: &[&str]) -> Result<(), Failed> {
    let output = Command::new("timeout")
        .args(["--kill-after=5", patience])
        .args(words)
        .current_dir(folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("OJS_DEVSERVER", devserver())
        .output()
        .unwrap();
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let place = folder.display();
    Err(format!("{words:?} in {place}: {}\n{}\n{}", output.status, said[0], said[1]).into())
}

/// `Class.test` of each test of a Python file.
fn unit_tests(source: &str) -> Vec<String> {
    let name = |line: &str, before: &str| Some(line.strip_prefix(before)?.split('(').next()?.to_owned());
    let mut class = String::new();
    let mut tests = Vec::new();
    for line in source.lines() {
        if let Some(found) = name(line, "class ") {
            class = found;
        } else if let Some(found) = name(line, "    def test_") {
            tests.push(format!("{class}.test_{found}"));
        }
    }
    tests
}
