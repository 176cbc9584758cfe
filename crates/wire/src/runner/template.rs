//! Commands with placeholders: `{id}`, `{type}`, `{args.0}`, `{args.1.path}`. Each is replaced
//! within its own word of the command, so no value is split into several words, and none is read by
//! a shell.
//!
//! ```
//! use ojs_wire::runner::frames::JobFacts;
//! use ojs_wire::runner::template::Template;
//!
//! let command = ["ffmpeg", "-i", "{args.0}", "out-{id}.webm"].map(Into::into);
//! let job = JobFacts { id: "7".to_owned(), args: Some(r#"["in put.mp4"]"#), ..JobFacts::default() };
//! let words = Template::read(&command).unwrap().fill(&job).unwrap();
//! assert_eq!(words, ["ffmpeg", "-i", "in put.mp4", "out-7.webm"]);
//! ```

use std::ffi::{OsStr, OsString};

use crate::runner::arguments::Path;
use crate::runner::frames::JobFacts;
use crate::runner::guard;

/// Longest word of a command that the kernel accepts, in bytes, its NUL byte not counted
/// (`MAX_ARG_STRLEN`).
pub const MOST_WORD_BYTES: usize = (128 << 10) - 1;

/// The placeholders, for a person.
pub const ACCEPTED: &str = "{id}, {type}, {args.0} and so on, {args.0.name} for a part of an argument";

/// The names of placeholders, before a dot, a bracket or the closing brace: those that exist, and
/// names that people try.
const MEANT: [&str; 16] = [
    "args",
    "arg",
    "argv",
    "argument",
    "arguments",
    "params",
    "id",
    "ids",
    "job",
    "job_id",
    "jobid",
    "type",
    "types",
    "kind",
    "queue",
    "attempt",
];

/// A command with its placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Word>);

/// One word of it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    Fixed(OsString),
    Filled(Vec<Piece>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Placeholder { spelled: String, value: Value },
}

/// The value behind a placeholder.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Id,
    Type,
    Argument(Path),
}

impl Template {
    /// Reads a command.
    ///
    /// # Errors
    ///
    /// A word looks like a placeholder and is none, or a placeholder is at a place where its value
    /// would run as a program. The text is for a person.
    pub fn read(command: &[OsString]) -> Result<Self, String> {
        let words = command
            .iter()
            .map(|word| read(word))
            .collect::<Result<Vec<Word>, String>>()?;
        let is_filled = |word: &Word| matches!(word, Word::Filled(pieces) if pieces.iter().any(Piece::is_placeholder));
        if words.first().is_some_and(is_filled) {
            return Err("a placeholder in the name of the program; a job may not choose which program runs".to_owned());
        }
        for (number, _) in words.iter().enumerate().filter(|(_, word)| is_filled(word)) {
            if let Some(program) = guard::runs(command, number) {
                return Err(format!(
                    "a placeholder where {program} takes a program to run; a job could run anything with it; give the value as an \
                     argument instead, as in [\"sh\", \"-c\", \"echo \\\"$1\\\"\", \"sh\", \"{{args.0}}\"]; a literal brace is \
                     written {{{{"
                ));
            }
        }
        Ok(Self(words))
    }

    /// The program's name in the command.
    pub fn program(&self) -> OsString {
        match self.0.first() {
            Some(Word::Fixed(word)) => word.clone(),
            Some(Word::Filled(pieces)) => pieces.iter().map(Piece::text).collect::<String>().into(),
            None => OsString::new(),
        }
    }

    /// The words for this job.
    ///
    /// # Errors
    ///
    /// A value is missing, or cannot be a word of a command; for a person.
    pub fn fill(&self, job: &JobFacts<'_>) -> Result<Vec<OsString>, String> {
        self.0.iter().map(|word| fill(word, job)).collect()
    }
}

/// The place of a command in the configuration, for a person: the route of this pattern, or
/// COMMAND.
pub fn command_name(pattern: Option<&str>) -> String {
    pattern.map_or_else(|| "COMMAND".to_owned(), |pattern| format!("exec.routes {pattern:?}"))
}

/// Whether this can be a word of a command.
///
/// # Errors
///
/// Why not, for a person.
pub fn check_word(word: &str) -> Result<(), String> {
    if word.contains('\0') {
        return Err("holds a NUL byte, which no argument of a program can".to_owned());
    }
    if word.len() > MOST_WORD_BYTES {
        return Err(format!(
            "makes an argument of {} bytes; the kernel takes 128 KiB; read it from standard input (exec.input)",
            word.len()
        ));
    }
    Ok(())
}

impl Piece {
    fn is_placeholder(&self) -> bool {
        matches!(self, Self::Placeholder { .. })
    }

    fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Placeholder { spelled: text, .. } => text,
        }
    }
}

fn fill(word: &Word, job: &JobFacts<'_>) -> Result<OsString, String> {
    let pieces = match word {
        Word::Fixed(word) => return Ok(word.clone()),
        Word::Filled(pieces) => pieces,
    };
    let mut filled = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Placeholder { spelled, value } => {
                let value = match value {
                    Value::Id => Some(job.id.clone()),
                    Value::Type => Some(job.kind.clone()),
                    Value::Argument(path) => job.args.and_then(|args| path.find(args)),
                };
                filled.push_str(&value.ok_or_else(|| format!("{spelled} has no value: the job has no such argument"))?);
                check_word(&filled).map_err(|why| format!("{spelled} {why}"))?;
            }
        }
    }
    check_word(&filled)?;
    Ok(filled.into())
}

fn read(word: &OsStr) -> Result<Word, String> {
    let Some(mut rest) = word.to_str().filter(|word| word.contains('{')) else {
        return Ok(Word::Fixed(word.to_owned()));
    };
    let (mut pieces, mut text) = (Vec::new(), String::new());
    while let Some((before, inner)) = rest.split_once('{') {
        text.push_str(before);
        rest = inner;
        if let Some(escaped) = inner.strip_prefix('{').filter(|escaped| is_meant(escaped)) {
            let (literal, behind) = escaped.split_once('}').unwrap_or((escaped, ""));
            let is_closed = escaped.len() > literal.len();
            text.push('{');
            text.push_str(literal);
            text.push_str(if is_closed { "}" } else { "" });
            // Users of other template languages write `{{id}}`.
            rest = behind.strip_prefix('}').unwrap_or(behind);
        } else if text.ends_with('$') || !is_meant(inner) {
            text.push('{');
        } else {
            let (spelled, behind) = inner.split_once('}').ok_or_else(|| {
                let begun = inner.split_whitespace().next().unwrap_or_default();
                wrong(begun, "has no closing brace")
            })?;
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(placeholder(spelled)?);
            rest = behind;
        }
    }
    text.push_str(rest);
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(Word::Filled(pieces))
}

fn placeholder(inner: &str) -> Result<Piece, String> {
    let value = match inner {
        "id" => Value::Id,
        "type" => Value::Type,
        other => {
            let path = other.strip_prefix("args.").ok_or_else(|| wrong_name(inner))?;
            Value::Argument(path.parse().map_err(|why| wrong(&format!("{inner}}}"), why))?)
        }
    };
    let spelled = format!("{{{inner}}}");
    Ok(Piece::Placeholder { spelled, value })
}

fn wrong_name(inner: &str) -> String {
    wrong(&format!("{inner}}}"), "is no placeholder")
}

fn wrong(inner: &str, why: &str) -> String {
    format!("{{{inner} {why}; accepted are {ACCEPTED}; for the text itself write {{{{{inner}")
}

/// Whether the text behind an opening brace is meant as a placeholder.
fn is_meant(inner: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name = inner.split(|c| !is_name(c)).next().unwrap_or_default();
    let next = inner.strip_prefix(name).and_then(|rest| rest.chars().next());
    let name = name.to_ascii_lowercase();
    !name.is_empty()
        && matches!(next, None | Some('.' | '[' | '}'))
        && (MEANT.contains(&name.as_str()) || is_slip(&name, "args") || is_slip(&name, "type"))
}

/// Whether two words differ by one letter, or by two that have changed places.
fn is_slip(one: &str, other: &str) -> bool {
    let without = |word: &str, at: usize| -> String {
        word.chars()
            .enumerate()
            .filter(|(index, _)| *index != at)
            .map(|(_, c)| c)
            .collect()
    };
    let shorter = |long: &str, short: &str| (0..long.len()).any(|at| without(long, at) == short);
    let (one_length, other_length) = (one.len(), other.len());
    if one_length == other_length {
        let differing: Vec<_> = one.chars().zip(other.chars()).filter(|(a, b)| a != b).collect();
        return matches!(differing.as_slice(), [_])
            || matches!(differing.as_slice(), [(a, b), (c, d)] if a == d && b == c);
    }
    (one_length == other_length + 1 && shorter(one, other)) || (one_length + 1 == other_length && shorter(other, one))
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
