//! The files of `make dist`, as a user gets them. `make dist-test` builds them and names their
//! folder in DIST. `make test` leaves this program out: a new Debian takes minutes and a mirror.
//!
//! Needs root, debootstrap, rpm, cpio, binutils, python3, skopeo, Docker, the Alpine of
//! scripts/setup.sh, and QEMU for aarch64.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the test is the outside world, and one that cannot read the files has failed"
)]

mod artefacts;
#[allow(dead_code, reason = "the containers' tests use all of it")]
#[path = "../support/engine.rs"]
mod engine;
mod image;
#[path = "../support/sums.rs"]
mod sums;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use artefacts::{Artefact, VERSION, arches, artefacts, dist, init_only, listed, notices, sbom};
use sums::assert_each_file_has_its_sum;

/// The standard output of a command that must succeed.
pub fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}; scripts/setup.sh dist-test installs it"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn each_file_has_its_sum() {
    assert_each_file_has_its_sum(&dist());
}

#[test]
fn archive_deb_and_rpm_have_the_same_binary_and_it_lists_its_crates() {
    for arch in arches() {
        let binaries: Vec<Vec<u8>> = artefacts(arch).iter().map(Artefact::binary).collect();
        assert!(binaries.iter().all(|binary| *binary == binaries[0]), "{arch}");
        for artefact in artefacts(arch) {
            let crates = listed(&artefact.binary_path());
            for wanted in ["ojs-init", "ojs-lifecycle", "rustls", "mio", "serde_json"] {
                assert!(crates.contains(wanted), "{arch}: {wanted}: {crates:?}");
            }
            for unwanted in ["proptest", "tokio", "ojs-devserver", "clap_mangen"] {
                assert!(!crates.contains(unwanted), "{arch}: {unwanted}");
            }
        }
    }
}

#[test]
fn the_sbom_has_the_crates_of_the_binary_and_notices_has_their_licences() {
    for arch in arches() {
        for (archive, end) in [(&artefacts(arch)[0], ""), (&init_only(arch), "-init")] {
            let crates = listed(&archive.binary_path());
            assert_eq!(sbom(arch, end), crates, "{arch}{end}");
            let notices = notices(archive);
            // Behind the list of crates stands each text, below the names of its crates.
            let (list, texts) = notices.split_once("musl is licensed").unwrap();
            for name in crates.iter().filter(|name| !name.starts_with("ojs-")) {
                let begins = |line: &&str| line.starts_with(&format!("{name} "));
                let licence = list.lines().find(begins).and_then(|line| line.split_once(": "));
                assert!(
                    licence.is_some_and(|(_, licence)| !licence.is_empty()),
                    "{arch}{end}: {name}"
                );
                let titles = texts.lines().filter(|line| line.ends_with(':'));
                let mut names = titles.flat_map(|title| title.split(", "));
                assert!(names.any(|named| begins(&named)), "{arch}{end}: no text of {name}");
            }
            assert!(texts.contains("Rich Felker"), "{arch}{end}");
            for name in of_the_standard_library(arch) {
                assert!(
                    list.contains(&format!("{name} (")),
                    "{arch}{end}: {name}, which the standard library has"
                );
            }
        }
    }
}

/// The crates of others that Rust's standard library for an architecture was built with.
fn of_the_standard_library(arch: &str) -> BTreeSet<String> {
    // Rust's own, and what only its programs for tests and macros need.
    let own = "alloc core getopts panic_abort panic_unwind proc_macro profiler_builtins rustc_literal_escaper \
        rustc_std_workspace_alloc rustc_std_workspace_core rustc_std_workspace_std std std_detect sysroot test unwind";
    let sysroot = output("rustc", &["--print", "sysroot"]);
    let folder = format!("{}/lib/rustlib/{arch}-unknown-linux-musl/lib", sysroot.trim());
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    let names = files.filter_map(|file| {
        let (name, _) = file
            .to_str()?
            .strip_prefix("lib")?
            .strip_suffix(".rlib")?
            .rsplit_once('-')?;
        Some(name.to_owned())
    });
    let found: BTreeSet<String> = names
        .filter(|name| own.split_whitespace().all(|own| own != name))
        .collect();
    assert!(found.contains("hashbrown"), "{found:?}");
    found
}

#[test]
fn the_archive_of_the_plain_init_has_a_small_binary_that_runs_and_nothing_of_the_worker() {
    for arch in arches() {
        let archive = init_only(arch);
        let bytes = archive.binary().len();
        assert!(bytes < 1_000_000, "{arch}: {bytes} bytes");
        assert_eq!(archive.entries().lines().count(), 3, "{}", archive.entries());
    }
    // Its folder goes with it.
    let archive = init_only("x86_64");
    let binary = archive.binary_path();
    assert_eq!(
        output(text(&binary), &["--version"]),
        format!("ojs-init {VERSION} (init only)\n")
    );
    assert_eq!(output(text(&binary), &["--", "echo", "it runs"]), "it runs\n");
}

#[test]
fn no_folder_of_the_builder_is_in_the_binary() {
    let home = std::env::var("CARGO_HOME").unwrap_or_else(|_| format!("{}/.cargo", std::env::var("HOME").unwrap()));
    let sysroot = output("rustc", &["--print", "sysroot"]);
    for arch in arches() {
        let binary = artefacts(arch)[0].binary();
        for place in [env!("CARGO_MANIFEST_DIR"), &home, sysroot.trim()] {
            let is_in = binary.windows(place.len()).any(|bytes| bytes == place.as_bytes());
            assert!(!is_in, "{arch}: {place} is in the binary");
        }
    }
}

#[test]
fn every_time_is_that_of_the_last_commit_and_every_owner_is_root() {
    let epoch = artefacts::epoch();
    let date = output("date", &["--utc", "--date", &format!("@{epoch}"), "+%F %R"]);
    for arch in arches() {
        for artefact in artefacts(arch) {
            let entries = artefact.entries();
            assert!(entries.lines().count() > 20, "{entries}");
            for line in entries.lines() {
                let owners = ["0/0", "root/root"];
                assert!(owners.iter().any(|owner| line.contains(owner)), "{line}");
                assert!(line.contains(date.trim()), "{line}; expected {date}");
            }
        }
        let query = ["-qp", "--queryformat", "%{BUILDTIME} %{BUILDHOST}"];
        let rpm = output("rpm", &[&query[..], &[text(&artefacts::rpm(arch))]].concat());
        assert_eq!(rpm, format!("{epoch} localhost"));
    }
}

#[test]
fn the_crates_of_the_binary_build_from_what_would_be_published() {
    let crates = ["ojs-values", "ojs-lifecycle", "ojs-wire", "ojs-os", "ojs-init"];
    let packages = crates.iter().flat_map(|name| ["--package", *name]);
    let args = ["package", "--quiet", "--locked", "--allow-dirty", "--manifest-path"];
    let manifest = [concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")];
    let args: Vec<&str> = args.into_iter().chain(manifest).chain(packages).collect();
    output("cargo", &args);
}

/// `man` and a shell's completions, in the deb and then removed, need a Debian of their own.
#[test]
fn the_deb_works_in_a_new_debian_and_leaves_nothing_when_it_is_removed() {
    let debian = artefacts::System::debian();
    let before = debian.files();
    fs::copy(artefacts::deb("x86_64"), debian.path("tmp/ojs-init.deb")).unwrap();
    debian.run("apt-get install --yes /tmp/ojs-init.deb && rm /tmp/ojs-init.deb");
    assert_eq!(debian.run("ojs-init --version"), format!("ojs-init {VERSION}\n"));
    assert_eq!(debian.run("ojs-init --no-agent -- sh -c 'exit 0'; echo $?"), "0\n");

    let page = debian.run("man ojs-init");
    let help = debian.run("ojs-init run --help");
    let flags = help
        .split_whitespace()
        .filter(|word| word.starts_with("--") && word.len() > 2);
    let flags: BTreeSet<&str> = flags
        .map(|word| word.split(['=', '[', ',', '.']).next().unwrap())
        .collect();
    assert!(flags.len() > 20, "{flags:?}");
    for flag in flags {
        assert!(page.contains(flag), "{flag} is not in the man page");
    }
    assert!(debian.run("man ojs-init-prestop").contains("--until-idle"));

    let complete = "_completion_loader ojs-init; found=$(complete -p ojs-init); found=${found#*-F }; call=${found%% *}
        COMP_WORDS=(ojs-init pre) COMP_CWORD=1; $call ojs-init pre ojs-init; echo ${COMPREPLY[@]}
        COMP_WORDS=(ojs-init prestop --u) COMP_CWORD=2; $call ojs-init --u prestop; echo ${COMPREPLY[@]}";
    let script = format!("bash -c '. /usr/share/bash-completion/bash_completion; {complete}'");
    assert_eq!(debian.run(&script), "prestop\n--until-idle\n");

    debian.run("apt-get remove --yes ojs-init");
    assert_eq!(debian.run("dpkg --list | grep ojs-init || true"), "");
    assert_same(&before, &debian.files());
}

/// Asserts that an installation and a removal have left the paths of a system as they were.
fn assert_same(before: &BTreeSet<String>, after: &BTreeSet<String>) {
    let left: Vec<_> = after.difference(before).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    let gone: Vec<_> = before.difference(after).collect();
    assert!(gone.is_empty(), "removed although not its own: {gone:?}");
}

#[test]
fn the_apk_works_in_an_alpine_and_leaves_nothing_when_it_is_removed() {
    let alpine = artefacts::System::alpine();
    let before = alpine.files();
    fs::copy(artefacts::apk("x86_64"), alpine.path("tmp/ojs-init.apk")).unwrap();
    alpine.run("apk add --no-network --allow-untrusted /tmp/ojs-init.apk && rm /tmp/ojs-init.apk");
    assert_eq!(alpine.run("ojs-init --version"), format!("ojs-init {VERSION}\n"));
    assert_eq!(alpine.run("ojs-init --no-agent -- sh -c 'exit 7' || echo $?"), "7\n");
    for path in [
        "man/man1/ojs-init.1.gz",
        "zsh/site-functions/_ojs-init",
        "doc/ojs-init/NOTICES",
        "doc/ojs-init/seccomp.json",
    ] {
        assert!(alpine.path("usr/share").join(path).exists(), "{path}");
    }
    alpine.run("apk del ojs-init");
    assert_same(&before, &alpine.files());
}

/// That for another processor runs in QEMU.
#[test]
fn the_binary_of_each_architecture_is_pid_1_of_a_command() {
    for arch in arches() {
        let archive = &artefacts(arch)[0];
        let emulator: &[&str] = if arch == "x86_64" { &[] } else { &["qemu-aarch64"] };
        let path = archive.binary_path();
        let run = |words: &[&str]| {
            let unshare = ["--pid", "--fork", "--kill-child"];
            output("unshare", &[&unshare[..], emulator, &[text(&path)], words].concat())
        };
        assert_eq!(run(&["--version"]), format!("ojs-init {VERSION}\n"), "{arch}");
        let command = ["--no-agent", "--", "sh", "-c", "echo $PPID"];
        assert_eq!(run(&command), "1\n", "{arch}");
    }
}

#[test]
fn the_rpm_installs_into_an_empty_root_and_leaves_nothing_when_it_is_removed() {
    let place = artefacts::place();
    let root = format!("--root={}", text(place.path()));
    let rpm = |args: &[&str]| output("rpm", &[&[&root, "--dbpath=/var/lib/rpm"], args].concat());
    let database = format!("{}/var/lib/rpm/*", text(place.path()));
    let files = || output("find", &[text(place.path()), "-type", "f", "-not", "-path", &database]);
    rpm(&["--initdb"]);
    assert_eq!(files(), "");
    rpm(&["--install", text(&artefacts::rpm("x86_64"))]);
    let binary = place.path().join("usr/bin/ojs-init");
    assert_eq!(output(text(&binary), &["--version"]), format!("ojs-init {VERSION}\n"));
    for path in [
        "share/man/man1/ojs-init.1.gz",
        "share/bash-completion/completions/ojs-init",
    ] {
        assert!(place.path().join("usr").join(path).exists(), "{path}");
    }
    rpm(&["--erase", "ojs-init"]);
    assert_eq!(files(), "");
    assert!(!place.path().join("usr/share/doc/ojs-init").exists());
}
