//! The tests of the worker libraries and of the runner that keeps them alike, each with what its own language brings.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "the test is the outside world: it starts and waits for processes"
)]

use std::path::Path;
use std::process::Command;

/// Most seconds that one of them may take, on a busy machine.
const PATIENCE: &str = "180";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command in a folder; when it fails, shows all that it said.
fn passes(folder: &Path, words: &[&str]) {
    let output = Command::new("timeout")
        .args(["--kill-after=5", PATIENCE])
        .args(words)
        .current_dir(folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(
        output.status.success(),
        "{words:?} in {}: {}\n{}\n{}",
        folder.display(),
        output.status,
        said[0],
        said[1]
    );
}

/// The same for several at once: most of their time they wait.
fn all_pass(folder: &Path, commands: &[&[&str]]) {
    std::thread::scope(|scope| {
        for words in commands {
            scope.spawn(|| passes(folder, words));
        }
    });
}

#[test]
fn the_runner_passes_right_workers_and_fails_wrong_ones() {
    let folder = root().join("clients/fixtures");
    let tests = unit_tests(&std::fs::read_to_string(folder.join("test_play.py")).unwrap());
    assert!(tests.len() > 10, "{tests:?}");
    let commands: Vec<[&str; 3]> = tests.iter().map(|test| ["python3", "test_play.py", test]).collect();
    let commands: Vec<&[&str]> = commands.iter().map(<[&str; 3]>::as_slice).collect();
    all_pass(&folder, &commands);
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

#[test]
fn the_python_client_passes_its_own_tests() {
    passes(
        &root().join("clients/python"),
        &["python3", "-m", "unittest", "discover", "-s", "tests", "-t", "."],
    );
}

#[test]
fn the_python_client_passes_every_session_with_threads_and_with_asyncio() {
    let threads = [
        "python3",
        "clients/fixtures/play.py",
        "--",
        "python3",
        "clients/python/tests/fixture_worker.py",
    ];
    let asyncio = [threads.as_slice(), &["--async"]].concat();
    all_pass(root(), &[&threads, &asyncio]);
}

#[test]
fn the_node_client_passes_its_own_tests() {
    passes(
        &root().join("clients/node"),
        &["sh", "-c", "node --test test/*.test.mjs"],
    );
}

#[test]
fn the_node_client_passes_every_session() {
    let words = [
        "python3",
        "clients/fixtures/play.py",
        "--",
        "node",
        "clients/node/test/fixture-worker.mjs",
    ];
    passes(root(), &words);
}
