//! A lint for comments and pages: what a program can see of plain English. `prose.txt` has the
//! number of findings that each folder still has. A number may only fall, and it falls in the
//! commit that mends the finding.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::root;

/// Most words of a sentence.
const MAX_WORDS: usize = 35;

/// Most columns of a line of prose.
const MAX_COLUMNS: usize = 100;

/// A comment or a paragraph that begins with one of these does not name its subject.
const VAGUE: [&str; 8] = [
    "Who ",
    "What ",
    "Whoever ",
    "Whatever ",
    "Whose ",
    "It ",
    "They ",
    "The same ",
];

/// Words of a comment on a field that add nothing to its name.
const FILLERS: [&str; 8] = ["a", "an", "its", "of", "our", "the", "this", "their"];

/// The folders whose sources and pages are read.
const FOLDERS: [&str; 9] = [
    "crates",
    "src",
    "devserver",
    "bench",
    "fuzz",
    "packaging",
    "tests",
    "docs",
    "examples",
];

#[test]
fn no_folder_has_more_findings_of_the_prose_lint_than_before() {
    let found = findings();
    let text = fs::read_to_string(root().join("tests/tidy/prose.txt")).unwrap();
    let rows = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let known: BTreeMap<&str, usize> = rows
        .map(|row| row.split_once(' ').unwrap())
        .map(|(folder, number)| (folder, number.parse().unwrap()))
        .collect();
    let folders = found.keys().map(String::as_str).chain(known.keys().copied());
    let mut broken = BTreeMap::new();
    for folder in folders {
        let places = found.get(folder).map_or(&[][..], Vec::as_slice);
        let allowed = known.get(folder).copied().unwrap_or(0);
        if places.len() > allowed {
            broken.insert(
                folder,
                format!("{} findings, {allowed} allowed: {places:#?}", places.len()),
            );
        } else if places.len() < allowed {
            broken.insert(
                folder,
                format!("write {} in tests/tidy/prose.txt: it may only fall", places.len()),
            );
        }
    }
    for (folder, reason) in &broken {
        eprintln!("{folder}: {reason}");
    }
    assert!(broken.is_empty(), "{:?}", broken.keys());
}

/// Every finding, with its file and line, by the folder that it counts for.
fn findings() -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut files: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "SECURITY.md"]
        .iter()
        .map(|name| root().join(name))
        .collect();
    for folder in FOLDERS {
        collect(&root().join(folder), &mut files);
    }
    for path in files {
        let name = path.strip_prefix(root()).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        let blocks = if is_rust { comments(&text) } else { paragraphs(&text) };
        let places: Vec<String> = blocks.iter().flat_map(|block| look(block, name)).collect();
        if !places.is_empty() {
            found.entry(folder(name)).or_default().extend(places);
        }
    }
    found
}

/// The name in `prose.txt` of the folder that a file counts for.
fn folder(name: &Path) -> String {
    let parts: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
    let depth = match &*parts[0] {
        "crates" => 4,
        "src" => 3,
        _ => 2,
    };
    let depth = depth.min(parts.len() - 1).max(1);
    parts[..depth].join("/")
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_ours = |name: &str| name != "node_modules" && name != "target";
        if path.is_dir() {
            if is_ours(&path.file_name().unwrap().to_string_lossy()) {
                collect(&path, files);
            }
        } else if path
            .extension()
            .is_some_and(|extension| extension == "rs" || extension == "md")
        {
            files.push(path);
        }
    }
    files.sort();
}

/// A comment or a paragraph.
struct Block {
    /// Of its first line, from 1.
    line: usize,
    /// Without the marks of the comment.
    lines: Vec<String>,
    /// The field that it stands above.
    field: Option<String>,
    /// Columns of its longest line, with everything before it.
    columns: usize,
}

fn comments(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    let mut is_code = false;
    let mut mark = "";
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let found = ["//! ", "/// ", "// "]
            .into_iter()
            .find(|mark| trimmed.starts_with(mark));
        let Some(found) = found else {
            if let (true, Some(block)) = (is_open, blocks.last_mut()) {
                block.field = field(trimmed);
            }
            is_open = false;
            continue;
        };
        if !is_open || mark != found {
            blocks.push(Block {
                line: index + 1,
                lines: Vec::new(),
                field: None,
                columns: 0,
            });
        }
        is_open = true;
        mark = found;
        let words = &trimmed[found.len()..];
        is_code ^= words.starts_with("```");
        if is_code || words.starts_with('|') || words.starts_with("```") {
            continue;
        }
        let block = blocks.last_mut().unwrap();
        block.lines.push(words.to_owned());
        block.columns = block.columns.max(line.chars().count());
    }
    blocks
}

/// The field that a line declares: `pub name: Type,`.
fn field(line: &str) -> Option<String> {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let (name, rest) = line.split_once(": ")?;
    let is_name = |name: &str| name.chars().all(|it| it.is_ascii_lowercase() || it == '_');
    (is_name(name) && rest.ends_with(',')).then(|| name.to_owned())
}

fn paragraphs(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") {
            is_code = !is_code;
        }
        let is_indented_code = !is_open && line.starts_with("    ");
        let is_prose = !is_code
            && !is_indented_code
            && !trimmed.is_empty()
            && !trimmed.starts_with(['|', '#', '<', '`', '[', '!']);
        if !is_prose {
            is_open = false;
            continue;
        }
        let is_item = ["- ", "* ", "1. "].iter().any(|mark| trimmed.starts_with(mark));
        if !is_open || is_item {
            blocks.push(Block {
                line: index + 1,
                lines: Vec::new(),
                field: None,
                columns: 0,
            });
        }
        is_open = true;
        let block = blocks.last_mut().unwrap();
        block.lines.push(trimmed.trim_start_matches(['-', '*', ' ']).to_owned());
        block.columns = block.columns.max(line.chars().count());
    }
    blocks
}

fn look(block: &Block, name: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut note = |what: &str| found.push(format!("{}:{}: {what}", name.display(), block.line));
    let text = block.lines.join(" ");
    if VAGUE.iter().any(|word| text.starts_with(word)) {
        note("its first word names no subject");
    }
    let words = |sentence: &str| sentence.split_whitespace().count();
    let sentences = text.split_inclusive(". ");
    if sentences.map(words).any(|count| count > MAX_WORDS) {
        note("a sentence of more than 35 words");
    }
    if block.columns > MAX_COLUMNS {
        note("a line of more than 100 columns");
    }
    if block.field.as_ref().is_some_and(|field| repeats(&text, field)) {
        note("it says what the field's name says");
    }
    found
}

/// Whether every word of the comment stands in the field's name already.
fn repeats(text: &str, field: &str) -> bool {
    let words = text
        .split(|it: char| !it.is_alphanumeric())
        .filter(|word| !word.is_empty());
    let mut words = words
        .map(str::to_lowercase)
        .filter(|word| !FILLERS.contains(&word.as_str()));
    words.all(|word| field.split('_').any(|part| part == word))
}

#[test]
fn prose_lint_finds_what_it_is_for() {
    let long = ["word"; 36].join(" ");
    let text = format!(
        "/// It waits.\nfn a() {{}}\n/// The jobs.\npub jobs: Jobs,\n// {long}\nlet a = 1;\n// {}\nlet b = 1;\n/// Closes it.\nx",
        "y".repeat(98)
    );
    let found: Vec<String> = comments(&text)
        .iter()
        .flat_map(|block| look(block, Path::new("a.rs")))
        .collect();
    assert_eq!(
        found,
        [
            "a.rs:1: its first word names no subject",
            "a.rs:3: it says what the field's name says",
            "a.rs:5: a sentence of more than 35 words",
            "a.rs:5: a line of more than 100 columns",
            "a.rs:7: a line of more than 100 columns",
        ]
    );
    let page = "They run.\n\n```\nIt is code\n```\n| What | is a table |\n\n- What is a row\n  goes on\n";
    let found: Vec<usize> = paragraphs(page)
        .iter()
        .flat_map(|block| look(block, Path::new("a.md")).into_iter().map(|_| block.line))
        .collect();
    assert_eq!(found, [1, 8]);
}
