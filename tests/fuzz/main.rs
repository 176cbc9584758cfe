//! The fuzz targets of `fuzz/src`, with the files of `fuzz/corpus`: what broke a promise once, and
//! what reaches the code behind it. `make fuzz` looks for more.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a target that does not find what it expects has found a mistake"
)]

#[path = "../../fuzz/src/lib.rs"]
mod targets;

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use targets::TARGETS;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz").join(name)
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[test]
fn every_target_keeps_its_promises_for_each_file_of_its_corpus() {
    let mut broken = Vec::new();
    for (name, target) in TARGETS {
        let corpus = folder("corpus").join(name);
        let files = names(&corpus);
        assert!(!files.is_empty(), "{name} has no corpus");
        for file in files {
            let bytes = fs::read(corpus.join(&file)).unwrap();
            if catch_unwind(|| target(&bytes)).is_err() {
                broken.push(format!("fuzz/corpus/{name}/{file}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_target_has_a_binary_and_a_corpus_and_nothing_else_has_one() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let binaries = names(&folder("fuzz_targets"));
    let binaries = binaries.iter().map(|file| file.trim_end_matches(".rs").to_owned());
    assert_eq!(binaries.collect::<BTreeSet<_>>(), targets);
    assert_eq!(names(&folder("corpus")), targets);
    let manifest = fs::read_to_string(folder("Cargo.toml")).unwrap();
    for target in targets {
        assert!(
            manifest.contains(&format!("path = \"fuzz_targets/{target}.rs\"")),
            "{target}"
        );
    }
}
