//! The issue forms have the elements that a forge shows.

use std::process::Command;

use crate::{path, said};

/// Where scripts/setup.sh puts a package that brings PyYAML.
const PACKAGES: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/kubernetes-validate");

#[test]
fn each_form_has_only_elements_that_there_are() {
    let mut check = Command::new("python3");
    check
        .arg(path("tests/forge/forms.py"))
        .arg(path(".github/ISSUE_TEMPLATE"));
    check.env("PYTHONPATH", PACKAGES).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = check.output().unwrap();
    assert!(output.status.success(), "run scripts/setup.sh test; {}", said(&output));
}
