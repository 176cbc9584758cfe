//! The command line of the program: one file for each command.
//!
//! `serve` runs a server. The other commands are clients: they send requests to a server or to any
//! backend, by `client`, and print tables, by `table`. The folder may use the whole crate. Start
//! with `serve`.

mod backend;
mod client;
mod duration;
mod enqueue;
mod failure;
mod jobs;
mod serve;
mod table;
mod timeline;
mod workers;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use backend::BackendArgs;
use client::Client;
use failure::Failure;

/// Exit status of a command that failed.
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
        /// The job's id
        id: String,
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        backend: BackendArgs,
    },
    /// Show the workers
    Workers {
        #[command(flatten)]
        backend: BackendArgs,
    },
    /// Draw who did what when, from a running server's record or from a file
    Timeline(timeline::Timeline),
    /// Cancel a job, whatever it is doing
    Cancel {
        /// The job's id
        id: String,
        #[command(flatten)]
        backend: BackendArgs,
    },
}

/// Runs the program with its arguments and returns its exit status.
#[must_use]
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // If this fails no error can be shown.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(FAILED));
        }
    };
    let command = cli.command.unwrap_or(Command::Serve(cli.serve));
    match carry_out(command) {
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Message(message)) => {
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
        Command::Job { id, json, backend } => jobs::show(&Client::new(&backend)?, &id, json, out),
        Command::Workers { backend } => workers::run(&Client::new(&backend)?, out),
        Command::Timeline(timeline) => timeline::run(&timeline, out),
        Command::Cancel { id, backend } => jobs::cancel(&Client::new(&backend)?, &id, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
