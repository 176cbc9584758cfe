//! Which file needs which: every path of a file's code that leads to another file of the same
//! program.
//!
//! Unit tests and documentation are no needs. A `mod x;` is none either: who declares a file does
//! not use it yet.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Item, UseTree};

use crate::{CRATES, is_test_file};

/// A module, as its path from the crate's root, behind the crate's name.
pub type Module = Vec<String>;

/// A program's files and the paths in each.
#[derive(Debug)]
pub struct Program {
    files: BTreeMap<Module, PathBuf>,
    paths: BTreeMap<Module, BTreeSet<Vec<String>>>,
}

impl Program {
    /// Of these files, each with its name below the folder of its crate, and that below the crate's
    /// name.
    pub fn read(sources: Vec<(PathBuf, PathBuf)>) -> Self {
        let mut files = BTreeMap::new();
        for (name, path) in sources.into_iter().filter(|(_, path)| !is_test_file(path)) {
            let name = name.with_extension("");
            let mut module: Module = name.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            if module.last().is_some_and(|last| last == "mod") {
                module.pop();
            }
            // The roots declare modules, and need nothing.
            if !matches!(module.last().map(String::as_str), Some("main" | "lib")) {
                files.insert(module, path);
            }
        }
        let is_module = |module: &[String]| files.contains_key(module);
        let paths = files
            .iter()
            .map(|(module, path)| (module.clone(), paths_in(path, module, &is_module)))
            .collect();
        Self { files, paths }
    }

    /// The file of a module.
    pub fn file(&self, module: &Module) -> &Path {
        &self.files[module]
    }

    /// Every path in a file that leads to the program's own crates.
    pub fn paths(&self) -> impl Iterator<Item = (&Module, &Vec<String>)> {
        self.paths
            .iter()
            .flat_map(|(module, paths)| paths.iter().map(move |path| (module, path)))
    }

    /// For each file those that it needs.
    pub fn needs(&self) -> BTreeMap<&Module, BTreeSet<&Module>> {
        let mut needs: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
        for (module, path) in self.paths() {
            let of = needs.entry(module).or_default();
            if let Some(target) = self.owner(path).filter(|target| *target != module) {
                of.insert(target);
            }
        }
        needs
    }

    /// The file in which the longest beginning of this path ends.
    fn owner(&self, path: &[String]) -> Option<&Module> {
        let beginnings = (1..=path.len()).rev().filter_map(|length| path.get(..length));
        beginnings
            .map(<[String]>::to_vec)
            .find_map(|beginning| Some(self.files.get_key_value(&beginning)?.0))
    }
}

fn paths_in(file: &Path, module: &Module, is_module: &dyn Fn(&[String]) -> bool) -> BTreeSet<Vec<String>> {
    let parsed = syn::parse_file(&fs::read_to_string(file).unwrap()).unwrap();
    let mut found = BTreeSet::new();
    for item in parsed.items {
        let raw = if let Item::Use(used) = &item {
            if is_for_tests(&used.attrs) {
                Vec::new()
            } else {
                leaves(&used.tree)
            }
        } else if matches!(&item, Item::Mod(declared) if is_for_tests(&declared.attrs) || declared.content.is_none()) {
            Vec::new()
        } else {
            in_tokens(without_documentation(item.to_token_stream()))
        };
        found.extend(raw.into_iter().filter_map(|path| absolute(path, module, is_module)));
    }
    found
}

fn is_crate(name: &str) -> bool {
    CRATES.iter().any(|(known, _)| *known == name)
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    let is_test = |attribute: &Attribute| attribute.to_token_stream().to_string().replace(' ', "") == "#[cfg(test)]";
    attributes.iter().any(is_test)
}

/// Each path of a `use`, its braces taken apart.
pub fn leaves(tree: &UseTree) -> Vec<Vec<String>> {
    match tree {
        UseTree::Path(path) => {
            let before = |mut rest: Vec<String>| {
                rest.insert(0, path.ident.to_string());
                rest
            };
            leaves(&path.tree).into_iter().map(before).collect()
        }
        UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
        UseTree::Name(name) => vec![vec![name.ident.to_string()]],
        UseTree::Rename(rename) => vec![vec![rename.ident.to_string()]],
        UseTree::Glob(_) => vec![Vec::new()],
    }
}

/// Without attributes: documentation is one, and `pub(in path)` says who may see, not what is seen.
fn without_documentation(tokens: TokenStream) -> TokenStream {
    let mut kept: Vec<TokenTree> = Vec::new();
    for token in tokens {
        let last = kept.last().map(ToString::to_string);
        match (&token, last.as_deref()) {
            (TokenTree::Group(_), Some("#")) => {
                kept.pop();
            }
            (TokenTree::Group(_), Some("pub")) => {}
            (TokenTree::Group(group), _) => {
                let inner = without_documentation(group.stream());
                kept.push(TokenTree::Group(proc_macro2::Group::new(group.delimiter(), inner)));
            }
            _ => kept.push(token),
        }
    }
    kept.into_iter().collect()
}

/// Everything that is written `a::b::c`.
fn in_tokens(tokens: TokenStream) -> Vec<Vec<String>> {
    let (mut found, mut path, mut colons) = (Vec::new(), Vec::<String>::new(), 0);
    for token in tokens {
        match token {
            TokenTree::Ident(name) if colons == 2 || path.is_empty() => {
                path.push(name.to_string());
                colons = 0;
            }
            TokenTree::Punct(mark) if mark.as_char() == ':' && !path.is_empty() && colons < 2 => colons += 1,
            TokenTree::Ident(name) => {
                found.push(std::mem::replace(&mut path, vec![name.to_string()]));
                colons = 0;
            }
            TokenTree::Group(group) => {
                found.push(std::mem::take(&mut path));
                colons = 0;
                found.extend(in_tokens(group.stream()));
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {
                found.push(std::mem::take(&mut path));
                colons = 0;
            }
        }
    }
    found.push(path);
    found.retain(|path| path.len() > 1);
    found
}

/// The path behind the name of its crate; None where it leads to no crate of the program.
fn absolute(path: Vec<String>, module: &Module, is_module: &dyn Fn(&[String]) -> bool) -> Option<Vec<String>> {
    let first = path.first()?.as_str();
    if let Some(name) = first.strip_prefix("ojs_").filter(|name| is_crate(name)) {
        return Some(
            std::iter::once(name.to_owned())
                .chain(path[1..].iter().cloned())
                .collect(),
        );
    }
    match first {
        "crate" => {
            let own = module.first().filter(|name| is_crate(name));
            Some(own.into_iter().chain(&path[1..]).cloned().collect())
        }
        "self" => Some(module.iter().cloned().chain(path[1..].iter().cloned()).collect()),
        "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            let parent = module.get(..module.len().checked_sub(ups)?)?;
            Some(parent.iter().chain(&path[ups..]).cloned().collect())
        }
        _ => {
            let child: Vec<String> = module.iter().chain(path.first()).cloned().collect();
            is_module(&child).then(|| module.iter().cloned().chain(path).collect())
        }
    }
}
