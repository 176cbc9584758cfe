//! The manifests of docker/kubernetes and the chart of docker/helm, without a cluster: against
//! Kubernetes' schemas, against each other, and against the real binary. The checks are in
//! tests/kubernetes, in Python, because the schemas come as a Python package.
//!
//! Needs python3 and promtool, and what `scripts/setup.sh test` puts into the target folder. Where
//! there is no kustomize or no helm, the tests that need one are shown as ignored.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "the test is the outside world, and one whose processes do not do as they are told has failed"
)]

#[path = "../support/under_test.rs"]
mod under_test;

use std::path::Path;
use std::process::{Command, ExitCode, Output};

use libtest_mimic::{Arguments, Trial};

/// Where scripts/setup.sh puts the Python package kubernetes-validate and what that needs.
const PACKAGES: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/kubernetes-validate");

/// Where scripts/setup.sh puts helm and kubectl, which has a kustomize.
const TOOLS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/kubectl-and-helm");

/// The tests: what each promises, and the check that has to find nothing. Some checks take the
/// binary besides.
const PROMISES: [(&str, &str); 8] = [
    (
        "each_file_is_named_by_a_kustomization_and_each_component_by_the_page",
        "files",
    ),
    (
        "every_way_to_use_the_manifests_is_valid_for_each_version_of_kubernetes_with_no_unknown_field",
        "schemas",
    ),
    (
        "times_paths_ports_selectors_queues_and_metrics_agree_with_each_other",
        "values",
    ),
    ("prometheus_can_read_what_the_autoscaler_asks", "queries"),
    ("kustomize_itself_builds_the_same", COMPARED),
    (
        "helm_renders_a_chart_that_is_valid_like_the_base_and_refuses_wrong_values",
        CHART,
    ),
    (
        "the_binary_takes_the_settings_answers_the_probes_and_ends_as_the_kubelet_expects",
        "binary",
    ),
    ("each_check_finds_manifests_that_are_broken_on_purpose", "faults"),
];

/// The check that needs a kustomize.
const COMPARED: &str = "real-kustomize";

/// The check that needs helm.
const CHART: &str = "chart";

/// The result of a check.
fn says(check: &str) -> Output {
    assert!(
        Path::new(PACKAGES).join("kubernetes_validate").exists(),
        "{PACKAGES} is not there: run scripts/setup.sh test"
    );
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubernetes/check.py");
    let mut python = Command::new("python3");
    python.arg(script).arg(check);
    if ["binary", "faults", CHART].contains(&check) {
        python.arg(under_test::init());
    }
    python.env("PYTHONPATH", PACKAGES).env("PYTHONDONTWRITEBYTECODE", "1");
    let path = std::env::var("PATH").unwrap_or_default();
    python.env("PATH", format!("{TOOLS}:{path}"));
    python.output().unwrap()
}

fn finds_nothing(check: &str) {
    let said = says(check);
    eprint!("{}", String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success(), "\n{}", String::from_utf8_lossy(&said.stdout));
}

/// Why a check cannot run: what `has` says. A check that fails with a finding says so; one that
/// cannot run has none.
fn missing(has: &str) -> Option<String> {
    let said = String::from_utf8_lossy(&says(has).stdout).trim().to_owned();
    Some(said).filter(|why| !why.is_empty())
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut left_out = Vec::new();
    if !arguments.list {
        for (check, has) in [(COMPARED, "has-kustomize"), (CHART, "has-helm")] {
            if let Some(why) = missing(has) {
                eprintln!("kubernetes: {check}: NOT RUN: {why}");
                left_out.push(check);
            }
        }
    }
    let trial = |(name, check): (&'static str, &'static str)| {
        let run = move || {
            finds_nothing(check);
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(left_out.contains(&check))
    };
    libtest_mimic::run(&arguments, PROMISES.into_iter().map(trial).collect()).exit_code()
}
