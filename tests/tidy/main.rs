//! The house rules that no compiler checks: who may use what, how long a file may be, where
//! `unsafe` may stand.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot read the sources has failed"
)]

mod budgets;
mod calls;
mod circles;
mod documented;
mod elf;
mod ignored;
mod imports;
mod modules;
mod named_tests;
mod names;
mod prose;
mod table;
mod unsafe_code;
mod versions;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Most lines of a file of ours.
const MAX_FILE_LINES: usize = 500;

/// The crates that do no I/O and have no clock. Their `Cargo.toml` keeps other people's code away;
/// this is for the standard library.
const PURE: [&str; 3] = ["values", "lifecycle", "wire"];

/// Words that no code of a pure crate has.
const WORLD: [&str; 10] = [
    "std::io",
    "std::net",
    "std::fs",
    "std::process",
    "std::thread",
    "std::env",
    "std::time::Instant",
    "SystemTime",
    "HashMap",
    "HashSet",
];

/// The crates of the binary, and where their sources are. The paths of the last one begin with a
/// module's name.
const CRATES: [(&str, &str); 5] = [
    ("values", "crates/values/src"),
    ("lifecycle", "crates/lifecycle/src"),
    ("wire", "crates/wire/src"),
    ("os", "crates/os/src"),
    ("", "src"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file of the binary, with its name in docs/architecture.md: `lifecycle/api/ids.rs`.
fn sources() -> Vec<(PathBuf, PathBuf)> {
    let mut found = Vec::new();
    for (name, folder) in CRATES {
        let folder = root().join(folder);
        let named = |path: PathBuf| (Path::new(name).join(path.strip_prefix(&folder).unwrap()), path);
        found.extend(rust_files(&folder).into_iter().map(named));
    }
    found
}

/// Every Rust file below `folder`, with its path relative to it.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The lines of code up to the unit tests at the end, comments left out. A module of tests that is
/// only declared is one line.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_code = |line: &str| !line.trim_start().starts_with("//");
    let is_of_tests = text.lines().scan(false, |is_of_tests, line| {
        *is_of_tests = line == "#[cfg(test)]" || (*is_of_tests && !line.ends_with(';'));
        Some(*is_of_tests && line.contains("mod ") && line.ends_with('{'))
    });
    let end = is_of_tests.take_while(|begins| !begins).count();
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines.take(end).filter(move |(_, line)| is_code(line))
}

#[test]
fn code_ends_where_the_unit_tests_begin_and_not_where_a_module_of_them_is_declared() {
    let text = "a;\n#[cfg(test)]\nmod support;\n// b\nc;\n#[cfg(test)]\n#[allow(x)]\nmod tests {\nd;\n}\n";
    let read: Vec<&str> = code(text).map(|(_, line)| line).collect();
    assert_eq!(
        read,
        [
            "a;",
            "#[cfg(test)]",
            "mod support;",
            "c;",
            "#[cfg(test)]",
            "#[allow(x)]"
        ]
    );
}

fn is_test_file(path: &Path) -> bool {
    path.file_stem()
        .is_some_and(|stem| stem.to_string_lossy().ends_with("_tests") || stem == "tests")
}

#[test]
fn files_stay_short_enough_to_be_read_in_one_go() {
    let too_long: BTreeMap<_, _> = [
        "crates",
        "src",
        "tests",
        "devserver/src",
        "devserver/tests",
        "bench/src",
        "fuzz/src",
        "packaging/src",
    ]
    .iter()
    .flat_map(|folder| rust_files(&root().join(folder)))
    .map(|path| (path.clone(), fs::read_to_string(path).unwrap().lines().count()))
    .filter(|(_, lines)| *lines > MAX_FILE_LINES)
    .collect();
    assert!(too_long.is_empty(), "longer than {MAX_FILE_LINES} lines: {too_long:#?}");
}

#[test]
fn pure_crates_do_no_io_and_have_no_clock() {
    let is_pure = |name: &Path| PURE.iter().any(|pure| name.starts_with(pure));
    let mut broken = Vec::new();
    for (name, path) in sources() {
        if !is_pure(&name) || is_test_file(&path) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in code(&text) {
            let found = WORLD.iter().filter(|word| line.contains(*word));
            broken.extend(found.map(|word| format!("{}:{number}: {word}", name.display())));
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn one_file_alone_reaps() {
    let waits = |line: &str| line.contains("waitpid(") || line.contains("wait4(") || line.contains("waitid(");
    let files = sources();
    let waiting = files
        .iter()
        .filter(|(_, path)| !is_test_file(path))
        .filter(|(_, path)| {
            let text = fs::read_to_string(path).unwrap();
            code(&text).any(|(_, line)| waits(line))
        });
    let waiting: Vec<&PathBuf> = waiting.map(|(name, _)| name).collect();
    assert!(
        matches!(waiting[..], [one] if one.ends_with("os/reaper.rs")),
        "{waiting:?}"
    );
}

/// The rules of the development server's jobs are tested with times of the test's own.
#[test]
fn the_development_server_s_store_has_no_clock_and_no_socket() {
    const WORLDLY: [&str; 8] = [
        "Instant",
        "SystemTime",
        "Timestamp::now",
        "std::net",
        "std::thread",
        "tokio",
        "hyper",
        "crate::http",
    ];
    let store = root().join("devserver/src/store");
    for path in rust_files(&store).into_iter().filter(|path| !is_test_file(path)) {
        let text = fs::read_to_string(&path).unwrap();
        let found = code(&text).find(|(_, line)| WORLDLY.iter().any(|word| line.contains(word)));
        assert_eq!(found, None, "{}", path.display());
    }
}

#[test]
fn main_stays_short() {
    let lines = fs::read_to_string(root().join("src/main.rs")).unwrap().lines().count();
    assert!(
        lines <= 80,
        "main.rs has {lines} lines: it parses, runs and maps to an exit status, nothing else"
    );
}

/// The patches test the trials: `make broken-builds`.
#[test]
fn each_broken_build_s_patch_still_applies_and_names_the_promise_that_must_catch_it() {
    let promises: Vec<PathBuf> = rust_files(&root().join("tests/trials/promises"));
    let promises = promises
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect::<String>();
    let folder = fs::read_dir(root().join("tests/trials/broken")).unwrap();
    let patches: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    assert!(patches.len() >= 14, "{patches:?}");
    for patch in patches {
        let text = fs::read_to_string(&patch).unwrap();
        let named: Vec<&str> = text
            .lines()
            .next()
            .unwrap_or_default()
            .split('"')
            .skip(1)
            .step_by(2)
            .collect();
        let is_known = |promise: &&str| promises.contains(&format!("\"{promise}\""));
        assert!(
            !named.is_empty() && named.iter().all(is_known),
            "{}: {named:?}",
            patch.display()
        );
        let applied = git_apply_check(&patch);
        assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    }
}

#[expect(clippy::disallowed_methods, reason = "git ends by itself")]
fn git_apply_check(patch: &Path) -> std::process::Output {
    // Below a repository that is not ours git would leave out what it does not have.
    std::process::Command::new("git")
        .args(["apply", "--check"])
        .arg(patch)
        .current_dir(root())
        .env("GIT_CEILING_DIRECTORIES", root().parent().unwrap_or(root()))
        .output()
        .unwrap()
}
