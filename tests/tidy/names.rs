//! A type's name has one meaning: within a program no two visible types share a name. A private
//! type is seen by one file only, so it may be called like another one.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use syn::{Item, Visibility};

use crate::{is_test_file, root, rust_files, sources};

/// Names that several visible types share, each with its reason. The list may only shrink.
const SHARED: [(&str, &str); 3] = [
    ("Context", "each part of the machine has one: what it decides with"),
    (
        "EndFacts",
        "each part that needs them has its own: the end, as far as it matters there",
    ),
    ("Said", "each part of the machine has one: what the router carries out"),
];

/// The files that define each visible type.
fn visible_types(files: &[PathBuf]) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in files.iter().filter(|path| !is_test_file(path)) {
        let file = syn::parse_file(&fs::read_to_string(path).unwrap()).unwrap();
        for name in file.items.iter().filter_map(visible_type) {
            let path = path.strip_prefix(root()).unwrap().display().to_string();
            found.entry(name).or_default().push(path);
        }
    }
    found
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the grammar of Rust may grow")]
fn visible_type(item: &Item) -> Option<String> {
    let (vis, name) = match item {
        Item::Enum(item) => (&item.vis, &item.ident),
        Item::Struct(item) => (&item.vis, &item.ident),
        Item::Trait(item) => (&item.vis, &item.ident),
        Item::Type(item) => (&item.vis, &item.ident),
        Item::Union(item) => (&item.vis, &item.ident),
        _ => return None,
    };
    (!matches!(vis, Visibility::Inherited)).then(|| name.to_string())
}

#[test]
fn no_two_visible_types_of_a_program_share_a_name() {
    let binary: Vec<PathBuf> = sources().into_iter().map(|(_, path)| path).collect();
    let mut shared: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for program in [binary, rust_files(&root().join("devserver/src"))] {
        shared.extend(visible_types(&program).into_iter().filter(|(_, files)| files.len() > 1));
    }
    let is_allowed = |name: &str| SHARED.iter().any(|(allowed, _)| *allowed == name);
    let new: Vec<_> = shared.iter().filter(|(name, _)| !is_allowed(name)).collect();
    let gone: Vec<_> = SHARED.iter().filter(|(name, _)| !shared.contains_key(*name)).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "give each type a name of its own: {new:#?}; take these out of the list: {gone:?}"
    );
}
