//! The clap definitions of the subcommands for a running instance and for a job.

use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::command_line::{HealthOf, JobWord, Order, PrestopWait};
use super::flags;
use super::names::{JOB, JOB_USAGE, ORDERS};
use crate::config::Row;
use crate::config::keys::{CONFIG_FILE, RUNTIME_DIR};
use crate::config::values::duration;

/// How long a preStop hook waits by default.
const USUAL_WAIT: &str = "5s";

/// The argument with the time that a preStop hook waits.
const FOR: &str = "for";

/// The argument that has a preStop hook wait for the jobs.
const UNTIL_IDLE: &str = "until-idle";

/// The argument that has a status printed as JSON.
const JSON: &str = "json";

/// The argument that has a status printed again and again.
const WATCH: &str = "watch";

/// The argument with the pid of the instance.
const PID: &str = "pid";

/// The argument that chooses the probe of `health`.
const PROBE: &str = "PROBE";

/// Notes below the options of the subcommands for an instance that runs.
const ORDER_NOTES: &str = "\
The instance is looked for in the runtime directory, else in /run/ojs-init,
$XDG_RUNTIME_DIR, /tmp and /dev/shm. Exit status 0: done, or it was so already
(prestop: always); 1: not possible, or no instance is there; 2: wrong usage.";

/// Notes below the options of `status`.
const STATUS_NOTES: &str = "\
The instance is looked for in the runtime directory, else in /run/ojs-init,
$XDG_RUNTIME_DIR, /tmp and /dev/shm. Colours only on a terminal, unless NO_COLOR
is set. Exit status 0: shown; 1: no instance is there, or no answer; 2: wrong
usage.";

/// Notes below the options of `cancel`.
const CANCEL_NOTES: &str = "\
The line that is printed says what happens and by when; the command does not
wait for it. The instance is looked for in the runtime directory, else in
/run/ojs-init, $XDG_RUNTIME_DIR, /tmp and /dev/shm. Exit status 0: cancelled, or
it was so already; 1: not possible, or no instance is there; 2: wrong usage.";

/// The argument with the id of a job.
const JOB_ID: &str = "ID";

/// Notes below the options of `health`.
const HEALTH_NOTES: &str = "\
Answers within 1 s. The instance is looked for in the runtime directory, else in
/run/ojs-init, $XDG_RUNTIME_DIR, /tmp and /dev/shm. Exit status 0: it is well;
1: it is not, and the line says why; 2: it could not be asked.";

/// Notes below the words of `job`.
const JOB_NOTES: &str = "\
In a script: \"$OJS_INIT\" job progress 0.5 \"half of it\". Whatever can write to
descriptor 3 (OJS_JOB_FD) can do without it: one line for each word, written as
here. \"$OJS_INIT\" job arg 0 prints the first argument. Exit status 0: done, or
the answer is yes; 1: nobody took it, the answer is no, or there is no such
argument; 2: wrong usage, or not in a job.";

/// The argument with the progress of a job.
const FRACTION: &str = "FRACTION";

/// The argument with the progress for a person.
const MESSAGE: &str = "MESSAGE";

/// The argument that has a job's state.
const STATE: &str = "STATE";

/// The argument that chooses one of a job's arguments.
const PATH: &str = "PATH";

/// The keys whose flags all subcommands for an instance accept: the places of instances.
pub(super) fn keys() -> [&'static Row; 2] {
    [&RUNTIME_DIR, &CONFIG_FILE]
}

/// The clap definitions of the subcommands for an instance.
pub(super) fn commands() -> impl Iterator<Item = Command> {
    ORDERS.iter().map(|(name, usage, about)| {
        let command = keys()
            .iter()
            .fold(Command::new(*name), |command, key| command.arg(flags::documented(key)))
            .arg(pid())
            .about(*about)
            .override_usage(*usage)
            .next_line_help(true)
            .after_help(ORDER_NOTES);
        match *name {
            "prestop" => command.arg(wait_for()).arg(until_idle()),
            "status" => command.arg(json()).arg(watch()).after_help(STATUS_NOTES),
            "health" => command.arg(probe()).after_help(HEALTH_NOTES),
            "jobs" => command.arg(json()).after_help(STATUS_NOTES),
            "cancel" => command.arg(cancelled_job()).after_help(CANCEL_NOTES),
            _ => command,
        }
    })
}

/// The clap definition of `job`.
pub(super) fn job() -> Command {
    let word = |name: &'static str, usage: &'static str, about: &'static str| {
        Command::new(name)
            .about(about)
            .override_usage(usage)
            .next_line_help(true)
    };
    let argument = |name: &'static str| Arg::new(name).required(true).allow_negative_numbers(true);
    let progress = word(
        "progress",
        "ojs-init job progress FRACTION [MESSAGE]",
        "Say how far the job is; at most one a second reaches the backend",
    );
    let message = Arg::new(MESSAGE)
        .num_args(0..)
        .allow_hyphen_values(true)
        .help("What a person shall read beside it");
    let checkpoint = word(
        "checkpoint",
        "ojs-init job checkpoint JSON",
        "Save where the next attempt of the job shall go on",
    );
    let state = argument(STATE)
        .value_name("JSON")
        .help("Any one JSON document, up to 128 KiB: more does not fit on a command line");
    Command::new(JOB)
        .about("For a program that mode exec runs as a job: tell how it goes, or ask whether\nit is to end")
        .override_usage(JOB_USAGE)
        .after_help(JOB_NOTES)
        .subcommand_required(true)
        .subcommand(progress.arg(argument(FRACTION).help("0 to 1, as 0.25")).arg(message))
        .subcommand(checkpoint.arg(state))
        .subcommand(word("heartbeat", "ojs-init job heartbeat", "Say that the job is alive"))
        .subcommand(
            word(
                "arg",
                "ojs-init job arg PATH",
                "Print one of the job's arguments: strings as they are, else JSON",
            )
            .arg(argument(PATH).help("Its number, from 0, then names and numbers within it: 0, 1.path, 1.files.0")),
        )
        .subcommand(word(
            "cancelled",
            "ojs-init job cancelled",
            "Exit status 0 when the job is to end, 1 when it may go on",
        ))
}

/// The message or question behind `job`.
pub(super) fn job_word(mut matches: ArgMatches) -> Option<JobWord> {
    let (name, mut inner) = matches.remove_subcommand()?;
    match name.as_str() {
        "progress" => {
            let words: Vec<String> = inner.remove_many(MESSAGE).into_iter().flatten().collect();
            Some(JobWord::Progress {
                fraction: inner.remove_one(FRACTION)?,
                message: words.join(" "),
            })
        }
        "checkpoint" => Some(JobWord::Checkpoint {
            state: inner.remove_one(STATE)?,
        }),
        "heartbeat" => Some(JobWord::Heartbeat),
        "cancelled" => Some(JobWord::Cancelled),
        "arg" => Some(JobWord::Argument {
            path: inner.remove_one(PATH)?,
        }),
        _ => None,
    }
}

fn pid() -> Arg {
    Arg::new(PID)
        .long(PID)
        .value_name("PID")
        .value_parser(value_parser!(i32).range(1..))
        .help("The instance with this pid, where several run here; the error that lists\nthem shows it")
}

/// The pid that is given with a subcommand for an instance.
pub(super) fn pid_in(matches: &ArgMatches) -> Option<i32> {
    matches.get_one(PID).copied()
}

fn json() -> Arg {
    Arg::new(JSON)
        .long(JSON)
        .action(ArgAction::SetTrue)
        .value_parser(value_parser!(bool))
        .help("Print one line of JSON; docs/control.md explains each name")
}

fn cancelled_job() -> Arg {
    Arg::new(JOB_ID)
        .value_name("JOB")
        .required(true)
        .value_parser(NonEmptyStringValueParser::new())
        .help("The id of the job as `ojs-init jobs` shows it, or a beginning that no other\nactive job has")
}

fn watch() -> Arg {
    Arg::new(WATCH)
        .long(WATCH)
        .action(ArgAction::SetTrue)
        .value_parser(value_parser!(bool))
        .help("Show it once a second until it ends, or until Ctrl-C; needs a terminal,\nexcept with --json")
}

fn probe() -> Arg {
    Arg::new(PROBE)
        .value_parser(PossibleValuesParser::new(["live", "ready"]))
        .hide_possible_values(true)
        .help(
            "live: as /livez, for a liveness probe; ready: as /readyz, for a\nreadiness probe; without it as /healthz",
        )
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
        "recycle" => Some(Order::Recycle),
        "prestop" if matches.get_flag(UNTIL_IDLE) => Some(Order::Prestop(PrestopWait::UntilIdle)),
        "prestop" => Some(Order::Prestop(PrestopWait::For(*matches.get_one(FOR)?))),
        "status" => Some(Order::Status {
            as_json: matches.get_flag(JSON),
            watches: matches.get_flag(WATCH),
        }),
        "jobs" => Some(Order::Jobs {
            as_json: matches.get_flag(JSON),
        }),
        "cancel" => Some(Order::Cancel {
            job: matches.get_one::<String>(JOB_ID)?.clone(),
        }),
        "health" => Some(Order::Health(
            match matches.get_one::<String>(PROBE).map(String::as_str) {
                Some("live") => HealthOf::Live,
                Some(_) => HealthOf::Ready,
                None => HealthOf::Both,
            },
        )),
        _ => None,
    }
}
