//! The list of sums in a folder of files that are made for users.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Asserts that SHA256SUMS of this folder lists each other file of it, and no more, with its sum.
pub fn assert_each_file_has_its_sum(folder: &Path) {
    let checked = Command::new("sha256sum")
        .args(["--check", "--strict", "SHA256SUMS"])
        .current_dir(folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{}: {said}", folder.display());
    let checked = String::from_utf8_lossy(&checked.stdout);
    let checked: BTreeSet<String> = checked.lines().map(|line| line.replace(": OK", "")).collect();
    let entries = std::fs::read_dir(folder).unwrap();
    let files = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files: BTreeSet<String> = files.filter(|name| name != "SHA256SUMS").collect();
    assert_eq!(checked, files);
}
