//! Tests that are left out. A test may be ignored only if another run starts it, so that no test is
//! forgotten. A test of a known defect has `#[should_panic(expected = "...")]` with the message of
//! the defect instead: it fails as soon as the defect is mended.

use std::collections::BTreeSet;
use std::fs;

use crate::{root, rust_files};

/// The reasons that there may be, each with the file that runs these tests and the words by which
/// it does.
const RUN_ELSEWHERE: [(&str, &str, &str); 2] = [
    ("the other tests start it", "tests/caller/main.rs", "\"--ignored\""),
    (
        "make test names the build without the agent",
        "Makefile",
        "--include-ignored plain:: faults:: log:: init_only::",
    ),
];

const FOLDERS: [&str; 6] = ["crates", "src", "tests", "devserver", "bench", "packaging"];

#[test]
fn a_test_is_ignored_only_for_a_reason_that_names_the_run_which_starts_it() {
    let mut reasons = BTreeSet::new();
    for path in FOLDERS.iter().flat_map(|folder| rust_files(&root().join(folder))) {
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines().filter(|line| line.trim_start().starts_with("#[ignore")) {
            let reason = line.split('"').nth(1).unwrap_or_default();
            let is_known = RUN_ELSEWHERE.iter().any(|(known, ..)| *known == reason);
            assert!(
                is_known,
                "{}: {line}: nothing runs this test. Run it always, or in a run of its own that tests/tidy/ignored.rs \
                 names. A test of a known defect has #[should_panic(expected = \"...\")] instead",
                path.display()
            );
            reasons.insert(reason.to_owned());
        }
    }
    for (reason, file, words) in RUN_ELSEWHERE {
        assert!(reasons.contains(reason), "no test has the reason {reason:?} any more");
        let text = fs::read_to_string(root().join(file)).unwrap();
        assert!(text.contains(words), "{file} does not run the tests of {reason:?}");
    }
}
