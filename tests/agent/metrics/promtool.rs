//! The verdict of Prometheus' own tool about the metrics and the rules.

use std::io::Write;
use std::process::{Command, Stdio};

use super::{ANY_PORT, OBEYS, OFTEN};
use crate::backend::Behaviour;
use crate::backend::Endpoint;
use crate::probe_client::Probes;
use crate::stage::{Stage, root};

#[expect(clippy::disallowed_methods, reason = "a program of the test's own")]
fn promtool(arguments: &[&str], input: &str) -> (bool, String) {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(root());
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut promtool = command
        .spawn()
        .expect("promtool is not there: scripts/setup.sh test installs it");
    promtool.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn promtool_finds_nothing_wrong_with_a_scrape() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    // Names that would end a label, a line or a metric.
    stage
        .backend
        .enqueue(r#"{"id":"j3","type":"a\"} 1\n# b\\","queue":"{\u0000\u20ac","args":[],"attempt":0}"#);
    stage.backend.once(Endpoint::Ack, Behaviour::status(503));
    let mut init = stage.worker(OBEYS).with_all(&[ANY_PORT, OFTEN]).start();
    let probes = Probes::of(&mut init);
    for job in ["j1", "j2", "j3"] {
        init.notes_line(&format!("job {job}"));
    }
    init.order(r#"fail j1 {"error": {"message": "no"}}"#);
    init.order("ack j3");
    probes.counts(
        "ojs_job_duration_seconds_count{queue=\"{\0\u{20ac}\",type=\"a\\\"} 1\\n# b\\\\\",state=\"completed\"}",
        1.0,
    );
    init.signal(libc::SIGTERM);
    probes.counts("ojs_init_state{state=\"terminate\"}", 1.0);
    let text = probes.scrape();
    let (is_good, said) = promtool(&["check", "metrics"], &text);
    assert!(is_good && said.is_empty(), "{said}\n{text}");
    init.order("ack j2");
    init.ends_with(0);
}

#[test]
fn promtool_does_find_what_is_wrong() {
    let (is_good, _) = promtool(&["check", "metrics"], "# TYPE a gauge\na 1\na 1\n");
    assert!(!is_good);
}

#[test]
fn promtool_finds_nothing_wrong_with_the_rules() {
    let (is_good, said) = promtool(&["check", "rules", "docs/alert-rules.yaml"], "");
    assert!(is_good && said.contains("SUCCESS"), "{said}");
}

#[test]
fn promtool_can_read_every_question_of_the_dashboard() {
    let stage = Stage::new();
    let dashboard = std::fs::read_to_string(root().join("docs/grafana-dashboard.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    let mut rules = "groups:\n- name: dashboard\n  rules:\n".to_owned();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let asked = target["expr"].as_str().unwrap();
            let asked = asked.replace("$__rate_interval", "5m").replace("$__range", "1h");
            rules.push_str(&format!("  - record: a:b\n    expr: |\n      {asked}\n"));
            rules.push_str(&format!("    labels: {{ number: \"{}\" }}\n", rules.len()));
        }
    }
    let file = stage.at("dashboard.yaml");
    std::fs::write(&file, &rules).unwrap();
    let (is_good, said) = promtool(&["check", "rules", file.to_str().unwrap()], "");
    assert!(is_good, "{said}\n{rules}");
}

#[test]
fn promtool_can_read_every_query_of_the_page_on_call() {
    let stage = Stage::new();
    let page = std::fs::read_to_string(root().join("docs/on-call.md")).unwrap();
    let queries: Vec<&str> = page.split('`').filter(|code| code.contains("{job=\"JOB\"")).collect();
    assert!(queries.len() > 4, "{queries:?}");
    let mut rules = "groups:\n- name: queries\n  rules:\n".to_owned();
    for (number, query) in queries.iter().enumerate() {
        rules.push_str(&format!("  - record: a:b{number}\n    expr: |\n      {query}\n"));
    }
    let file = stage.at("queries.yaml");
    std::fs::write(&file, &rules).unwrap();
    let (is_good, said) = promtool(&["check", "rules", file.to_str().unwrap()], "");
    assert!(is_good, "{said}\n{rules}");
}

#[test]
fn each_rule_fires_when_it_should_and_only_then() {
    let (is_good, said) = promtool(&["test", "rules", "tests/agent/metrics/alert-rules.test.yaml"], "");
    assert!(is_good, "{said}");
}
