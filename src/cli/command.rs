//! The clap definitions. There are two commands with one grammar: the full one costs three times as much to build as
//! a whole start may cost, so what defines only the options that occur is tried first.

use std::ffi::OsString;

use clap::builder::{EnumValueParser, PossibleValuesParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use clap_complete::Shell;

use super::{Request, UsageError, help, orders, usage};
use crate::config::Flags;
use crate::config::keys::{KEYS, Key, Kind};

/// The argument that takes COMMAND and its arguments.
const COMMAND: &str = "COMMAND";

/// The argument of `config`.
const ACTION: &str = "ACTION";

/// The argument of `completions`.
const SHELL: &str = "SHELL";

/// Reads a command line that supervises a command, by the options that occur in it alone. `None` when that fails for
/// whatever reason, help and subcommands included: then the full parse finds the answer.
pub(super) fn parse_lean(args: &[OsString]) -> Option<Request> {
    let keys = mentioned(args);
    let is_run = args.first().is_some_and(|first| first == "run");
    let command = if is_run {
        let run = keys.iter().fold(bare("run"), |command, key| command.arg(argument(key)));
        bare("ojs-init").subcommand(run.arg(trailing_command()))
    } else {
        keys.iter()
            .fold(bare("ojs-init"), |command, key| command.arg(argument(key)))
            .arg(last_command())
    };
    let mut matches = command.try_get_matches_from(args).ok()?;
    if is_run {
        supervise(matches.remove_subcommand()?.1, &keys)
    } else {
        supervise(matches, &keys)
    }
}

/// Reads any command line.
///
/// # Errors
/// The message for standard error.
pub(super) fn parse_full(args: &[OsString]) -> Result<Request, UsageError> {
    let matches = match full().try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            return Ok(Request::Print(error.render().to_string()));
        }
        Err(error) => return Err(usage::error(&error, args)),
    };
    request(matches).ok_or_else(usage::no_command)
}

fn request(mut matches: ArgMatches) -> Option<Request> {
    let keys: Vec<&'static Key> = options().collect();
    let Some((name, mut inner)) = matches.remove_subcommand() else {
        return supervise(matches, &keys);
    };
    match name.as_str() {
        "run" => supervise(inner, &keys),
        "config" => {
            let flags = flags(&mut inner, &keys);
            let command = inner.remove_many(COMMAND).into_iter().flatten().collect();
            let is_show = inner.get_one::<String>(ACTION).is_some_and(|action| action == "show");
            Some(if is_show {
                Request::ConfigShow { flags }
            } else {
                Request::ConfigCheck { flags, command }
            })
        }
        "completions" => inner.get_one::<Shell>(SHELL).map(|shell| completions(*shell)),
        name => {
            let order = orders::order(name, &inner)?;
            let flags = flags(&mut inner, &orders::keys());
            Some(Request::Control { order, flags })
        }
    }
}

fn completions(shell: Shell) -> Request {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut full(), "ojs-init", &mut script);
    // For bash the generator spells a hyphen in the program's name in two ways, so that no subcommand finds its words.
    Request::Print(String::from_utf8_lossy(&script).replace("ojs__subcmd__init", "ojs__init"))
}

/// Every subcommand and option. The place where further subcommands are added.
pub(super) fn full() -> Command {
    with_options(Command::new("ojs-init"))
        .no_binary_name(true)
        .bin_name("ojs-init")
        .version(env!("CARGO_PKG_VERSION"))
        .override_help(help::TOP)
        .override_usage(help::USAGE)
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .arg(last_command())
        .subcommand(run())
        .subcommand(config())
        .subcommands(orders::commands())
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
        .arg(
            last_command()
                .required(false)
                .help("What a start would be given: looked for, and not run"),
        )
}

fn with_options(command: Command) -> Command {
    options()
        .fold(command, |command, key| command.arg(documented(key)))
        .next_line_help(true)
        .after_help(help::NOTES)
}

/// A command that understands nothing that it is not told to.
fn bare(name: &'static str) -> Command {
    Command::new(name)
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .disable_version_flag(true)
}

/// The keys whose flag may occur: too many do no harm.
fn mentioned(args: &[OsString]) -> Vec<&'static Key> {
    let mut keys: Vec<&'static Key> = Vec::new();
    for arg in args
        .iter()
        .map(|arg| arg.as_encoded_bytes())
        .take_while(|arg| *arg != b"--")
    {
        let Some(spelling) = arg.strip_prefix(b"-") else {
            continue;
        };
        let is_meant = |key: &Key| match spelling.strip_prefix(b"-") {
            Some(long) => {
                let name = long.split(|byte| *byte == b'=').next().unwrap_or_default();
                key.flag.is_some_and(|flag| flag.as_bytes() == name)
            }
            None => key
                .short
                .is_some_and(|letter| spelling.iter().any(|byte| char::from(*byte) == letter)),
        };
        for key in &KEYS {
            if is_meant(key) && !keys.iter().any(|other| other.id == key.id) {
                keys.push(key);
            }
        }
    }
    // In the order of the full parse, so that both give equal flags.
    keys.sort_by_key(|key| key.id);
    keys
}

/// The keys that have a flag.
fn options() -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(|key| key.flag.is_some())
}

/// How clap takes a key's flag. Values are texts here: what they mean is judged where all sources come together.
fn argument(key: &'static Key) -> Arg {
    let arg = Arg::new(key.label()).value_parser(value_parser!(OsString));
    let arg = key.flag.into_iter().fold(arg, Arg::long);
    let arg = key.short.into_iter().fold(arg, Arg::short);
    if key.kind == Kind::Count {
        arg.action(ArgAction::Count).value_parser(value_parser!(u8))
    } else if key.kind == Kind::Switch {
        arg.num_args(0..=1).require_equals(true).default_missing_value("true")
    } else if key.is_repeatable() {
        arg.action(ArgAction::Append)
    } else {
        arg
    }
}

/// The same for the help.
pub(super) fn documented(key: &'static Key) -> Arg {
    argument(key)
        .value_name(help::value_name(key))
        .help_heading(key.group.heading())
        .help(help::of_key(key))
}

/// COMMAND where only `--` begins it.
fn last_command() -> Arg {
    Arg::new(COMMAND)
        .last(true)
        .num_args(1..)
        .required(true)
        .value_parser(value_parser!(OsString))
}

/// COMMAND where the first word that is no option begins it too.
fn trailing_command() -> Arg {
    Arg::new(COMMAND)
        .trailing_var_arg(true)
        .num_args(1..)
        .required(true)
        .value_parser(value_parser!(OsString))
}

fn supervise(mut matches: ArgMatches, keys: &[&'static Key]) -> Option<Request> {
    let command: Vec<OsString> = matches.remove_many(COMMAND)?.collect();
    let flags = flags(&mut matches, keys);
    (!command.is_empty()).then_some(Request::Run { flags, command })
}

fn flags(matches: &mut ArgMatches, keys: &[&'static Key]) -> Flags {
    let mut flags = Flags::default();
    for key in keys {
        let id = key.label();
        let values: Option<Vec<OsString>> = if key.kind == Kind::Count {
            let count = matches.remove_one::<u8>(id).filter(|count| *count > 0);
            count.map(|count| vec![count.to_string().into()])
        } else {
            matches.remove_many(id).map(Iterator::collect)
        };
        if let Some(values) = values {
            flags.push(key.id, values);
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Words that a command line is made of: every spelling of some options, values good and bad, and what ends them.
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
    fn agreed(args: &[OsString]) -> Option<Request> {
        let lean = parse_lean(args);
        let full = parse_full(args)
            .ok()
            .filter(|request| matches!(request, Request::Run { .. }));
        assert_eq!(lean, full, "{args:?}");
        lean
    }

    #[test]
    fn clap_finds_no_fault_with_the_definitions() {
        full().debug_assert();
    }

    #[test]
    fn the_lean_parse_suffices_for_every_flag() {
        for key in options() {
            let flag = key.flag.unwrap();
            let long = if matches!(key.kind, Kind::Switch | Kind::Count) {
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
