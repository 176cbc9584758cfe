//! The table of docs/system-calls.md: which call each mode makes in which phase.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::strace::Names;
use crate::stage::root;

/// The phases, as their letters on the page.
pub const START: char = 'S';
pub const IDLE: char = 'I';
pub const JOB: char = 'J';
pub const END: char = 'E';
/// The whole run of a subcommand.
pub const RUN: char = 'R';

/// The letters of a cell, in this order.
const LETTERS: [char; 5] = [START, IDLE, JOB, END, RUN];

/// The columns behind the name of the call.
const MODES: [&str; 5] = ["none", "socket", "gateway", "exec", "subcommands"];

/// The end of a message.
const RENEW: &str = "docs/system-calls.md does not have. If they are meant, allow them in packaging/seccomp/ojs-init.json \
    and renew the page: UPDATE_GOLDEN=1 BINARY_UNDER_TEST=... cargo test --locked --test agent kernel::";

/// Renewals, one after the other: each test writes its column.
static RENEWAL: Mutex<()> = Mutex::new(());

/// The phases of each mode in which a call is made, by the call's name.
type Table = BTreeMap<String, BTreeMap<String, BTreeSet<char>>>;

fn page() -> PathBuf {
    root().join("docs/system-calls.md")
}

fn head() -> String {
    format!(
        "| call | {} |\n|---{}|\n",
        MODES.join(" | "),
        "|---".repeat(MODES.len())
    )
}

/// The text before the table, and the table.
fn read() -> (String, Table) {
    let text = std::fs::read_to_string(page()).unwrap();
    let (before, rows) = text.split_once(&head()).expect("the page has no table of calls");
    let mut table = Table::new();
    for row in rows.lines() {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let name = cells.next().unwrap_or_default().trim_matches('`').to_owned();
        let modes = MODES.iter().zip(cells).filter(|(_, cell)| !cell.is_empty());
        let modes = modes.map(|(mode, cell)| ((*mode).to_owned(), cell.chars().collect()));
        table.insert(name, modes.collect());
    }
    (before.to_owned(), table)
}

/// Every call of the table.
pub fn calls() -> Names {
    read().1.into_keys().collect()
}

/// Most runs of a mode. A call that is on the page for another mode or phase counts only if each of
/// them makes it. On a busy machine a connection is made anew, and a phase sees the end of the one
/// before it.
const RUNS: usize = 3;

/// Compares the calls of a mode with the table. With UPDATE_GOLDEN it adds them. Which calls a
/// phase makes is in part chance, so no run shows that one is made no more.
pub fn holds(mode: &str, phases: &[char], run: fn() -> Vec<Names>) {
    let is_renewed = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut always_new: Option<Names> = None;
    for _ in 0..RUNS {
        let seen = run();
        assert_eq!(phases.len(), seen.len());
        let _alone = is_renewed.then(|| RENEWAL.lock().unwrap_or_else(PoisonError::into_inner));
        let (before, mut table) = read();
        let known: Names = table.keys().cloned().collect();
        let new = add(&mut table, mode, phases, &seen);
        if is_renewed {
            return write(before, &table);
        }
        let unknown: Names = seen
            .into_iter()
            .flatten()
            .filter(|name| !known.contains(name))
            .collect();
        assert!(unknown.is_empty(), "{mode} calls {unknown:?}, which {RENEW}");
        let still_new = match always_new {
            Some(before) => before.intersection(&new).cloned().collect(),
            None => new,
        };
        if still_new.is_empty() {
            return;
        }
        always_new = Some(still_new);
    }
    panic!("{mode} calls {always_new:?}, which {RENEW}");
}

/// Adds the calls of each phase to the table; those that it did not have.
fn add(table: &mut Table, mode: &str, phases: &[char], seen: &[Names]) -> Names {
    let mut new = Names::new();
    for (phase, names) in phases.iter().zip(seen) {
        assert!(!names.is_empty(), "{mode}: strace has seen nothing in phase {phase}");
        for name in names {
            let modes = table.entry(name.clone()).or_default();
            if modes.entry(mode.to_owned()).or_default().insert(*phase) {
                new.insert(format!("{name} in phase {phase}"));
            }
        }
    }
    new
}

fn write(before: String, table: &Table) {
    let mut text = before + &head();
    for (name, modes) in table {
        write!(text, "| `{name}` |").unwrap();
        for mode in MODES {
            let phases = modes.get(mode);
            let letters: String = LETTERS
                .iter()
                .filter(|letter| phases.is_some_and(|phases| phases.contains(letter)))
                .collect();
            let cell = if letters.is_empty() {
                String::new()
            } else {
                format!(" {letters}")
            };
            write!(text, "{cell} |").unwrap();
        }
        text.push('\n');
    }
    std::fs::write(page(), text).unwrap();
}
