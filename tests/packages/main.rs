//! The packages of the clients, as a user gets them. `make packages-test` builds them and names
//! their folder in PACKAGES. `make test` leaves this program out: it takes minutes and a network.
//!
//! Needs python3 with venv, node, npm, ruby, cargo, composer, javac, and the jars of Jackson and
//! SLF4J. clients/go/go.sh brings Go.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the test is the outside world, and one that cannot read the files has failed"
)]

mod contents;
mod install;
#[path = "../support/sums.rs"]
mod sums;
#[path = "../support/temp.rs"]
mod temp;
#[path = "../support/under_test.rs"]
mod under_test;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use sums::assert_each_file_has_its_sum;
use temp::TempDir;

/// The version of ojs-init, which all clients have.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Variables that could lead an interpreter to sources beside the package.
const LEADING_ELSEWHERE: [&str; 7] = [
    "PYTHONPATH",
    "NODE_PATH",
    "RUBYLIB",
    "RUBYOPT",
    "CLASSPATH",
    "GOFLAGS",
    "CARGO_TARGET_DIR",
];

/// The folder that `make packages` fills.
fn packages() -> PathBuf {
    let folder =
        std::env::var_os("PACKAGES").expect("PACKAGES names the folder of the files: run `make packages-test`");
    PathBuf::from(folder)
}

/// A file in that folder.
fn package(name: &str) -> String {
    let path = packages().join(name.replace("VERSION", VERSION));
    assert!(path.exists(), "{} is missing", path.display());
    path.to_str().unwrap().to_owned()
}

/// A path in the repository.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// A folder for one test, empty.
fn place() -> TempDir {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    TempDir::new(std::env::temp_dir().join(format!("ojs-packages-{}-{number}", std::process::id()))).unwrap()
}

/// A program and its arguments, in a folder, with nothing of the caller that leads elsewhere.
fn command(folder: &Path, environment: &[(&str, &str)], words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(folder);
    for name in LEADING_ELSEWHERE {
        command.env_remove(name);
    }
    command.envs(environment.iter().copied());
    command
}

/// The standard output of a command that must succeed.
fn output(folder: &Path, environment: &[(&str, &str)], words: &[&str]) -> String {
    let output = command(folder, environment, words).output();
    let output = output.unwrap_or_else(|error| panic!("{words:?}: {error}; scripts/setup.sh packages installs it"));
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(
        output.status.success(),
        "{words:?}: {}\n{}\n{}",
        output.status,
        said[0],
        said[1]
    );
    said[0].clone()
}

#[test]
fn each_file_has_its_sum() {
    assert_each_file_has_its_sum(&packages());
}

#[test]
fn a_build_in_another_folder_has_the_same_bytes() {
    let place = place();
    let tools = packages().with_file_name("tools");
    std::os::unix::fs::symlink(tools, place.path().join("tools")).unwrap();
    let target = [
        ("CARGO_TARGET_DIR", place.path().to_str().unwrap()),
        ("TZ", "Asia/Tokyo"),
    ];
    output(&path("."), &target, &["scripts/packages.sh"]);
    let sums = |folder: PathBuf| fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    assert_eq!(sums(place.path().join("packages")), sums(packages()));
}
