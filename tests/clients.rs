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

/// Runs of the runner side by side: its sessions mostly wait.
const SHARES: usize = 3;

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
    let threads = ["python3", "clients/python/tests/fixture_worker.py"];
    let asyncio = [threads.as_slice(), &["--async"]].concat();
    let plays = [in_shares(&threads), in_shares(&asyncio)].concat();
    let plays: Vec<Vec<&str>> = plays
        .iter()
        .map(|play| play.iter().map(String::as_str).collect())
        .collect();
    let plays: Vec<&[&str]> = plays.iter().map(Vec::as_slice).collect();
    all_pass(root(), &plays);
}

/// Runs of the runner with this worker that have all sessions together, each about as many.
fn in_shares(worker: &[&str]) -> Vec<Vec<String>> {
    let sessions = std::fs::read_dir(root().join("clients/fixtures/sessions")).unwrap();
    let mut names: Vec<String> = sessions
        .map(|session| {
            session
                .unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    assert!(names.len() > 30, "{names:?}");
    let share = |which: usize| {
        let ours = names.iter().skip(which).step_by(SHARES);
        let only = ours.flat_map(|name| ["--only".to_owned(), name.clone()]);
        let before = ["python3", "clients/fixtures/play.py"].map(str::to_owned);
        let behind = std::iter::once("--").chain(worker.iter().copied()).map(str::to_owned);
        before.into_iter().chain(only).chain(behind).collect()
    };
    (0..SHARES).map(share).collect()
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
