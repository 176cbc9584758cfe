//! The clap definitions, for every command line that `lean` does not read: subcommands, help and
//! mistakes.

use std::ffi::OsString;

use clap::builder::{EnumValueParser, PossibleValuesParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;

use super::command_line::CommandLine;
use super::usage::{UsageError, no_command, with_subcommand_first};
use super::{clap_error, flags, help, lean, names, subcommands};
use crate::config::Row;

/// The argument for COMMAND and its arguments.
const COMMAND: &str = "COMMAND";

/// The argument of `config`.
const ACTION: &str = "ACTION";

/// The argument of `completions`.
const SHELL: &str = "SHELL";

/// Reads the command line; the first argument is the program's name.
///
/// # Errors
/// The message for standard error; exit status 2.
pub fn parse(args: &[OsString]) -> Result<CommandLine, UsageError> {
    let args = args.get(1..).unwrap_or_default();
    if let Ok(parsed) = lean::parse(args) {
        return Ok(parsed);
    }
    // Many write the options first: `ojs-init --config FILE config check`.
    match read_full(args) {
        Err(Some(error)) => match clap_error::word(&error).and_then(|word| with_subcommand_first(word, args)) {
            Some(args) => parse_full(&args),
            None => Err(in_our_words(Some(error), args)),
        },
        result => result.map_err(|error| in_our_words(error, args)),
    }
}

/// Reads any command line whose subcommand, if there is one, stands before its options.
///
/// # Errors
/// The message for standard error.
fn parse_full(args: &[OsString]) -> Result<CommandLine, UsageError> {
    read_full(args).map_err(|error| in_our_words(error, args))
}

/// Like [`parse_full`], with the error of clap. `None`: there is no COMMAND to supervise.
fn read_full(args: &[OsString]) -> Result<CommandLine, Option<clap::Error>> {
    match full().try_get_matches_from(args) {
        Ok(matches) => command_line(matches).ok_or(None),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            Ok(CommandLine::Print(error.render().to_string()))
        }
        Err(error) => Err(Some(error)),
    }
}

fn in_our_words(error: Option<clap::Error>, args: &[OsString]) -> UsageError {
    error.map_or_else(no_command, |error| {
        clap_error::error(&error, args, |args| lean::parse(args).is_ok())
    })
}

fn command_line(mut matches: ArgMatches) -> Option<CommandLine> {
    let keys: Vec<&'static Row> = lean::flagged().collect();
    let Some((name, mut inner)) = matches.remove_subcommand() else {
        return Some(supervise(matches, &keys));
    };
    match name.as_str() {
        "run" => Some(supervise(inner, &keys)),
        "config" => {
            let flags = flags::set_in(&mut inner, &keys);
            let command = inner.remove_many(COMMAND).into_iter().flatten().collect();
            let is_show = inner.get_one::<String>(ACTION).is_some_and(|action| action == "show");
            Some(if is_show {
                CommandLine::ConfigShow { flags }
            } else {
                CommandLine::ConfigCheck { flags, command }
            })
        }
        names::JOB => subcommands::job_word(inner).map(CommandLine::Job),
        "completions" => inner.get_one::<Shell>(SHELL).map(|shell| completions(*shell)),
        name => {
            let order = subcommands::order(name, &inner)?;
            let flags = flags::set_in(&mut inner, &subcommands::keys());
            let pid = subcommands::pid_in(&inner);
            Some(CommandLine::Control { order, flags, pid })
        }
    }
}

fn completions(shell: Shell) -> CommandLine {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut full(), "ojs-init", &mut script);
    // The generator for bash spells a hyphen in the program's name in two ways, so no subcommand
    // would find its words.
    CommandLine::Print(String::from_utf8_lossy(&script).replace("ojs__subcmd__init", "ojs__init"))
}

/// The command with every subcommand and option, for the parser and for pages that describe it.
pub fn full() -> Command {
    with_options(Command::new("ojs-init"))
        .no_binary_name(true)
        .bin_name("ojs-init")
        .version(env!("CARGO_PKG_VERSION"))
        .override_help(help::TOP)
        .override_usage(help::USAGE)
        .args_conflicts_with_subcommands(true)
        .arg(last_command())
        .subcommand(run())
        .subcommand(config())
        .subcommands(subcommands::commands())
        .subcommand(subcommands::job())
        .subcommand(
            Command::new("completions")
                .about("Print the completion script of a shell")
                .arg(
                    Arg::new(SHELL)
                        .required(true)
                        .value_parser(EnumValueParser::<Shell>::new()),
                ),
        )
}

fn run() -> Command {
    with_options(Command::new("run"))
        .about("Supervise COMMAND: pass signals on, reap orphans, end with its status")
        .override_usage(help::RUN_USAGE)
        .arg(trailing_command().help("Program and its arguments, passed on as they are"))
}

fn config() -> Command {
    let action = Arg::new(ACTION)
        .value_parser(PossibleValuesParser::new(["check", "show"]))
        .default_value("check")
        .hide_default_value(true)
        .hide_possible_values(true)
        .help("check (the default): do all that a start does up to COMMAND, and say\nevery error and warning; show: each effective value and its source");
    with_options(Command::new("config"))
        .about("Check the configuration, or show each effective value and where it came from")
        .override_usage(help::CONFIG_USAGE)
        .arg(action)
        .arg(last_command().help("What a start would be given: looked for, and not run"))
}

fn with_options(command: Command) -> Command {
    lean::flagged()
        .fold(command, |command, key| command.arg(flags::documented(key)))
        .next_line_help(true)
        .after_help(help::NOTES)
}

/// The argument COMMAND that only `--` begins.
fn last_command() -> Arg {
    Arg::new(COMMAND)
        .last(true)
        .num_args(1..)
        .value_parser(value_parser!(OsString))
}

/// The argument COMMAND that also begins with the first word that is no option.
fn trailing_command() -> Arg {
    Arg::new(COMMAND)
        .trailing_var_arg(true)
        .num_args(1..)
        .value_parser(value_parser!(OsString))
}

fn supervise(mut matches: ArgMatches, keys: &[&'static Row]) -> CommandLine {
    let command = matches.remove_many(COMMAND).into_iter().flatten().collect();
    let flags = flags::set_in(&mut matches, keys);
    CommandLine::Run { flags, command }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod parse_tests;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::values::Form;

    /// Words of command lines: every spelling of some options, good and bad values, and
    /// terminators.
    const WORDS: [&str; 58] = [
        "--",
        "-",
        "run",
        "config",
        "show",
        "help",
        "completions",
        "bash",
        "node",
        "--no-agent",
        "--no-agent=false",
        "--no-agent=",
        "-s",
        "--subreaper",
        "-sg",
        "-vvg",
        "-v",
        "--verbose",
        "--verbose=2",
        "-vh",
        "-h",
        "--help",
        "-V",
        "--version",
        "-p",
        "-pKILL",
        "-p=KILL",
        "KILL",
        "-e",
        "-e143",
        "-e=3",
        "143",
        "--remap-exit",
        "--remap-exit=1",
        "-r",
        "-rTERM:QUIT",
        "TERM:QUIT",
        "-gr",
        "-w",
        "-wx",
        "-x",
        "--unknown",
        "--unknown=1",
        "--grace-period",
        "--grace-period=5s",
        "5s",
        "--grace",
        "--user",
        "app",
        "--headers",
        "A: b",
        "--config",
        "--pass-token",
        "-1",
        "",
        "--=",
        "-gsve3",
        "prestop",
    ];

    fn args(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    /// Whether the lean parse succeeds; it must be right in either case.
    fn agreed(args: &[OsString]) -> Option<CommandLine> {
        let lean = lean::parse(args).ok();
        let full = parse_full(args)
            .ok()
            .filter(|line| !matches!(line, CommandLine::Print(_) | CommandLine::Control { .. }));
        assert_eq!(lean, full, "{args:?}");
        lean
    }

    #[test]
    fn clap_finds_no_fault_with_the_definitions() {
        full().debug_assert();
    }

    #[test]
    fn the_lean_parse_suffices_for_every_flag() {
        for key in lean::flagged() {
            let flag = key.flag.unwrap();
            let long = if matches!(key.notation.form, Form::Switch | Form::Count) {
                format!("--{flag}")
            } else {
                format!("--{flag}=x")
            };
            assert!(agreed(&args(&[&long, "--", "true"])).is_some(), "{flag}");
            assert!(agreed(&args(&["run", &long, "true"])).is_some(), "{flag}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

        #[test]
        fn the_lean_parse_succeeds_exactly_where_the_full_one_does(
            words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..7),
            is_ended in any::<bool>(),
        ) {
            let mut words = args(&words);
            if is_ended {
                words.extend(args(&["--", "true"]));
            }
            agreed(&words);
        }

        #[test]
        fn no_command_line_makes_the_parse_panic(
            words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6), 0..6),
        ) {
            use std::os::unix::ffi::OsStringExt;
            let words: Vec<OsString> = words.into_iter().map(OsString::from_vec).collect();
            agreed(&words);
        }
    }
}
