//! Each folder of the sources begins with a short essay: its purpose, its words, what it may use.
//! One sentence of it names the file to start with.

use std::fs;
use std::path::PathBuf;

use crate::{root, rust_files, sources};

/// Fewest and most lines of an essay.
const LINES: std::ops::RangeInclusive<usize> = 3..=25;

/// Begins the sentence on where to start.
const START: &str = "Start with ";

#[test]
fn each_folder_begins_with_an_essay_that_names_where_to_start() {
    let binary = sources().into_iter().map(|(_, path)| path);
    let files = binary.chain(rust_files(&root().join("devserver/src")));
    let heads: Vec<PathBuf> = files
        .filter(|path| path.ends_with("mod.rs") || path.ends_with("lib.rs"))
        .collect();
    assert!(heads.len() > 30, "{heads:?}");
    let mut broken = Vec::new();
    for path in heads {
        let text = fs::read_to_string(&path).unwrap();
        let essay: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        if !LINES.contains(&essay.len()) || !essay.join(" ").replace("//! ", "").contains(START) {
            broken.push(format!("{}: {} lines", path.display(), essay.len()));
        }
    }
    assert!(broken.is_empty(), "{LINES:?} lines with {START:?}: {broken:#?}");
}
