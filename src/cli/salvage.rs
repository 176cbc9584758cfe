//! The way to report an error of a command line that cannot be parsed, or whose configuration has a
//! mistake.

use std::ffi::OsString;

use super::names;
use crate::config::keys::{CONFIG_FILE, LOG_FORMAT, TERMINATION_LOG};
use crate::config::{Flags, Row};

/// The keys that decide where and how an error is reported.
static REPORTING: [&Row; 3] = [&LOG_FORMAT.row, &TERMINATION_LOG.row, &CONFIG_FILE.row];

/// The intent of a command line, as far as one can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// COMMAND was to be supervised.
    Run,
    /// A subcommand that supervises nothing.
    Other,
    /// A first word that is neither an option nor a subcommand.
    Unclear,
}

/// Finds the intent of this command line.
pub fn intent(args: &[OsString]) -> Intent {
    let first = args.get(1).and_then(|word| word.to_str());
    match first {
        None | Some("run") => Intent::Run,
        Some(word) if supervises_nothing(word) => Intent::Other,
        Some(word) if word.starts_with('-') => {
            let mut options = before_command(args);
            if options.any(|word| word.to_str().is_some_and(supervises_nothing)) {
                Intent::Other
            } else {
                Intent::Run
            }
        }
        Some(_) => Intent::Unclear,
    }
}

/// Whether this is a subcommand, and not `run`.
fn supervises_nothing(word: &str) -> bool {
    word != "run" && names::names().any(|name| name == word)
}

/// The flags that decide where and how to report, wherever they stand before COMMAND.
pub fn reporting_flags(args: &[OsString]) -> Flags {
    let mut flags = Flags::default();
    let mut words = before_command(args).peekable();
    while let Some(word) = words.next() {
        let Some(word) = word.to_str().and_then(|word| word.strip_prefix("--")) else {
            continue;
        };
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(OsString::from(value))),
            None => (word, None),
        };
        let key = REPORTING.into_iter().find(|key| key.flag == Some(name));
        if let Some(key) = key
            && let Some(value) = value.or_else(|| words.peek().map(|next| (*next).clone()))
        {
            flags.push(key, vec![value]);
        }
    }
    flags
}

/// The words before COMMAND, as far as it begins with `--`.
fn before_command(args: &[OsString]) -> impl Iterator<Item = &OsString> {
    args.iter().skip(1).take_while(|word| *word != "--")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_subcommand_that_supervises_nothing_is_told_from_a_command_line_that_was_to_run() {
        for line in [
            "ojs-init",
            "ojs-init --concurency 3 -- status",
            "ojs-init -- quiet",
            "ojs-init run --nonsense",
        ] {
            assert_eq!(intent(&words(line)), Intent::Run, "{line}");
        }
        for line in ["ojs-init status --nonsense", "ojs-init --config x config check"] {
            assert_eq!(intent(&words(line)), Intent::Other, "{line}");
        }
        assert_eq!(intent(&words("ojs-init python3 worker.py")), Intent::Unclear);
    }

    #[test]
    fn every_subcommand_is_known_here() {
        let all = super::super::command::full();
        let mut names: Vec<&str> = all.get_subcommands().map(clap::Command::get_name).collect();
        names.push("help");
        names.sort_unstable();
        let mut known: Vec<&str> = names::names().collect();
        known.sort_unstable();
        assert_eq!(names, known);
    }

    #[test]
    fn only_flags_before_the_command_tell_where_to_report() {
        let of = |key: &'static Row, value: &str| {
            let mut flags = Flags::default();
            flags.push(key, vec![value.into()]);
            flags
        };
        let line = words("ojs-init --nonsense --format json -- x --format text");
        assert_eq!(reporting_flags(&line), of(&LOG_FORMAT, "json"));
        let line = words("ojs-init --termination-log=/log --format");
        assert_eq!(reporting_flags(&line), of(&TERMINATION_LOG, "/log"));
    }
}
