//! The manifests of docker/kubernetes, without a cluster: against Kubernetes' schemas, against each other, and against the
//! real binary. What is checked is in tests/kubernetes, in Python, because the schemas come as a Python package.
//!
//! Needs python3 and promtool, and what `scripts/setup.sh test` puts into the target folder.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "the test is the outside world, and one whose processes do not do as they are told has failed"
)]

#[path = "support/under_test.rs"]
mod under_test;

use std::path::Path;
use std::process::Command;

/// Where scripts/setup.sh puts the Python package kubernetes-validate and what that needs.
const PACKAGES: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/kubernetes-validate");

/// Runs a check, which has to find nothing.
#[track_caller]
fn finds_nothing(arguments: &[&str]) {
    assert!(
        Path::new(PACKAGES).join("kubernetes_validate").exists(),
        "{PACKAGES} is not there: run scripts/setup.sh test"
    );
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubernetes/check.py");
    let mut check = Command::new("python3");
    check.arg(script).args(arguments);
    check.env("PYTHONPATH", PACKAGES).env("PYTHONDONTWRITEBYTECODE", "1");
    let said = check.output().unwrap();
    eprint!("{}", String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success(), "\n{}", String::from_utf8_lossy(&said.stdout));
}

#[test]
fn each_file_is_named_by_a_kustomization_and_each_component_by_the_page() {
    finds_nothing(&["files"]);
}

#[test]
fn every_way_to_use_the_manifests_is_valid_for_each_version_of_kubernetes_with_no_unknown_field() {
    finds_nothing(&["schemas"]);
}

#[test]
fn times_paths_ports_selectors_and_metrics_agree_with_each_other() {
    finds_nothing(&["values"]);
}

#[test]
fn prometheus_can_read_what_the_autoscaler_asks() {
    finds_nothing(&["queries"]);
}

/// Where one of the tools is installed; else the output says that there was none.
#[test]
fn kustomize_itself_builds_the_same() {
    finds_nothing(&["real-kustomize"]);
}

#[test]
fn the_binary_takes_the_settings_answers_the_probes_and_ends_as_the_kubelet_expects() {
    finds_nothing(&["binary", &under_test::init()]);
}

#[test]
fn each_check_finds_manifests_that_are_broken_on_purpose() {
    finds_nothing(&["faults", &under_test::init()]);
}
