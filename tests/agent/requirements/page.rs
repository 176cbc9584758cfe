//! `docs/requirements.md` and what refers to it: the tests here and the comments in the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::stage::root;

/// Letters of rows that need no test of their own: the answers to open questions, which tests of
/// other rows show.
const SHOWN_BY_OTHERS: &str = "C-";

/// The ids of the rows of the page.
fn rows() -> BTreeSet<String> {
    rows_of_page("docs/requirements.md")
}

fn rows_of_page(page: &str) -> BTreeSet<String> {
    let page = fs::read_to_string(root().join(page)).unwrap();
    let first_cell = |line: &str| Some(line.strip_prefix("| ")?.split(" |").next()?.to_owned());
    let rows: Vec<String> = page.lines().filter_map(first_cell).filter(|cell| is_id(cell)).collect();
    let different: BTreeSet<String> = rows.iter().cloned().collect();
    assert_eq!(rows.len(), different.len(), "an id has two rows: {rows:?}");
    different
}

/// A letter and two digits (`P-11`, with its second half `P-11b`), a number of the website's list
/// (`W-3`), or an id of the Graceful Shutdown Specification (`GS-001`, `GS-R001`).
fn is_id(word: &str) -> bool {
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    match word.split_once('-') {
        Some(("GS", rest)) => digits(rest.strip_prefix('R').unwrap_or(rest), 3),
        Some(("W", rest)) => digits(rest, 1),
        Some((letter, rest)) => {
            let is_letter = letter.len() == 1 && letter.bytes().all(|byte| byte.is_ascii_uppercase());
            is_letter && digits(rest.strip_suffix('b').unwrap_or(rest), 2)
        }
        None => false,
    }
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The row that a function is named after: `fn l_08_...` is about L-08, `fn gs_r002_...` about
/// GS-R002.
fn row_of(line: &str) -> Option<String> {
    let mut parts = line.strip_prefix("fn ")?.splitn(3, '_');
    let (letters, number) = (parts.next()?.to_ascii_uppercase(), parts.next()?.replace('r', "R"));
    let id = format!("{letters}-{number}");
    (parts.next().is_some() && is_id(&id)).then_some(id)
}

/// The rows that have a test: functions right below `#[test]`.
fn tested() -> BTreeSet<String> {
    let mut tested = BTreeSet::new();
    for path in rust_files(&root().join("tests/agent/requirements")) {
        let text = fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let tests = lines.windows(2).filter(|pair| pair[0] == "#[test]");
        tested.extend(tests.filter_map(|pair| row_of(pair[1])));
    }
    tested
}

#[test]
fn a_row_is_found_by_the_name_of_its_test() {
    for (line, row) in [
        ("fn l_08_nothing_leads_back() {", Some("L-08")),
        ("fn p_11b_its_code() {", Some("P-11b")),
        ("fn w_3_what_is_left_fails() {", Some("W-3")),
        ("fn gs_001_sigterm() {", Some("GS-001")),
        ("fn gs_r002_a_second_sigterm() {", Some("GS-R002")),
        ("fn a_row_is_found() {", None),
        ("fn w_30_is_no_row() {", None),
    ] {
        assert_eq!(row_of(line).as_deref(), row, "{line}");
    }
}

#[test]
fn every_row_has_a_test_and_every_test_a_row() {
    let (rows, tested) = (rows(), tested());
    let needs_none = |id: &str| id.starts_with(SHOWN_BY_OTHERS);
    let untested: Vec<&String> = rows
        .iter()
        .filter(|id| !needs_none(id) && !tested.contains(*id))
        .collect();
    assert!(untested.is_empty(), "no test has the name of {untested:?}");
    let unknown: Vec<&String> = tested.difference(&rows).collect();
    assert!(unknown.is_empty(), "docs/requirements.md does not know {unknown:?}");
    assert!(tested.len() >= 120, "{tested:?}");
}

#[test]
fn every_row_that_the_code_or_another_page_refers_to_is_on_the_page() {
    // The duties of a backend are on the page of the one that plays it.
    let of_backends = rows_of_page("docs/devserver.md");
    assert!(of_backends.iter().all(|id| id.starts_with("B-")), "{of_backends:?}");
    let rows: BTreeSet<String> = rows().union(&of_backends).cloned().collect();
    let folders = ["crates", "src", "tests"];
    let mut files: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| rust_files(&root().join(folder)))
        .collect();
    let pages = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    files.extend(pages.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    let mut found = 0;
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        for id in text.split(|letter| !is_part(letter)).filter(|word| is_id(word)) {
            found += 1;
            assert!(
                rows.contains(id),
                "{}: {id} is not in docs/requirements.md or docs/devserver.md",
                path.display()
            );
        }
    }
    assert!(found > rows.len(), "only {found} references");
}
