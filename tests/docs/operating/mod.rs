//! The pages for operation against the real binary and the sources: the worked examples, the
//! messages that they quote, the names of settings, and the options for users of another init.
//!
//! Needs root (PID namespaces).

pub mod messages;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::support::under_test;
use messages::Messages;

/// Has the worked examples.
const GRACE_PERIOD: &str = include_str!("../../../docs/grace-period.md");

/// Has the tables for users of another init.
const PID_1: &str = include_str!("../../../docs/pid-1.md");

/// Pages that quote messages and name settings.
const PAGES: [&str; 11] = [
    GRACE_PERIOD,
    PID_1,
    include_str!("../../../docs/deploy-containers.md"),
    include_str!("../../../docs/deploy-kubernetes.md"),
    include_str!("../../../docs/memory.md"),
    include_str!("../../../docs/on-call.md"),
    include_str!("../../../docs/on-call-backend.md"),
    include_str!("../../../docs/on-call-jobs.md"),
    include_str!("../../../docs/scale-from-zero.md"),
    include_str!("../../../docs/scaling.md"),
    include_str!("../../../docs/several-processes.md"),
];

/// Another page on which settings are named.
const MANIFESTS: &str = include_str!("../../../docker/kubernetes/README.md");

/// Given to the worker, and no setting.
const NO_SETTING: &str = "OJS_SOCKET";

/// A table of a page: the cells of its rows, without head and rule.
struct Table<'a> {
    head: Vec<&'a str>,
    rows: Vec<Vec<&'a str>>,
}

/// All tables, in their order.
fn tables(page: &str) -> Vec<Table<'_>> {
    let mut found = Vec::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let is_head = line.starts_with('|') && lines.peek().is_some_and(|next| next.starts_with("|---"));
        if !is_head {
            continue;
        }
        lines.next();
        let mut rows = Vec::new();
        while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
            rows.push(cells(row));
        }
        found.push(Table {
            head: cells(line),
            rows,
        });
    }
    found
}

fn cells(row: &str) -> Vec<&str> {
    let inner = row.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split(" | ").map(str::trim).collect()
}

/// The texts between backticks.
fn code(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Its output as PID 1 of a namespace, with these variables and no others.
fn says(variables: &[(&str, &str)], arguments: &[&str]) -> (bool, String) {
    let mut init = Command::new("unshare");
    init.args(["--pid", "--fork", "--kill-child", "--"])
        .arg(under_test::init());
    init.args(arguments).env_clear().env("PATH", "/usr/bin:/bin");
    let said = init.envs(variables.iter().copied()).output().unwrap();
    let text = [said.stdout, said.stderr].concat();
    (said.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn ojs_init_says_at_its_start_what_the_worked_examples_say() {
    let part = GRACE_PERIOD.split_once("<!-- examples").unwrap().1;
    let part = part.split_once("<!-- end of examples").unwrap().0;
    let rows = tables(part).remove(0).rows;
    assert!(rows.len() >= 10, "{}", rows.len());
    for row in rows {
        let set = code(row[0])[0];
        let mut variables: Vec<_> = set.split(' ').filter_map(|pair| pair.split_once('=')).collect();
        variables.extend([("OJS_URL", "http://127.0.0.1:1"), ("OJS_HEALTH_LISTEN", "off")]);
        let (_, said) = says(&variables, &["--format", "text", "--", "true"]);
        let line = said
            .lines()
            .find_map(|line| line.find("after a stop").map(|at| &line[at..]));
        assert_eq!(line, Some(code(row[1])[0]), "{set}: {said}");
    }
}

#[test]
fn every_message_that_is_quoted_is_one_of_ojs_init() {
    let messages = Messages::of(Path::new(env!("CARGO_MANIFEST_DIR")));
    let quoting = |table: &Table<'_>| {
        ["log says", "command says", "it says"]
            .iter()
            .any(|says| table.head[0].contains(says))
    };
    let tables: Vec<_> = PAGES.into_iter().flat_map(tables).filter(quoting).collect();
    let quoted: Vec<&str> = tables
        .iter()
        .flat_map(|table| table.rows.iter().flat_map(|row| code(row[0])))
        .collect();
    assert!(quoted.len() >= 95, "{}", quoted.len());
    let unknown: Vec<_> = quoted.into_iter().filter(|quote| !messages.has(quote)).collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn a_message_that_was_made_up_is_noticed() {
    let messages = Messages::of(Path::new(env!("CARGO_MANIFEST_DIR")));
    for quote in [
        "Job lost: its reservation is gone, and its outcome is not reported",
        "registration failed: the backend is asleep; next attempt in {time}",
        "backend {url}: there is nobody of this name",
        "{n} log records dropped: standard output is too slow",
        "several instances run there: {path}",
        "asked by the operator: asleep, taking no new jobs",
    ] {
        assert!(!messages.has(quote), "{quote}");
    }
}

#[test]
fn every_setting_that_is_named_exists() {
    let (_, help) = says(&[], &["run", "--help"]);
    let known = names(&help);
    for page in PAGES.into_iter().chain([MANIFESTS]) {
        let unknown: Vec<_> = names(page)
            .into_iter()
            .filter(|name| name != NO_SETTING && !known.contains(name))
            .collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}

/// Everything that looks like a variable of ours.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    let ours = words.filter(|word| word.starts_with("OJS_") && word.len() > "OJS_".len());
    ours.map(str::to_owned).collect()
}

#[test]
fn each_option_for_those_who_come_from_another_init_is_taken() {
    let is_migration = |table: &Table<'_>| matches!(table.head[0], "tini" | "dumb-init");
    let tables: Vec<_> = tables(PID_1).into_iter().filter(is_migration).collect();
    assert_eq!(tables.len(), 2);
    for span in tables
        .iter()
        .flat_map(|table| table.rows.iter().flat_map(|row| code(row[1])))
    {
        let span = span.replace("SIG", "TERM").replace("CMD", "true");
        let (variables, arguments): (Vec<&str>, Vec<&str>) = match span.strip_prefix("ojs-init ") {
            Some(arguments) => (Vec::new(), arguments.split(' ').collect()),
            None if span == "--version" => (Vec::new(), vec!["--version"]),
            None => {
                let (set, given): (Vec<_>, Vec<_>) = span.split(' ').partition(|word| word.contains('='));
                (set, [&["--no-agent"], &given[..], &["--", "true"]].concat())
            }
        };
        let variables: Vec<_> = variables.iter().filter_map(|pair| pair.split_once('=')).collect();
        let (is_good, said) = says(&variables, &arguments);
        assert!(is_good, "{span}: {said}");
    }
}

#[test]
fn the_times_of_the_manifests_are_among_the_worked_examples() {
    for manifest in [
        include_str!("../../../docker/kubernetes/base/deployment.yaml"),
        include_str!("../../../docker/kubernetes/components/long-jobs/deployment.yaml"),
    ] {
        let value = |name: &str| {
            let after = manifest.split_once(&format!("- name: {name}\n")).unwrap().1;
            after.lines().next().unwrap().trim().trim_start_matches("value: ")
        };
        let (grace, limit) = (
            value("OJS_SHUTDOWN_GRACE_PERIOD"),
            value("OJS_TERMINATION_GRACE_PERIOD"),
        );
        let example = format!("| `OJS_SHUTDOWN_GRACE_PERIOD={grace} OJS_TERMINATION_GRACE_PERIOD={limit}` |");
        assert!(GRACE_PERIOD.contains(&example), "{example}");
    }
}
