//! Unsafe code stands in `crates/os` alone, and `unsafe_code.txt` names a test for each function
//! that has some. The reason of each block is its `// SAFETY:` comment, which clippy demands
//! (`undocumented_unsafe_blocks`).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{ImplItem, Item};

use crate::named_tests;
use crate::{is_test_file, root, rust_files, sources};

/// The crate that may have unsafe code.
const ALLOWED: &str = "os";

const HEAD: &str = "\
# Unsafe code of crates/os: file, function, how often `unsafe` stands in it, and a test that runs it.
# A new function or a new block gets its number and its test here by hand; the test exists.
";

/// How often a word stands in code, also within macros.
fn count(tokens: TokenStream, word: &str) -> usize {
    let of_one = |tree: TokenTree| match tree {
        TokenTree::Ident(ident) => usize::from(ident == word),
        TokenTree::Group(group) => count(group.stream(), word),
        TokenTree::Punct(_) | TokenTree::Literal(_) => 0,
    };
    tokens.into_iter().map(of_one).sum()
}

fn unsafe_of(part: &impl ToTokens) -> usize {
    count(part.to_token_stream(), "unsafe")
}

/// The functions of a file that have unsafe code, with how often the word stands in them. Code
/// outside of functions counts for its kind.
#[expect(clippy::wildcard_enum_match_arm, reason = "the grammar of Rust may grow")]
fn functions(items: &[Item], found: &mut BTreeMap<String, usize>) {
    for item in items {
        match item {
            Item::Fn(function) => note(function.sig.ident.to_string(), unsafe_of(function), found),
            Item::Impl(block) => {
                for part in &block.items {
                    match part {
                        ImplItem::Fn(function) => note(function.sig.ident.to_string(), unsafe_of(function), found),
                        other => note("constant".to_owned(), unsafe_of(other), found),
                    }
                }
                note("impl".to_owned(), usize::from(block.unsafety.is_some()), found);
            }
            Item::Mod(module) if module.attrs.iter().any(is_for_tests) => {}
            Item::Mod(module) => {
                let inner = module.content.as_ref().map(|(_, items)| items.as_slice());
                functions(inner.unwrap_or_default(), found);
            }
            Item::Macro(rules) => note("macro".to_owned(), unsafe_of(rules), found),
            other => note("item".to_owned(), unsafe_of(other), found),
        }
    }
}

fn is_for_tests(attribute: &syn::Attribute) -> bool {
    attribute.to_token_stream().to_string().replace(' ', "") == "#[cfg(test)]"
}

fn note(name: String, times: usize, found: &mut BTreeMap<String, usize>) {
    if times > 0 {
        *found.entry(name).or_default() += times;
    }
}

fn functions_of(path: &Path) -> BTreeMap<String, usize> {
    let file = syn::parse_file(&fs::read_to_string(path).unwrap()).unwrap();
    let mut found = BTreeMap::new();
    functions(&file.items, &mut found);
    found
}

#[test]
fn one_crate_alone_has_unsafe_code() {
    let programs = ["devserver/src", "bench/src", "packaging/src"];
    let others = programs.iter().flat_map(|folder| rust_files(&root().join(folder)));
    let others = others.map(|path| (path.clone(), path));
    for (name, path) in sources().into_iter().chain(others) {
        let may = name.starts_with(ALLOWED) || is_test_file(&path);
        assert!(
            may || functions_of(&path).is_empty(),
            "{} has unsafe code",
            path.display()
        );
    }
}

#[test]
fn each_function_with_unsafe_code_has_a_test() {
    let file = root().join("tests/tidy/unsafe_code.txt");
    let text = fs::read_to_string(&file).unwrap();
    let rows = text.lines().filter(|row| !row.starts_with('#'));
    let known: BTreeMap<(&str, &str), (usize, &str)> = rows
        .map(|row| {
            let words: Vec<&str> = row.split_whitespace().collect();
            ((words[0], words[1]), (words[2].parse().unwrap(), words[3]))
        })
        .collect();
    let tests = named_tests::all();
    let mut expected = HEAD.to_owned();
    let mut unknown = Vec::new();
    for (name, path) in sources() {
        if !name.starts_with(ALLOWED) || is_test_file(&path) {
            continue;
        }
        let name = name.strip_prefix(ALLOWED).unwrap().to_str().unwrap();
        for (function, times) in functions_of(&path) {
            let test = known.get(&(name, function.as_str())).map_or("?", |(_, test)| test);
            if !tests.contains(test) {
                unknown.push(format!("{name} {function}: {test}"));
            }
            writeln!(expected, "{name} {function} {times} {test}").unwrap();
        }
    }
    assert!(text == expected, "tests/tidy/unsafe_code.txt has to be:\n{expected}");
    assert!(unknown.is_empty(), "no test of this name: {unknown:#?}");
}
