//! The page, the dashboard and the rules speak of the metrics that there are.

use std::collections::BTreeSet;

use super::scrape::families;
use super::{ANY_PORT, OBEYS, OFTEN};
use crate::probe_client::Probes;
use crate::stage::{Stage, root};

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The names and types of all metrics.
fn all() -> Vec<(String, String)> {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).with_all(&[ANY_PORT, OFTEN]).start();
    let probes = Probes::of(&mut init);
    let all = families(&probes.scrape());
    init.stops();
    all
}

/// Words of a text that look like names of metrics, without what a histogram adds to them.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    // A word that ends with `_` is a prefix of names.
    let is_metric = |word: &&str| (word.starts_with("ojs_") || word.starts_with("process_")) && !word.ends_with('_');
    words
        .filter(is_metric)
        .map(|word| {
            let parts = ["_bucket", "_sum", "_count"];
            let part = parts.iter().find_map(|part| word.strip_suffix(part));
            part.unwrap_or(word).to_owned()
        })
        .collect()
}

#[test]
fn every_metric_is_on_the_page_with_its_type() {
    let page = read("docs/metrics.md");
    for (name, of) in all() {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("{name} has no row in docs/metrics.md"));
        assert_eq!(row.split('|').nth(2).unwrap().trim(), of, "{row}");
    }
}

#[test]
fn page_dashboard_and_rules_name_no_metric_that_there_is_not() {
    let known: BTreeSet<String> = all().into_iter().map(|(name, _)| name).collect();
    for path in [
        "docs/metrics.md",
        "docs/grafana-dashboard.json",
        "docs/alert-rules.yaml",
        "docs/on-call.md",
    ] {
        let named = named(&read(path));
        let unknown: Vec<&String> = named.difference(&known).collect();
        assert!(unknown.is_empty(), "{path}: {unknown:?}");
        assert!(named.len() > 4, "{path}: {named:?}");
    }
}

#[test]
fn the_dashboard_is_json_and_each_of_its_panels_asks_for_something() {
    let dashboard: serde_json::Value = serde_json::from_str(&read("docs/grafana-dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() >= 7);
    for panel in panels {
        let targets = panel["targets"].as_array().unwrap();
        let asks = |target: &serde_json::Value| !named(target["expr"].as_str().unwrap()).is_empty();
        assert!(!targets.is_empty() && targets.iter().all(asks), "{panel}");
    }
}

/// The anchor that a renderer of Markdown gives to a heading.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn each_alert_has_a_severity_and_a_runbook_whose_heading_is_there() {
    let rules = read("docs/alert-rules.yaml");
    let alerts: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    assert!(alerts.len() > 20, "{}", alerts.len());
    for alert in alerts {
        let is_graded = ["severity: critical", "severity: warning"]
            .iter()
            .any(|word| alert.contains(word));
        assert!(is_graded, "{alert}");
        let (_, runbook) = alert
            .split_once("runbook_url: \"")
            .unwrap_or_else(|| panic!("no runbook: {alert}"));
        let (page, wanted) = runbook.split('"').next().unwrap().split_once('#').unwrap();
        let text = read(page);
        let headings = text.lines().filter(|line| line.starts_with('#'));
        let is_there = headings
            .map(|line| anchor(line.trim_start_matches('#').trim()))
            .any(|found| found == wanted);
        assert!(is_there, "{page} has no heading {wanted}");
    }
}

#[test]
fn the_page_on_call_has_a_query_for_the_instances_of_each_alert_that_names_none() {
    let page = read("docs/on-call.md");
    let rules = read("docs/alert-rules.yaml");
    let names_none = |alert: &&str| alert.contains("by (job)") || alert.contains("by (job, type)");
    let alerts: Vec<&str> = rules.split("- alert: ").skip(1).filter(names_none).collect();
    assert!(alerts.len() >= 6, "{}", alerts.len());
    for alert in alerts {
        let name = alert.split_whitespace().next().unwrap();
        let is_row = |line: &str| line.starts_with('|') && line.contains(name) && line.contains("{job=\"JOB\"");
        assert!(page.lines().any(is_row), "{name}");
    }
}

#[test]
fn an_outage_is_one_page_and_not_one_for_each_instance() {
    let rules = read("docs/alert-rules.yaml");
    for alert in rules.split("- alert: ").skip(1) {
        // A stuck drain is one container's own trouble.
        let is_own = alert.starts_with("OjsInitDrainStuck");
        if alert.contains("severity: critical") && !is_own {
            assert!(alert.contains("by (job"), "{alert}");
        }
    }
}
