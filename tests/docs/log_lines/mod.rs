//! docs/log-lines.md and docs/start-errors.md against the code, in both directions: every warning
//! and every error that the binary can write has a row, and every row is one of them.

mod calls;

use std::path::Path;

use crate::operating::messages::{Messages, without_names};
use calls::{Line, lines};

const PAGES: [&str; 2] = [
    include_str!("../../../docs/log-lines.md"),
    include_str!("../../../docs/start-errors.md"),
];

/// Fewer rows than this are a sign that the pages were not read.
const LEAST_ROWS: usize = 150;

/// Letters that a row may have beside the texts of the code, as in `(exit {n})`.
const MOST_LETTERS_LEFT: usize = 6;

/// The messages in the first cells of all tables, as they stand on the page.
fn rows() -> Vec<&'static str> {
    let rows = PAGES.iter().flat_map(|page| page.lines());
    let cells = rows.filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    cells.flat_map(|cell| cell.split('`').step_by(2)).collect()
}

/// Whether the row has every piece of this text, in this order.
fn has(row: &str, text: &str) -> bool {
    let mut rest = row;
    text.split("{}").all(|piece| {
        let found = rest.find(piece);
        rest = found.map_or("", |at| &rest[at + piece.len()..]);
        found.is_some()
    })
}

/// Whether little is left of the row without these texts. The longest go first.
fn is_made_of(row: &str, lines: &[Line]) -> bool {
    let mut texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
    let mut rest = row.to_owned();
    for text in texts.into_iter().filter(|text| has(row, text)) {
        for piece in text.split("{}").filter(|piece| !piece.is_empty()) {
            rest = rest.replacen(piece, "{}", 1);
        }
    }
    rest.chars().filter(|character| character.is_alphabetic()).count() < MOST_LETTERS_LEFT
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_warning_and_error_of_the_code_has_a_row() {
    let rows: Vec<String> = rows().into_iter().map(without_names).collect();
    assert!(rows.len() >= LEAST_ROWS, "{}", rows.len());
    let is_missing = |line: &Line| !rows.iter().any(|row| has(row, &line.text));
    let missing: Vec<Line> = lines(root()).into_iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "no row for these texts: {missing:#?}");
}

#[test]
fn every_row_is_a_warning_or_an_error_of_the_code() {
    let (lines, messages) = (lines(root()), Messages::of(root()));
    let is_made_up = |row: &&str| {
        let shown = without_names(row);
        let is_one = lines.iter().any(|line| has(&shown, &line.text));
        !is_one || !(messages.has(row) || is_made_of(&shown, &lines))
    };
    let made_up: Vec<&str> = rows().into_iter().filter(is_made_up).collect();
    assert!(made_up.is_empty(), "the code writes none of these: {made_up:#?}");
}

#[test]
fn no_message_has_two_rows() {
    let mut rows: Vec<String> = rows().into_iter().map(without_names).collect();
    rows.sort();
    let twice: Vec<_> = rows.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:#?}");
}
