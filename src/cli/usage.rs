//! Answers to a wrong command line.

use std::ffi::OsString;

use super::{help, names};
use crate::config::keys::KEYS;
use crate::config::{Row, masked, most_alike};

/// Why the command line cannot be carried out: the whole message, without the name of the program
/// and without a line break at its end.
pub type UsageError = String;

/// The error if there is no COMMAND to supervise.
pub fn no_command() -> UsageError {
    with_usage("there is no COMMAND to supervise", RUN)
}

/// The cause alone, for a place that has one line.
pub fn without_usage(message: &str) -> &str {
    message.split("\n\n").next().unwrap_or(message)
}

/// A hint for a user whose program is not there because the word was meant for ojs-init.
pub fn slip(program: &str) -> &'static str {
    if names::names().any(|name| name == program) {
        "; it is a subcommand of ojs-init: where ENTRYPOINT ends with --, run it with --entrypoint /ojs-init"
    } else if program.starts_with('-') {
        "; options of ojs-init stand in front of --, in ENTRYPOINT, and each has a variable too"
    } else if program.contains(' ') {
        "; no shell takes it apart: write each word apart"
    } else {
        ""
    }
}

/// The usage of a command line that supervises COMMAND.
pub(super) const RUN: &[&str] = &[help::USAGE, help::RUN_USAGE];

/// The command line with its subcommand before its options, if this word behind them is one.
pub(super) fn with_subcommand_first(word: &str, args: &[OsString]) -> Option<Vec<OsString>> {
    let is_name = |arg: &OsString| arg.to_str().is_some_and(|arg| names::names().any(|name| name == arg));
    if args.first().is_none_or(is_name) {
        return None;
    }
    let position = args.iter().position(|arg| arg == word && is_name(arg))?;
    let (before, behind) = args.split_at(position);
    let (name, behind) = behind.split_first()?;
    Some([std::slice::from_ref(name), before, behind].concat())
}

/// The problem, and the usage of the subcommand that the command line begins with: for an instance
/// that runs, or for a job. One line for `job`: the last line on a job's standard error becomes the
/// message of its failure.
pub(super) fn of_order(args: &[OsString], problem: &str) -> Option<UsageError> {
    let name = args.first()?.to_str()?;
    let usage = names::usage(name)?;
    if name == names::JOB {
        let line = format!("{problem}; usage: {usage}");
        return Some(of_message(&line.split_whitespace().collect::<Vec<_>>().join(" ")));
    }
    Some(with_usage(problem, &[usage]))
}

/// The error for an option that no key has; `meant` is one that is like it.
pub(super) fn unknown_option(option: &str, meant: Option<&str>, args: &[OsString]) -> UsageError {
    let problem = |meant: Option<&str>| {
        let hint = meant.map(|meant| format!("; did you mean {meant}?"));
        format!("unknown option {option}{}", hint.unwrap_or_default())
    };
    of_order(args, &problem(meant))
        .unwrap_or_else(|| with_usage(&problem(flag_of_key(option).as_deref().or(meant)), RUN))
}

/// The option of a key that is spelled here as in the file: `--health-listen` for `health.listen`.
fn flag_of_key(option: &str) -> Option<String> {
    let spelled = |name: &str| name.replace(['.', '_'], "-");
    let name = spelled(option.trim_start_matches('-'));
    let is_it = |key: &&&'static Row| key.toml.is_some_and(|key| spelled(key) == name);
    let flag = KEYS.iter().find(is_it)?.flag?;
    Some(format!("--{flag}"))
}

/// The error for a negative number behind the option of a key, which is read as an option itself.
#[cfg(feature = "agent")]
pub(super) fn negative(option: &str, args: &[OsString]) -> Option<UsageError> {
    let is_number = option
        .strip_prefix('-')?
        .starts_with(|first: char| first.is_ascii_digit());
    let position = args.iter().position(|arg| arg.to_string_lossy().starts_with(option))?;
    let (flag, value) = (
        args.get(position.checked_sub(1)?)?.to_str()?,
        args[position].to_string_lossy(),
    );
    let name = flag.strip_prefix("--").filter(|_| is_number)?;
    let key = KEYS.iter().find(|key| key.flag == Some(name))?;
    let problem = format!(
        "{flag} needs a value, and {value:?} looks like an option; accepted: {}",
        key.accepted()
    );
    Some(of_order(args, &problem).unwrap_or_else(|| with_usage(&problem, RUN)))
}

/// The error for a word in the place of an option, a subcommand or `--`.
pub(super) fn stray(word: &str, args: &[OsString], parses: impl Fn(&[OsString]) -> bool) -> UsageError {
    if let Some(error) = of_order(args, &format!("unexpected word {word}")) {
        return error;
    }
    if let Some(meant) = most_alike(word, names::names()) {
        return with_usage(&format!("unknown subcommand {word}; did you mean {meant}?"), RUN);
    }
    let problem = match with_dashes(word, args, parses) {
        Some(line) => format!("{word} is no subcommand; to supervise it write `{line}`"),
        None => format!("unexpected word {word}; the value of a switch follows an equals sign: --subreaper=false"),
    };
    with_usage(&problem, RUN)
}

/// The command line with the `--` that was left out before this word, if it has none and that makes
/// it a good one.
fn with_dashes(word: &str, args: &[OsString], parses: impl Fn(&[OsString]) -> bool) -> Option<String> {
    if args.iter().any(|arg| arg == "--") {
        return None;
    }
    let repaired = |position: usize| {
        let (options, command) = args.split_at(position);
        [options, &["--".into()], command].concat()
    };
    let positions = (0..args.len()).filter(|position| args[*position].to_string_lossy() == word);
    let position = positions.into_iter().find(|position| parses(&repaired(*position)))?;
    // Neither the options nor COMMAND's arguments are repeated: there may be a secret among them.
    let options = if position == 0 { "" } else { "[OPTIONS] " };
    let arguments = if position + 1 == args.len() { "" } else { " [ARG]..." };
    Some(format!("ojs-init {options}-- {word}{arguments}"))
}

pub(super) fn with_usage(problem: &str, usage: &[&str]) -> UsageError {
    let usage = usage.join("\n       ");
    of_message(&format!("{problem}\n\nUsage: {usage}\n\nMore: ojs-init --help"))
}

/// A word of the command line may be a URL with a secret.
pub(super) fn of_message(text: &str) -> UsageError {
    let words = text.split_inclusive(char::is_whitespace);
    words.map(masked).collect()
}
