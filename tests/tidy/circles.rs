//! No two files need each other, not even by way of others: each can be read after those that it
//! needs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::imports::{Module, Program};
use crate::{root, rust_files, sources};

type Needs<'a> = BTreeMap<&'a Module, BTreeSet<&'a Module>>;

/// A file, those that it needs, and so on, until one needs the first: the shortest such way.
fn circle<'a>(needs: &Needs<'a>, start: &'a Module) -> Option<Vec<&'a Module>> {
    let mut came_from: BTreeMap<&Module, &Module> = BTreeMap::new();
    let mut reached = std::collections::VecDeque::from([start]);
    while let Some(file) = reached.pop_front() {
        for &next in needs.get(file).into_iter().flatten() {
            if next == start {
                let mut way = vec![file];
                while let Some(before) = came_from.get(way[way.len() - 1]) {
                    way.push(before);
                }
                way.reverse();
                return Some(way);
            }
            if !came_from.contains_key(next) {
                came_from.insert(next, file);
                reached.push_back(next);
            }
        }
    }
    None
}

fn circles_of(files: &Program) -> Vec<Vec<String>> {
    let needs = files.needs();
    let name = |module: &&Module| files.file(module).strip_prefix(root()).unwrap().display().to_string();
    let ways = needs.keys().filter_map(|start| circle(&needs, start));
    ways.map(|way| way.iter().map(name).collect()).collect()
}

#[test]
fn no_two_files_of_the_sources_need_each_other() {
    let circles = circles_of(&Program::read(sources()));
    assert!(
        circles.is_empty(),
        "each needs the next, the last one the first: {circles:#?}"
    );
}

#[test]
fn no_two_files_of_the_development_server_need_each_other() {
    let folder = root().join("devserver/src");
    let named = |path: PathBuf| (path.strip_prefix(&folder).unwrap().to_owned(), path);
    let circles = circles_of(&Program::read(rust_files(&folder).into_iter().map(named).collect()));
    assert!(
        circles.is_empty(),
        "each needs the next, the last one the first: {circles:#?}"
    );
}

#[test]
fn a_circle_is_found_and_a_chain_is_none() {
    let module = |name: &str| vec![name.to_owned()];
    let (a, b, c) = (module("a"), module("b"), module("c"));
    let chain: Needs<'_> = [(&a, [&b, &c].into()), (&b, [&c].into())].into();
    assert_eq!(circle(&chain, &a), None);
    let ring: Needs<'_> = [(&a, [&b].into()), (&b, [&c].into()), (&c, [&a].into())].into();
    assert_eq!(circle(&ring, &a), Some(vec![&a, &b, &c]));
}
