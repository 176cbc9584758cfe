//! The pages as a whole: every link between them leads somewhere, and none is too long to search.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Most lines of a page below `docs`.
const MAX_LINES: usize = 250;

/// Tables that a reader searches and does not read.
const TABLES: [&str; 2] = ["docs/requirements.md", "docs/benchmarks.md"];

/// Where pages are, besides the root.
const FOLDERS: [&str; 9] = [
    "docs",
    "docker",
    "clients",
    "examples",
    "tests",
    "bench",
    "devserver",
    "crates",
    "fuzz",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every page of the repository.
fn pages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let is_page = |path: &Path| path.extension().is_some_and(|extension| extension == "md");
    let entries = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|name| root().join(name)).collect();
    while let Some(folder) = folders.pop() {
        for path in entries(&folder) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !path.is_symlink() && !["node_modules", "target", "vendor"].contains(&&*name) {
                folders.push(path);
            } else if is_page(&path) {
                found.push(path);
            }
        }
    }
    found.extend(entries(root()).into_iter().filter(|path| is_page(path)));
    found.sort();
    found
}

/// The lines of a page outside of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The targets of the links of a page.
fn links(text: &str) -> Vec<String> {
    let text = prose(text).collect::<Vec<_>>().join("\n");
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets
        .filter(|target| !target.contains([' ', '\n', ':']))
        .map(str::to_owned)
        .collect()
}

/// The places of a page that a link can name, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in prose(text).filter(|line| line.starts_with('#')) {
        let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
        let words: String = line.trim_start_matches('#').trim().chars().filter(kept).collect();
        let anchor = words.to_lowercase().replace(' ', "-");
        let again = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone())
            .chain(again)
            .find(|it| !found.contains(it));
        found.extend(free);
    }
    found
}

#[test]
fn each_link_between_pages_leads_to_a_file_and_a_heading() {
    let pages = pages();
    let mut seen = 0;
    let mut broken = Vec::new();
    for page in &pages {
        for link in links(&fs::read_to_string(page).unwrap()) {
            seen += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match path {
                "" => page.clone(),
                path => page.parent().unwrap().join(path),
            };
            let is_there = target.exists()
                && (anchor.is_empty() || anchors(&fs::read_to_string(&target).unwrap()).contains(anchor));
            if !is_there {
                broken.push(format!("{}: {link}", page.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(seen >= 400, "{seen} links in {} pages", pages.len());
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn each_page_can_be_read_in_one_sitting_and_is_in_the_index() {
    let index = links(&fs::read_to_string(root().join("docs/README.md")).unwrap());
    for page in pages() {
        let name = page.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        let Some(below) = name.strip_prefix("docs/").filter(|below| !below.contains('/')) else {
            continue;
        };
        let lines = fs::read_to_string(&page).unwrap().lines().count();
        assert!(
            lines <= MAX_LINES || TABLES.contains(&&*name),
            "{name}: {lines} lines, {MAX_LINES} allowed: split it by what a reader wants to do"
        );
        assert!(
            below == "README.md" || index.iter().any(|link| link == below),
            "docs/README.md does not list {name}"
        );
    }
}

#[test]
fn each_page_of_the_repository_is_a_page_of_the_site() {
    let book = Path::new(env!("CARGO_TARGET_TMPDIR")).join("site");
    let mut stage = Command::new("python3");
    stage.arg(root().join("scripts/site/stage.py")).arg(&book);
    let output = stage.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary = links(&fs::read_to_string(book.join("src/SUMMARY.md")).unwrap());
    let chapters: BTreeSet<&str> = summary.iter().map(String::as_str).collect();
    assert_eq!(chapters.len(), summary.len(), "a chapter is listed twice");
    let mut missing = Vec::new();
    for page in pages() {
        let name = page.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        let chapter = name.replace("README.md", "index.md");
        if !chapters.contains(&*chapter) || !book.join("src").join(&chapter).exists() {
            missing.push(name);
        }
    }
    assert!(missing.is_empty(), "no page of the site links to {missing:?}");
}
