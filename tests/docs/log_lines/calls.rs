//! The texts of the warnings and errors that the binary can write, taken from its sources.
//!
//! A call that writes one has its text among its arguments, or in a constant that it names, or
//! elsewhere in its function. Where none of these has a text, the function
//! passes on a text of another function, which is a call itself or stands in `TEXTS`.

use std::fs;
use std::path::Path;

use crate::operating::messages::{literals, sources};

/// A call that writes a warning or an error, or makes a message for [`report`].
///
/// [`report`]: ojs_init::daemon::log::report::report
const CALLS: [&str; 24] = [
    "warn!(",
    "error!(",
    ".warn(",
    " warn(",
    " error(",
    "(warn(",
    "Level::Warn,",
    "Level::Warn)",
    "Level::Warn\n",
    "Level::Error,",
    "Level::Error\n",
    ".refuse(format_args!(",
    ".refuse(message)",
    "is_short_of(format_args!(",
    "Acceptor::new(",
    "Self::new(&format!(",
    "StartFailure::new(",
    "ConfigError::new(",
    "refused(\"",
    "refused(&format!(",
    "internal(",
    "failed(\"",
    "report(",
    "warnings.push(",
];

/// Lines of code that define or pass on, and write nothing.
const NO_CALLS: [&str; 2] = ["fn ", "//"];

/// The folder of the subcommands, which have no log: they write text to whoever called them.
const SUBCOMMANDS: &str = "src/commands/";

/// Functions with such a call and without a text: they pass on what others made.
const WITHOUT_TEXTS: [(&str, &str); 26] = [
    ("src/config/load.rs", "load_paths"),
    ("src/config/settings.rs", "offer"),
    ("src/daemon/acceptor.rs", "is_short_of"),
    ("src/daemon/acceptor.rs", "refuse"),
    ("src/daemon/acceptor.rs", "warn"),
    ("src/daemon/agent.rs", "failed"),
    ("src/daemon/agent.rs", "no_place"),
    ("src/daemon/exec.rs", "check"),
    ("src/daemon/exec.rs", "check_copies"),
    ("src/daemon/gateway/mod.rs", "new"),
    ("src/daemon/log/last_words.rs", "error"),
    ("src/daemon/log/narrate_jobs.rs", "died"),
    ("src/daemon/log/sink.rs", "fatal"),
    ("src/daemon/log/termination.rs", "open"),
    ("src/daemon/log/throttle.rs", "warn"),
    ("src/daemon/log/words.rs", "warn"),
    ("src/daemon/plain_loop.rs", "start"),
    ("src/daemon/plain_loop.rs", "tell_of_oom_kills"),
    ("src/daemon/prepare.rs", "install_log"),
    ("src/daemon/prepare.rs", "refuse"),
    ("src/daemon/rehearsal.rs", "run"),
    ("src/daemon/rehearsal.rs", "log"),
    ("src/main.rs", "dispatch"),
    ("src/runner/mod.rs", "failed"),
    ("src/runner/mod.rs", "run"),
    ("src/runner/mod.rs", "start"),
];

/// Files, or functions in them, whose every text is one of a warning or an error. Calls elsewhere
/// pass them on.
const TEXTS: [&str; 12] = [
    "crates/lifecycle/src/api/death.rs",
    "src/cli/usage.rs",
    "src/config/build.rs fn absent",
    "src/config/doubtful_times.rs",
    "src/config/environment.rs",
    "src/config/misspelt.rs",
    "src/config/of_others.rs",
    "src/daemon/backend/tls.rs",
    "src/daemon/log/remedy.rs",
    "src/daemon/log/termination.rs fn look",
    "src/daemon/plain_loop.rs fn out_of_memory",
    "src/daemon/runtime/base.rs",
];

/// Texts of such functions and files that are written at another level, or are parts of lines which
/// the pages show with other words in their place.
const OTHERS: [&str; 13] = [
    ", through the proxy {} ({})",
    "; 1 outcome waits",
    "; did you mean {}?",
    "[OPTIONS] ",
    "backend: {}{}",
    "child started with pid {}",
    "log record",
    "looking at",
    "looking up",
    "ojs-init runner/",
    "ojs-init {}-- {}{}",
    "{}; usage: {}",
    "{}nnUsage: {}nnMore: ojs-init --help",
];

/// Fewer letters than this could be anywhere.
const LETTERS_OF_A_TEXT: usize = 6;

/// A text of a warning or an error.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// With `{}` for what differs.
    pub text: String,
    /// The file and the function that have the text.
    pub place: String,
}

/// Every text of a warning or an error in the repository at `root`.
pub fn lines(root: &Path) -> Vec<Line> {
    let (mut found, mut without_texts) = (Vec::new(), Vec::new());
    for path in sources(&root.join("src")) {
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        if name.starts_with(SUBCOMMANDS) {
            continue;
        }
        let code = code(&fs::read_to_string(&path).unwrap());
        for (function, texts) in texts_of_calls(&code) {
            let place = format!("{name}, fn {function}");
            let is_passed_on = WITHOUT_TEXTS.contains(&(name.as_str(), function.as_str()));
            if texts.is_empty() && !is_passed_on {
                without_texts.push(place.clone());
            }
            found.extend(texts.into_iter().map(|text| Line {
                text,
                place: place.clone(),
            }));
        }
    }
    assert!(
        without_texts.is_empty(),
        "no texts, and not in WITHOUT_TEXTS: {without_texts:#?}"
    );
    for place in TEXTS {
        let texts = texts_of(root, place);
        found.extend(texts.into_iter().map(|text| Line {
            text,
            place: place.to_owned(),
        }));
    }
    found.retain(|line| !OTHERS.contains(&line.text.as_str()));
    found.sort();
    found.dedup_by(|one, other| one.text == other.text);
    found
}

/// The code up to the unit tests, without comments.
fn code(source: &str) -> String {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let lines = source.lines().take_while(|line| *line != "#[cfg(test)]");
    lines.filter(is_code).map(|line| format!("{line}\n")).collect()
}

/// The texts of a file, or of a function in it.
fn texts_of(root: &Path, place: &str) -> Vec<String> {
    let (file, function) = place.split_once(" fn ").unwrap_or((place, ""));
    let code = code(&fs::read_to_string(root.join(file)).unwrap());
    let begins = code.find(&format!("fn {function}(")).map(|at| at + "fn ".len());
    let function = begins.and_then(|at| function_of(&code, at));
    texts(function.map_or(code.as_str(), |function| function.body))
}

/// The texts of some code that are sentences, and not names. A row stands between backticks, so it
/// has none.
fn texts(code: &str) -> Vec<String> {
    let is_sentence = |text: &String| {
        let letters = text.chars().filter(|character| character.is_alphabetic()).count();
        text.contains(' ') && letters >= LETTERS_OF_A_TEXT
    };
    let literals = literals(code).into_iter().filter(is_sentence);
    literals.map(|text| text.replace('`', "")).collect()
}

/// For each call: the name of its function, and the texts that it may write.
fn texts_of_calls(code: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    let starts = CALLS.iter().flat_map(|call| {
        code.match_indices(call)
            .map(|(at, call)| at + call.trim_end_matches('"').len())
    });
    for start in starts {
        let line = line_of(code, start);
        if NO_CALLS.iter().any(|no| line.contains(no)) {
            continue;
        }
        let Some(Function { name, body, until_call }) = function_of(code, start) else {
            continue;
        };
        let call = arguments(&code[start..]);
        let statement = statement(until_call).unwrap_or(call);
        let nearest = [call, statement, body].map(|part| [texts(part), texts_of_constants(code, part)].concat());
        let texts = nearest.into_iter().find(|texts| !texts.is_empty()).unwrap_or_default();
        found.push((name.to_owned(), texts));
    }
    found
}

/// The last `let` before the end of the code, and what follows it.
fn statement(code: &str) -> Option<&str> {
    let mut lets = code.rmatch_indices("let ");
    let is_first = |at: usize| code[..at].trim_end_matches(' ').ends_with('\n');
    lets.find(|(at, _)| is_first(*at)).map(|(at, _)| &code[at..])
}

fn line_of(code: &str, at: usize) -> &str {
    let begins = code[..at].rfind('\n').map_or(0, |end| end + 1);
    code[begins..].lines().next().unwrap_or_default()
}

/// The function around a call.
struct Function<'a> {
    name: &'a str,
    body: &'a str,
    /// The part of it before the call.
    until_call: &'a str,
}

/// The function around this place. Its end is a brace with its own indentation, because the sources
/// are formatted.
fn function_of(code: &str, at: usize) -> Option<Function<'_>> {
    let begins = code[..at].rfind("fn ")?;
    let line = code[..begins].rfind('\n').map_or(0, |end| end + 1);
    let indentation = code[line..].len() - code[line..].trim_start().len();
    let end = format!("\n{}}}\n", &code[line..line + indentation]);
    let length = code[line..].find(&end)?;
    let name = code[begins + "fn ".len()..].split(['(', '<']).next()?;
    (line + length > at).then(|| Function {
        name,
        body: &code[line..line + length],
        until_call: &code[line..at],
    })
}

/// The code up to the bracket that closes the call.
fn arguments(code: &str) -> &str {
    let (mut depth, mut is_text, mut is_escaped) = (0, false, false);
    for (at, character) in code.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if is_text => is_escaped = true,
            '"' => is_text = !is_text,
            '(' | '[' | '{' if !is_text => depth += 1,
            ')' | ']' | '}' if !is_text && depth == 0 => return &code[..at],
            ')' | ']' | '}' if !is_text => depth -= 1,
            _ => {}
        }
    }
    code
}

/// The texts of the constants of the file that this part of it names.
fn texts_of_constants(code: &str, part: &str) -> Vec<String> {
    let constants = code
        .split("const ")
        .skip(1)
        .filter_map(|rest| rest.split_once(": &str ="));
    let is_named = |name: &str| {
        part.split(|character: char| !character.is_alphanumeric() && character != '_')
            .any(|word| word == name)
    };
    let named = constants.filter(|(name, _)| !name.contains(' ') && is_named(name));
    named
        .flat_map(|(_, value)| texts(value.split(";\n").next().unwrap_or_default()))
        .collect()
}
