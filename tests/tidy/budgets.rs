//! Budgets: the lines of code of each module and the bytes of the release binaries. A module may
//! grow by 3 %. A larger change comes with a new number in `budgets.txt`, in the same commit, so
//! that growth is a decision and not an accident.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::{code, is_test_file, root, sources};

/// Most growth of a module or of the binary without a new number, in percent.
const MAX_GROWTH: usize = 3;

/// Most that a module may shrink without a new number, in percent. Below it the number no longer
/// holds anything.
const MAX_SLACK: usize = 10;

/// The variables that name the release binaries, with the names of their budgets.
pub const BINARIES: [(&str, &str); 2] = [("BINARY_UNDER_TEST", "binary"), ("INIT_ONLY", "binary-init")];

/// The modules that are counted apart. The rest of a crate is a module under the crate's own name.
const MODULES: [&str; 14] = [
    "lifecycle/api",
    "lifecycle/backend",
    "lifecycle/jobs",
    "lifecycle/router",
    "lifecycle/shutdown",
    "lifecycle/view",
    "lifecycle/worker",
    "daemon/backend",
    "daemon/gateway",
    "daemon/log",
    "daemon/probes",
    "daemon/runtime",
    "daemon/traces",
    "daemon/workers",
];

#[test]
fn no_module_grows_by_more_than_3_percent_without_a_new_budget() {
    let lines = lines_by_module();
    let budgets = budgets();
    let mut broken = Vec::new();
    for (module, lines) in &lines {
        let budget = budgets.get(module.as_str()).copied().unwrap_or(0);
        let most = budget * (100 + MAX_GROWTH) / 100;
        let least = budget * (100 - MAX_SLACK) / 100;
        if !(least..=most).contains(lines) {
            broken.push(format!("{module}: {lines} lines of code, budget {budget}"));
        }
    }
    let is_known = |module: &&String| {
        let is_binary = BINARIES.iter().any(|(_, name)| name == module);
        lines.contains_key(*module) || is_binary
    };
    let unknown: Vec<&String> = budgets.keys().filter(|module| !is_known(module)).collect();
    assert!(
        broken.is_empty() && unknown.is_empty(),
        "change tests/tidy/budgets.txt in the same commit and say why: {broken:#?}; budgets of no module: {unknown:?}"
    );
}

/// Runs where `make test` names the release binaries.
#[test]
fn a_release_binary_grows_by_no_more_than_3_percent_without_a_new_budget() {
    for (variable, name) in BINARIES {
        let Some(binary) = std::env::var_os(variable) else {
            continue;
        };
        let bytes = usize::try_from(fs::metadata(binary).unwrap().len()).unwrap();
        let budget = budgets()[name];
        assert!(
            bytes <= budget * (100 + MAX_GROWTH) / 100,
            "{name} has {bytes} bytes, its budget in tests/tidy/budgets.txt is {budget}"
        );
    }
}

/// Each page that tells users how large the binaries are, with its words around the two numbers.
/// They are those of the budgets, which a binary may exceed a little.
const PAGES: [(&str, &str); 6] = [
    ("README.md", "| size on disk | {} MB |"),
    ("README.md", "the plain init alone, {init} MB"),
    ("docs/comparison.md", "| {} MB static (a) |"),
    ("docs/comparison.md", "| {init} MB static (a) |"),
    ("docs/comparison.md", "{} MB ({init} MB [without the agent]"),
    ("docs/plain-init.md", "{init} MB in place of {} MB"),
];

#[test]
fn the_pages_say_how_large_the_binaries_are() {
    let budgets = budgets();
    #[expect(clippy::cast_precision_loss, reason = "some megabytes")]
    let megabytes = |name: &str| format!("{:.1}", budgets[name] as f64 / 1e6);
    for (page, words) in PAGES {
        let words = words
            .replace("{init}", &megabytes("binary-init"))
            .replace("{}", &megabytes("binary"));
        let text = fs::read_to_string(root().join(page)).unwrap();
        assert!(text.contains(&words), "{page} does not say {words:?}");
    }
}

/// Lines of code without blank lines, comments and tests.
fn lines_by_module() -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    for (name, path) in sources() {
        if is_test_file(&path) || path.ends_with("test_support.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let count = code(&text).filter(|(_, line)| !line.trim().is_empty()).count();
        *lines.entry(module(&name)).or_default() += count;
    }
    lines
}

fn module(name: &Path) -> String {
    let apart = MODULES.iter().find(|module| name.starts_with(module));
    let first = || name.iter().next().unwrap().to_string_lossy().into_owned();
    apart.map_or_else(first, |module| (*module).to_owned())
}

/// `budgets.txt`: a name and a number on each line, comments behind `#`.
fn budgets() -> BTreeMap<String, usize> {
    let text = fs::read_to_string(root().join("tests/tidy/budgets.txt")).unwrap();
    let rows = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|line| {
        let (name, number) = line.split_once(' ').unwrap();
        (name.to_owned(), number.trim().parse().unwrap())
    })
    .collect()
}
