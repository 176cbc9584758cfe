//! How much the parts of the machine know of each other, counted by calls: imports do not show a call of a method.
//!
//! A part is a folder of `src/lifecycle`. `machine.rs` stands above the parts and may call all of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{ImplItem, Item};

use crate::imports::leaves;
use crate::{is_test_file, root, rust_files};

/// The parts, none of which shall need another.
const PARTS: [&str; 5] = ["backend", "jobs", "shutdown", "view", "worker"];

/// The type whose methods stand in all parts.
const MACHINE: &str = "Lifecycle";

/// Calls from one part into another. The number may only fall, and ends at 0.
const CALLS_BETWEEN_PARTS: usize = 17;

/// Who defines the machine's methods, whose the types of its fields are, and what its methods say.
#[derive(Debug, Default)]
struct Machine {
    methods: BTreeMap<String, String>,
    fields: BTreeMap<String, String>,
    /// The inside of each method, with the part that it stands in.
    bodies: Vec<(String, TokenStream)>,
}

impl Machine {
    fn read(folder: &Path) -> Self {
        let mut machine = Self::default();
        for path in rust_files(folder).into_iter().filter(|path| !is_test_file(path)) {
            let relative = path.strip_prefix(folder).unwrap().with_extension("");
            let part = relative.iter().next().unwrap().to_string_lossy().into_owned();
            let file = syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap();
            let homes = homes(&file.items);
            for item in file.items {
                machine.take(&part, item, &homes);
            }
        }
        machine
    }

    fn take(&mut self, part: &str, item: Item, homes: &BTreeMap<String, String>) {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "most items hold neither fields nor methods of the machine"
        )]
        match item {
            Item::Struct(fields) if fields.ident == MACHINE => {
                for field in fields.fields {
                    if let Some(home) = homes.get(&field.ty.to_token_stream().to_string()) {
                        self.fields.insert(field.ident.unwrap().to_string(), home.clone());
                    }
                }
            }
            Item::Impl(block) if block.self_ty.to_token_stream().to_string() == MACHINE => {
                for item in block.items {
                    if let ImplItem::Fn(method) = item {
                        self.methods.insert(method.sig.ident.to_string(), part.to_owned());
                        self.bodies.push((part.to_owned(), method.block.to_token_stream()));
                    }
                }
            }
            _ => {}
        }
    }

    /// From which part into which other one, and what is called there: a method, or whatever a field has.
    fn calls(&self) -> BTreeMap<(&str, &str), Vec<String>> {
        let mut calls: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for (from, body) in &self.bodies {
            for name in after_self(body.clone()) {
                let to = self.methods.get(&name).or_else(|| self.fields.get(&name));
                let is_part = |part: &&String| PARTS.contains(&part.as_str());
                if let Some(to) = to
                    .filter(is_part)
                    .filter(|to| *to != from && PARTS.contains(&from.as_str()))
                {
                    calls.entry((from.as_str(), to.as_str())).or_default().push(name);
                }
            }
        }
        calls
    }
}

/// For each name that a file imports from a part, that part.
fn homes(items: &[Item]) -> BTreeMap<String, String> {
    let mut homes = BTreeMap::new();
    for item in items {
        if let Item::Use(used) = item {
            for path in leaves(&used.tree) {
                if let [_, lifecycle, part, .., name] = path.as_slice()
                    && lifecycle == "lifecycle"
                {
                    homes.insert(name.clone(), part.clone());
                }
            }
        }
    }
    homes
}

/// Every name that follows `self.`.
fn after_self(tokens: TokenStream) -> Vec<String> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut found = Vec::new();
    for window in tokens.windows(3) {
        if let [TokenTree::Ident(this), TokenTree::Punct(dot), TokenTree::Ident(name)] = window
            && this == "self"
            && dot.as_char() == '.'
        {
            found.push(name.to_string());
        }
    }
    for token in tokens {
        if let TokenTree::Group(group) = token {
            found.extend(after_self(group.stream()));
        }
    }
    found
}

#[test]
fn the_parts_of_the_machine_call_each_other_no_more_than_they_did() {
    let machine = Machine::read(&root().join("src/lifecycle"));
    let calls = machine.calls();
    let count: usize = calls.values().map(Vec::len).sum();
    let mut pairs: Vec<_> = calls
        .iter()
        .map(|(pair, names)| (names.len(), pair, counted(names)))
        .collect();
    pairs.sort_unstable_by(|one, other| other.cmp(one));
    assert!(
        count <= CALLS_BETWEEN_PARTS,
        "{count} calls between parts, more than {CALLS_BETWEEN_PARTS}: {pairs:#?}"
    );
    assert!(
        count == CALLS_BETWEEN_PARTS,
        "only {count} calls between parts are left: make that the new bound"
    );
}

/// How often each name is there, the most frequent first.
fn counted(names: &[String]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let counts = counts.into_iter().map(|(name, count)| format!("{name} {count}"));
    counts.collect::<Vec<_>>().join(", ")
}
