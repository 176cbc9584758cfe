//! The subcommands that ask something of an instance that runs.

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::{Order, PrestopWait, command, help};
use crate::config::KeyId;
use crate::config::duration;
use crate::config::keys::Key;

/// How long a preStop hook waits unless it is told otherwise.
const USUAL_WAIT: &str = "5s";

/// The argument that says how long a preStop hook waits.
const FOR: &str = "for";

/// The argument that has it wait for the jobs.
const UNTIL_IDLE: &str = "until-idle";

/// Each of them, with its usage and what its help says first.
const ORDERS: [(&str, &str, &str); 5] = [
    (
        "quiet",
        "ojs-init quiet [OPTIONS]",
        "Take no new jobs; active ones go on (as SIGTSTP)",
    ),
    (
        "resume",
        "ojs-init resume [OPTIONS]",
        "Take jobs again after quiet (as SIGCONT)",
    ),
    (
        "terminate",
        "ojs-init terminate [OPTIONS]",
        "Finish the active jobs and end (as SIGTERM)",
    ),
    (
        "stop",
        "ojs-init stop [OPTIONS]",
        "Do not wait for the active jobs any longer (as a second SIGTERM)",
    ),
    (
        "prestop",
        "ojs-init prestop [--for TIME | --until-idle] [OPTIONS]",
        "For a preStop hook: start the orchestrator's clock, quiet, wait",
    ),
];

/// The options that they all take: where instances may be.
pub(super) fn keys() -> [&'static Key; 2] {
    [KeyId::RuntimeDir.key(), KeyId::ConfigFile.key()]
}

/// Their definitions.
pub(super) fn commands() -> impl Iterator<Item = Command> {
    ORDERS.iter().map(|(name, usage, about)| {
        let command = keys()
            .iter()
            .fold(Command::new(*name), |command, key| {
                command.arg(command::documented(key))
            })
            .about(*about)
            .override_usage(*usage)
            .next_line_help(true)
            .after_help(help::ORDER_NOTES);
        if *name == "prestop" {
            command.arg(wait_for()).arg(until_idle())
        } else {
            command
        }
    })
}

/// The usage of the one of this name.
pub(super) fn usage(name: &str) -> Option<&'static str> {
    let found = ORDERS.iter().find(|(known, ..)| *known == name);
    found.map(|(_, usage, _)| *usage)
}

fn wait_for() -> Arg {
    Arg::new(FOR)
        .long(FOR)
        .value_name("TIME")
        .value_parser(time)
        .default_value(USUAL_WAIT)
        .hide_default_value(true)
        .help("Return after so long, 5s by default; earlier where a drain could not\ntake that long")
}

fn until_idle() -> Arg {
    Arg::new(UNTIL_IDLE)
        .long(UNTIL_IDLE)
        .action(ArgAction::SetTrue)
        .value_parser(value_parser!(bool))
        .conflicts_with(FOR)
        .help("Return as soon as no job is active, and never later than the drain\nallows")
}

fn time(text: &str) -> Result<Duration, &'static str> {
    duration::parse(text).ok_or("a TIME is 250ms, 25s, 1m30s or 1h; a bare number is seconds")
}

/// The order of this name, if it is one.
pub(super) fn order(name: &str, matches: &ArgMatches) -> Option<Order> {
    match name {
        "quiet" => Some(Order::Quiet),
        "resume" => Some(Order::Resume),
        "terminate" => Some(Order::Terminate),
        "stop" => Some(Order::Stop),
        "prestop" if matches.get_flag(UNTIL_IDLE) => Some(Order::Prestop(PrestopWait::UntilIdle)),
        "prestop" => Some(Order::Prestop(PrestopWait::For(*matches.get_one(FOR)?))),
        _ => None,
    }
}
