//! Whether a message is one that ojs-init writes: by docs/log-records.md, which another test holds
//! against the code, and by the texts in the sources.

use std::fs;
use std::path::{Path, PathBuf};

/// Fewer letters than this could be anywhere.
const LETTERS_OF_A_TEMPLATE: usize = 6;

/// Templates within templates: `{request} failed: {why}`.
const MOST_LEVELS: u32 = 3;

/// Messages that ojs-init can write.
pub struct Messages {
    /// With `{}` for what differs.
    templates: Vec<String>,
    /// The texts of each source file, one after the other.
    files: Vec<String>,
}

impl Messages {
    /// Those of the repository at `root`.
    pub fn of(root: &Path) -> Self {
        let mut templates = Vec::new();
        let mut files = Vec::new();
        for folder in ["values", "lifecycle", "wire", "os"].map(|name| format!("crates/{name}/src")) {
            read(&root.join(folder), &mut templates, &mut files);
        }
        read(&root.join("src"), &mut templates, &mut files);
        let page = fs::read_to_string(root.join("docs/log-records.md")).unwrap();
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
        templates.extend(rows.filter_map(|row| row.split('`').next()).map(without_names));
        Self { templates, files }
    }

    /// Whether it says so. `{…}` in a quotation stands for what differs.
    pub fn has(&self, quote: &str) -> bool {
        let quote = without_names(quote);
        self.is_made_of_templates(&quote, 0) || self.is_in_one_file(&quote)
    }

    fn is_made_of_templates(&self, text: &str, level: u32) -> bool {
        let is_any = |template: &String| {
            is_telling(template)
                && captures(template, text)
                    .is_some_and(|parts| parts.iter().all(|part| self.is_explained(part, level + 1)))
        };
        level < MOST_LEVELS && self.templates.iter().any(is_any)
    }

    /// The text in the place of something that differs.
    fn is_explained(&self, part: &str, level: u32) -> bool {
        let rest = part.replace("{}", "");
        let is_open = !rest.chars().any(char::is_alphabetic);
        let is_signal = part.starts_with("SIG") && part.chars().all(|character| character.is_ascii_uppercase());
        let is_within = || self.templates.iter().any(|template| template.contains(part));
        is_open || is_signal || is_within() || self.is_made_of_templates(part, level)
    }

    /// Texts that are put together in one place: every piece is there, in this order.
    fn is_in_one_file(&self, quote: &str) -> bool {
        let in_order = |file: &String| {
            let mut rest = file.as_str();
            quote.split("{}").all(|piece| {
                let found = rest.find(piece);
                rest = found.map_or("", |at| &rest[at + piece.len()..]);
                found.is_some()
            })
        };
        is_telling(quote) && self.files.iter().any(in_order)
    }
}

fn is_telling(template: &str) -> bool {
    let letters = template
        .replace("{}", "")
        .chars()
        .filter(|character| character.is_alphabetic())
        .count();
    letters >= LETTERS_OF_A_TEMPLATE
}

/// The texts in place of each `{}` of the template, if the text is one of it.
fn captures<'a>(template: &str, text: &'a str) -> Option<Vec<&'a str>> {
    let mut pieces = template.split("{}");
    let mut rest = text.strip_prefix(pieces.next()?)?;
    let mut parts = Vec::new();
    let mut pieces = pieces.peekable();
    while let Some(piece) = pieces.next() {
        let at = match pieces.peek() {
            Some(_) => rest.find(piece)?,
            None => rest.len() - rest.strip_suffix(piece).map(|_| piece.len())?,
        };
        parts.push(&rest[..at]);
        rest = &rest[at + piece.len()..];
    }
    rest.is_empty().then_some(parts)
}

/// `{time}` becomes `{}`.
pub fn without_names(text: &str) -> String {
    let mut kept = String::new();
    let mut is_inside = false;
    for character in text.chars() {
        is_inside = character == '{' || (is_inside && character != '}');
        if !is_inside || character == '{' {
            kept.push(character);
        }
    }
    kept
}

/// Reads the texts of every source file in this folder.
fn read(folder: &Path, templates: &mut Vec<String>, files: &mut Vec<String>) {
    for path in sources(folder) {
        let texts: Vec<String> = literals(&fs::read_to_string(path).unwrap());
        files.push(texts.concat());
        templates.extend(texts);
    }
}

/// Every source file in this folder that is no test.
pub fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.to_string_lossy().ends_with("_tests.rs")
        {
            found.push(path);
        }
    }
    found
}

/// The texts between quotation marks, up to the unit tests, as they are at run time but for `{}`.
pub fn literals(source: &str) -> Vec<String> {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let lines = source
        .lines()
        .take_while(|line| *line != "#[cfg(test)]")
        .filter(is_code);
    // A quotation mark as a character begins no text.
    let code = lines.collect::<Vec<_>>().join("\n").replace("'\"'", "");
    let mut found = Vec::new();
    let mut characters = code.chars();
    while characters.by_ref().any(|character| character == '"') {
        let mut text = String::new();
        while let Some(character) = characters.next().filter(|character| *character != '"') {
            match (character, character == '\\') {
                (_, true) => match characters.next() {
                    // A line that goes on: its indentation does not count.
                    Some('\n') => {
                        let indented = characters.as_str().trim_start();
                        characters = indented.chars();
                    }
                    Some(escaped) => text.push(escaped),
                    None => {}
                },
                (character, false) => text.push(character),
            }
        }
        found.push(without_names(&text));
    }
    found
}
