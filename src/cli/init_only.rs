//! The command line of a build without the agent: `lean` reads all of it, so clap is not linked.

use std::ffi::OsString;

use super::command_line::CommandLine;
use super::lean::{self, Mistake};
use super::usage::{RUN, UsageError, of_message, stray, unknown_option, with_subcommand_first, with_usage};
use super::{help, names};
use crate::config::keys::KEYS;
use crate::config::{absent, most_alike};

/// The subcommands of this build.
const SUBCOMMANDS: [&str; 3] = ["run", "config", "help"];

/// Reads the command line; the first argument is the program's name.
///
/// # Errors
/// The message for standard error; exit status 2.
pub fn parse(args: &[OsString]) -> Result<CommandLine, UsageError> {
    let args = args.get(1..).unwrap_or_default();
    let first = args.first().and_then(|word| word.to_str()).unwrap_or_default();
    if first == "help" {
        let of = args.get(1).and_then(|word| word.to_str()).unwrap_or_default();
        return Ok(CommandLine::Print(help_of(of)));
    }
    if !SUBCOMMANDS.contains(&first) && names::names().any(|name| name == first) {
        return Err(of_message(&absent(&format!("the subcommand {first}"))));
    }
    match lean::parse(args) {
        // Many write the options first: `ojs-init --config FILE config check`.
        Err(Mistake::Stray(word)) => match with_subcommand_first(&word, args) {
            Some(args) => parse(&[&["ojs-init".into()], &args[..]].concat()),
            None => answer(Mistake::Stray(word), args),
        },
        result => result.or_else(|mistake| answer(mistake, args)),
    }
}

/// Help, the version, or the error about a mistake.
fn answer(mistake: Mistake, args: &[OsString]) -> Result<CommandLine, UsageError> {
    let first = args.first().and_then(|word| word.to_str()).unwrap_or_default();
    let problem = match mistake {
        Mistake::UnknownOption(option) if ["-h", "--help"].contains(&option.as_str()) => {
            return Ok(CommandLine::Print(help_of(first)));
        }
        Mistake::UnknownOption(option) if ["-V", "--version"].contains(&option.as_str()) => {
            let version = concat!("ojs-init ", env!("CARGO_PKG_VERSION"), " (init only)\n");
            return Ok(CommandLine::Print(version.to_owned()));
        }
        Mistake::UnknownOption(option) if is_of_the_worker(&option) => {
            return Err(of_message(&absent(&format!("the option {option}"))));
        }
        Mistake::UnknownOption(option) => {
            let known = lean::flagged().filter_map(|key| key.flag);
            let meant = most_alike(option.trim_start_matches('-'), known).map(|flag| format!("--{flag}"));
            return Err(unknown_option(&option, meant.as_deref(), args));
        }
        Mistake::Stray(word) if first == "config" => {
            format!("unexpected word {word}; accepted behind config: check, show")
        }
        Mistake::Stray(word) => return Err(stray(&word, args, |args| lean::parse(args).is_ok())),
        Mistake::NoValue(key) => {
            let (flag, accepted) = (key.flag.unwrap_or_default(), key.accepted());
            format!("--{flag} needs a value; accepted: {accepted}")
        }
        Mistake::Valued(key) => {
            let flag = key.flag.unwrap_or_default();
            format!("--{flag} takes no value; repeat it for more")
        }
        Mistake::Twice(key) => {
            let flag = key.flag.unwrap_or_default();
            format!("--{flag} cannot be used multiple times")
        }
    };
    Err(with_usage(&problem, RUN))
}

/// Whether the full build has the option.
fn is_of_the_worker(option: &str) -> bool {
    let flag = option.strip_prefix("--");
    flag.is_some() && KEYS.iter().any(|key| key.flag == flag)
}

/// The help of a subcommand, else the first screen.
fn help_of(subcommand: &str) -> String {
    match subcommand {
        "run" => help::of_all(help::RUN_USAGE),
        "config" => help::of_all(help::CONFIG_USAGE),
        _ => help::TOP.to_owned(),
    }
}
