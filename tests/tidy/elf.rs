//! The form of the release binaries: static, at a fixed address, and no memory that can be written
//! and executed. `elf.txt` has it, without addresses and sizes, which each build changes.

use std::fmt::Write;
use std::fs;

use crate::budgets::BINARIES;
use crate::root;

/// The output of readelf (binutils, which the C compiler brings) for a file.
#[expect(clippy::disallowed_methods, reason = "readelf ends by itself")]
fn readelf(option: &str, file: &str) -> String {
    let output = std::process::Command::new("readelf")
        .args(["--wide", option, file])
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Type of the file, its segments with their rights, and the entries of its dynamic section.
fn form(file: &str) -> String {
    let mut form = String::new();
    let header = readelf("--file-header", file);
    let kind = header.lines().find_map(|line| line.trim().strip_prefix("Type:"));
    writeln!(form, "type {}", kind.unwrap().trim().split(' ').next().unwrap()).unwrap();
    for line in readelf("--program-headers", file).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        // Type, offset, two addresses, two sizes, the rights (which may have blanks), alignment.
        let [kind, offset, _, _, _, _, rights @ .., _] = words.as_slice() else {
            continue;
        };
        if offset.starts_with("0x") {
            writeln!(form, "segment {kind} {}", rights.concat()).unwrap();
        }
    }
    for line in readelf("--dynamic", file)
        .lines()
        .filter(|line| line.trim().starts_with("0x"))
    {
        let (tag, value) = line.split_once('(').unwrap().1.split_once(')').unwrap();
        writeln!(form, "dynamic {tag} {}", value.trim()).unwrap();
    }
    form
}

#[test]
fn the_release_binaries_are_static_and_have_no_memory_that_can_be_written_and_executed() {
    let golden = root().join("tests/tidy/elf.txt");
    for (variable, _) in BINARIES {
        // Only a run of all tests has built it.
        let Ok(file) = std::env::var(variable) else { continue };
        let form = form(&file);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&golden, &form).unwrap();
        }
        assert_eq!(form, fs::read_to_string(&golden).unwrap(), "{file}");
    }
}

#[test]
fn the_form_that_is_written_down_keeps_what_the_page_on_security_promises() {
    let golden = fs::read_to_string(root().join("tests/tidy/elf.txt")).unwrap();
    let lines: Vec<&str> = golden.lines().collect();
    let has = |line: &str| lines.contains(&line);
    assert!(has("segment GNU_STACK RW"), "a stack that can be executed: {golden}");
    assert!(
        lines.iter().any(|line| line.starts_with("segment GNU_RELRO")),
        "{golden}"
    );
    let is_forbidden = |line: &&&str| {
        let is_loose = line.contains('W') && line.ends_with('E');
        is_loose
            || ["INTERP", "NEEDED", "RPATH", "RUNPATH", "TEXTREL"]
                .iter()
                .any(|word| line.contains(word))
    };
    let forbidden: Vec<_> = lines.iter().filter(is_forbidden).collect();
    assert!(forbidden.is_empty(), "{forbidden:?}");
}
