//! The command line.

mod client;
mod enqueue;
mod jobs;
mod serve;
mod table;
mod timeline;
mod workers;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use jiff::SignedDuration;

use client::Client;

/// Exit status of whatever could not be done.
const FAILED: u8 = 1;

#[derive(Debug, Parser)]
#[command(
    name = "ojs-devserver",
    version,
    about = "An Open Job Spec backend in memory, for development and tests. NOT for production: nothing survives the process.",
    args_conflicts_with_subcommands = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::Serve,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the backend; what is done without a command, too
    Serve(serve::Serve),
    /// Enqueue jobs: enqueue email.send '["a@b.c"]' --count 100
    Enqueue(enqueue::Enqueue),
    /// Show how many jobs are in each state, and the newest
    Jobs(jobs::Jobs),
    /// Show everything about one job
    Job {
        /// Its id
        id: String,
        #[command(flatten)]
        backend: Backend,
    },
    /// Show the workers
    Workers {
        #[command(flatten)]
        backend: Backend,
    },
    /// Draw who did what when, from a running server's record or from a file
    Timeline(timeline::Timeline),
    /// Cancel a job, whatever it is doing
    Cancel {
        /// Its id
        id: String,
        #[command(flatten)]
        backend: Backend,
    },
}

/// Which backend a command is about.
#[derive(Debug, Args)]
struct Backend {
    /// Where the backend is
    #[arg(long, value_name = "URL", env = "OJS_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// What to show it
    #[arg(long, value_name = "TOKEN", env = "OJS_AUTH_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

/// Why a command could not be carried out.
#[derive(Debug)]
enum Failure {
    /// This is to be told.
    Told(String),
    /// Nobody reads what is written any more: not worth a word.
    Unread,
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Told(message)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::Unread
        } else {
            Self::Told(format!("cannot write: {error}"))
        }
    }
}

/// Runs the program with its arguments and says how it ended.
#[must_use]
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Nobody is left to tell if this fails.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(FAILED));
        }
    };
    let command = cli.command.unwrap_or(Command::Serve(cli.serve));
    match carry_out(command) {
        Ok(()) | Err(Failure::Unread) => ExitCode::SUCCESS,
        Err(Failure::Told(message)) => {
            let _ = writeln!(io::stderr(), "ojs-devserver: {message}");
            ExitCode::from(FAILED)
        }
    }
}

fn carry_out(command: Command) -> Result<(), Failure> {
    let out = &mut io::stdout();
    match command {
        Command::Serve(serve) => serve::run(&serve),
        Command::Enqueue(enqueue) => enqueue::run(&enqueue, out),
        Command::Jobs(jobs) => jobs::run(&jobs, out),
        Command::Job { id, backend } => jobs::show(&Client::new(&backend)?, &id, out),
        Command::Workers { backend } => workers::run(&Client::new(&backend)?, out),
        Command::Timeline(timeline) => timeline::run(&timeline, out),
        Command::Cancel { id, backend } => jobs::cancel(&Client::new(&backend)?, &id, out),
    }
}

/// Reads a duration: `250ms`, `25s`, `1m30s`; a bare number is seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let seconds = text
        .parse::<f64>()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let parsed = || {
        text.parse::<SignedDuration>()
            .ok()
            .and_then(|parsed| Duration::try_from(parsed).ok())
    };
    let given = seconds
        .or_else(parsed)
        .filter(|given| *given >= Duration::from_millis(1));
    given.ok_or_else(|| "a duration is a number with a unit, such as 250ms, 25s or 1m30s, and at least 1ms".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit_or_is_in_seconds() {
        for (text, millis) in [
            ("250ms", 250),
            ("25s", 25_000),
            ("1m30s", 90_000),
            ("2", 2_000),
            ("0.5", 500),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for wrong in ["", "0", "-1s", "soon", "1 fortnight", "NaN"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
