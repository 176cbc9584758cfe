//! docs/evidence.md and docs/evidence-requirements.md, against the runs that they are made of.

use std::path::Path;
use std::process::Command;

#[test]
fn each_line_of_the_pages_of_evidence_has_a_run_with_these_figures() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/evidence");
    let mut check = Command::new("python3");
    check.arg(script).arg("--check").env("PYTHONDONTWRITEBYTECODE", "1");
    let output = check.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
