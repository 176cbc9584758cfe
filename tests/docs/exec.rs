//! The pages on mode exec against the code: they name settings that there are, with their defaults,
//! and none of that mode is missing.

use std::collections::BTreeSet;

use ojs_init::config::keys::KEYS;

/// Has the table of times.
const PAGE: &str = include_str!("../../docs/exec.md");

const PAGES: [&str; 2] = [PAGE, include_str!("../../docs/exec-operating.md")];

/// The texts between backticks outside of blocks.
fn code() -> BTreeSet<&'static str> {
    let blocks = PAGES.iter().flat_map(|page| page.split("```").step_by(2));
    blocks.flat_map(|text| text.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn each_setting_of_mode_exec_is_explained() {
    let said = code();
    let has = |name: &str| {
        said.iter()
            .any(|code| *code == name || code.starts_with(&format!("{name} =")))
    };
    let named = |name: &str| has(name) || PAGES.iter().any(|page| page.contains(&format!("[{name}]")));
    let missing: Vec<&str> = KEYS
        .into_iter()
        .filter_map(|key| key.toml)
        .filter(|name| name.starts_with("exec.") && !named(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn each_setting_that_is_named_is_there() {
    let keys: BTreeSet<&str> = KEYS.into_iter().filter_map(|key| key.toml).collect();
    let sections = ["exec.", "worker.", "shutdown.", "backend.", "process."];
    let name = |code: &'static str| code.split(' ').next().unwrap_or_default();
    let unknown: Vec<&str> = code()
        .into_iter()
        .map(name)
        .filter(|name| sections.iter().any(|section| name.starts_with(section)) && !keys.contains(name))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn the_times_of_the_table_have_the_defaults_of_the_code() {
    let table = PAGE.split("| time | default |").nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut seen = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let Some(key) = KEYS
            .into_iter()
            .find(|key| key.toml.is_some_and(|name| cells[0] == format!("`{name}`")))
        else {
            continue;
        };
        assert_eq!(cells[1], key.default_text(), "{}", cells[0]);
        seen += 1;
    }
    assert!(seen >= 3, "{seen}");
}
