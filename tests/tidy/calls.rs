//! The parts of the machine know nothing of each other. Imports are held by the table in
//! docs/architecture.md. They do not show the call of a method, so no part may add methods to the
//! machine, which has all parts.

use std::fs;

use quote::ToTokens;
use syn::Item;

use crate::{root, rust_files};

/// The parts, none of which shall need another. `view` reads all of them.
const PARTS: [&str; 4] = ["backend", "jobs", "shutdown", "worker"];

/// The type that has all parts.
const MACHINE: &str = "Lifecycle";

#[test]
fn no_part_of_the_machine_can_call_another_one() {
    let mut found = Vec::new();
    for part in PARTS {
        let folder = root().join("crates/lifecycle/src").join(part);
        let files = rust_files(&folder);
        assert!(!files.is_empty(), "there is no part {part}");
        for path in files {
            let file = syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap();
            let is_of_machine = |item: &Item| matches!(item, Item::Impl(block) if block.self_ty.to_token_stream().to_string() == MACHINE);
            if file.items.iter().any(is_of_machine) {
                found.push(path);
            }
        }
    }
    assert!(
        found.is_empty(),
        "methods of the machine in one of its parts: {found:?}"
    );
}
