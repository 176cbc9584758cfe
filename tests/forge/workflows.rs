//! The workflows: pinned, linted, and with the rights that they need alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{path, said};

/// Where scripts/setup.sh puts the linter of workflows, a package of PyPI.
const ZIZMOR: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/zizmor/bin/zizmor");

/// Name and text of each workflow.
fn workflows() -> BTreeMap<String, String> {
    let entries = fs::read_dir(path(".github/workflows")).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    files
        .map(|file| {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(&file).unwrap())
        })
        .collect()
}

#[test]
fn each_action_is_pinned_by_a_whole_commit_with_its_version_beside_it() {
    let mut pins: BTreeMap<String, String> = BTreeMap::new();
    let mut seen = 0;
    for (name, text) in workflows() {
        for line in text.lines() {
            let step = line.trim().trim_start_matches("- ");
            let Some(used) = step.strip_prefix("uses: ") else {
                continue;
            };
            seen += 1;
            let (action, rest) = used.split_once('@').unwrap_or((used, ""));
            let (commit, version) = rest.split_once(" # v").unwrap_or((rest, ""));
            let is_commit = commit.len() == 40 && commit.chars().all(|it| it.is_ascii_hexdigit());
            assert!(is_commit, "{name}: {used}: no whole commit");
            assert!(version.split('.').count() == 3, "{name}: {used}: no whole version");
            let known = pins.entry(action.to_owned()).or_insert_with(|| rest.to_owned());
            assert_eq!(known, rest, "{name}: {action} has two pins");
        }
    }
    assert!(seen >= 10, "{seen}");
}

#[test]
fn zizmor_finds_nothing_in_the_workflows() {
    assert!(
        Path::new(ZIZMOR).exists(),
        "{ZIZMOR} is not there: run scripts/setup.sh test"
    );
    let mut lint = Command::new(ZIZMOR);
    lint.args(["--offline", "--persona", "pedantic", "--no-progress"]);
    let output = lint.arg(path(".github")).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn zizmor_finds_an_action_by_tag_and_a_name_in_a_script() {
    let place = crate::folder("zizmor");
    let text = workflows().remove("ci.yml").unwrap();
    let broken = text.replace(
        "      - run: make test",
        "      - run: echo ${{ github.head_ref }}\n      - uses: actions/checkout@v6",
    );
    assert!(broken != text);
    fs::write(place.join("ci.yml"), broken).unwrap();
    let mut lint = Command::new(ZIZMOR);
    lint.args(["--offline", "--no-progress"]).arg(place.join("ci.yml"));
    let output = lint.output().unwrap();
    let found = said(&output);
    assert!(!output.status.success(), "{found}");
    assert!(
        found.contains("unpinned-uses") && found.contains("template-injection"),
        "{found}"
    );
}

#[test]
fn each_job_has_a_time_limit_and_rights_of_its_own() {
    for (name, text) in workflows() {
        assert!(text.contains("\npermissions: {}\n"), "{name}: gives rights to all jobs");
        let jobs = text.matches("    runs-on: ").count();
        assert_eq!(text.matches("\n    permissions:\n").count(), jobs, "{name}");
        assert_eq!(text.matches("\n    timeout-minutes: ").count(), jobs, "{name}");
        assert_eq!(
            text.matches("uses: actions/checkout@").count(),
            text.matches("persist-credentials: false").count(),
            "{name}: a checkout leaves the token in the work tree"
        );
    }
}

#[test]
fn each_job_that_publishes_waits_for_both_comparisons() {
    let text = fs::read_to_string(path(".github/workflows/release.yml")).unwrap();
    let jobs = text.split_once("\njobs:\n").unwrap().1;
    let mut seen = 0;
    for job in jobs
        .split("\n\n")
        .filter(|job| job.contains("\n    environment: release\n"))
    {
        seen += 1;
        let needs = job
            .lines()
            .find_map(|line| line.strip_prefix("    needs: "))
            .unwrap_or("");
        let names: Vec<_> = needs.trim_matches(['[', ']']).split(", ").collect();
        let waits = ["build", "packages"].iter().all(|name| names.contains(name));
        assert!(waits, "needs: {needs}\n{job}");
    }
    assert!(seen >= 8, "{seen}");
}

#[test]
fn no_dependency_is_built_where_the_token_of_crates_io_is() {
    let text = fs::read_to_string(path(".github/workflows/release.yml")).unwrap();
    let is_publish = |line: &&str| line.contains("run: cargo publish");
    let mut seen = 0;
    for line in text.lines().filter(is_publish) {
        seen += 1;
        let builds = !line.contains("--no-verify");
        assert_eq!(builds, line.contains("--dry-run"), "{line}");
    }
    assert!(seen == 4, "{seen}");
}
