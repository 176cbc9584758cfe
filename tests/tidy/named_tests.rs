//! Tests that pages and tables name as a proof: each of them has to exist.

use std::collections::BTreeSet;
use std::fs;

use crate::{root, rust_files};

/// The folders that have tests.
const FOLDERS: [&str; 6] = ["crates", "src", "tests", "devserver", "bench", "packaging"];

/// The fewest words in the name of a test. A shorter word in a table may be anything.
const FEWEST_WORDS: usize = 4;

/// The names of all tests: functions below `#[test]`, the names of the programs that run a list of
/// their own, and the cases of `conformance`.
pub fn all() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in FOLDERS.iter().flat_map(|folder| rust_files(&root().join(folder))) {
        let text = fs::read_to_string(&path).unwrap();
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            is_test |= line == "#[test]";
            if is_test && let Some((_, rest)) = line.split_once("fn ") {
                found.extend(rest.split('(').next().map(str::to_owned));
                is_test = false;
            }
        }
        let cases = text.lines().filter_map(|line| line.trim().strip_prefix("case!("));
        found.extend(cases.filter_map(|case| case.split(',').next()).map(str::to_owned));
        let is_list = text.contains("[(&str, fn())");
        let listed = text.split('"').skip(1).step_by(2).filter(|_| is_list);
        found.extend(listed.filter(|word| is_name(word)).map(str::to_owned));
    }
    found
}

/// Whether a word could be the name of a test.
fn is_name(word: &str) -> bool {
    let is_of_a_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    word.split('_').count() >= FEWEST_WORDS && word.bytes().all(is_of_a_name)
}

/// The names of tests in a page: words of this form between backticks.
fn named(page: &str) -> Vec<&str> {
    page.split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| is_name(word))
        .collect()
}

#[test]
fn each_promise_of_the_page_on_security_names_a_test_that_exists() {
    let page = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let tests = all();
    let mut promises = 0;
    let mut is_promise = false;
    for row in page.lines() {
        is_promise = (is_promise && row.starts_with('|')) || row == "| promise | test |";
        if is_promise && !row.starts_with("| promise") && !row.starts_with("|---") {
            promises += 1;
            assert!(!named(row).is_empty(), "no test shows: {row}");
        }
    }
    assert!(promises >= 40, "{promises} promises");
    let unknown: Vec<&str> = named(&page).into_iter().filter(|name| !tests.contains(*name)).collect();
    assert!(
        unknown.is_empty(),
        "SECURITY.md names tests that do not exist: {unknown:#?}"
    );
}

#[test]
fn a_test_is_found_by_its_attribute_and_in_the_list_of_a_program() {
    let tests = all();
    for name in [
        "a_test_is_found_by_its_attribute_and_in_the_list_of_a_program",
        "a_worker_below_dockers_own_init_drains_as_well",
    ] {
        assert!(tests.contains(name), "{name}");
    }
    assert!(!tests.contains("some_test_that_does_not_exist"));
}
