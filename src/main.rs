//! Block signals, parse, run, map to an exit status.
#![no_main]
#![deny(unsafe_code)]

use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use ojs_init::cli::{self, CommandLine};
use ojs_init::config::{self, Config, Environment, Flags};
use ojs_init::daemon::log::report::{report, report_all};
use ojs_init::daemon::prepare::{refuse, with_command};
use ojs_init::daemon::{plain_loop, rehearsal};
#[cfg(feature = "agent")]
use ojs_init::{commands, config::Mode, daemon::agent, runner};
use ojs_os::entry::Invocation;
use ojs_os::stdio;
use ojs_values::exit::Exit;

ojs_os::entry!(run);

/// Longest that help or a report may wait for a slow reader of standard output.
const OUTPUT_LIMIT: Duration = Duration::from_secs(10);

fn run(mut invocation: Invocation) -> u8 {
    // The default hook writes to standard error without a bound.
    panic::set_hook(Box::new(|info| {
        report(&format!("internal error, please report it: {info}"))
    }));
    let exit = panic::catch_unwind(AssertUnwindSafe(|| {
        #[cfg(feature = "agent")]
        if let Some((program, command)) = runner::is_meant(&invocation.args, &invocation.environ) {
            return runner::run(program, command, invocation.environ);
        }
        dispatch(&mut invocation).unwrap_or_else(|messages| {
            refuse(&messages, &invocation.args, &invocation.environ);
            Exit::Usage
        })
    }));
    exit.unwrap_or(Exit::Internal).code()
}

/// Executes the command line. Errors are messages about wrong usage or configuration.
fn dispatch(invocation: &mut Invocation) -> Result<Exit, Vec<String>> {
    match cli::parse(&invocation.args).map_err(|error| vec![error])? {
        CommandLine::Run { flags, command } => {
            let config = load(invocation, &flags);
            let config = with_command(config, &flags, &command, &invocation.environ)?;
            #[cfg(feature = "agent")]
            if config.mode != Mode::None {
                return Ok(agent::run(&config, &command, &mut invocation.environ));
            }
            plain_loop::run(&config, &command, &invocation.environ)
        }
        CommandLine::ConfigCheck { flags, command } => {
            let checked = rehearsal::run(load(invocation, &flags)?, &command, &invocation.environ);
            let exit = print(&checked.report);
            report_all(&checked.errors);
            Ok(if checked.errors.is_empty() { exit } else { Exit::Usage })
        }
        CommandLine::ConfigShow { flags } => Ok(print(&config::show(&load(invocation, &flags)?))),
        #[cfg(feature = "agent")]
        CommandLine::Control { order, flags, pid } => Ok(commands::run(order, &flags, pid, &invocation.environ)),
        #[cfg(feature = "agent")]
        CommandLine::Job(word) => Ok(commands::tell(&word, &invocation.environ)),
        CommandLine::Print(text) => Ok(print(&text)),
    }
}

fn load(invocation: &Invocation, flags: &Flags) -> Result<Config, Vec<String>> {
    let environment = Environment::from_entries(invocation.environ.entries());
    config::load(flags, &environment).map_err(|errors| errors.messages())
}

fn print(text: &str) -> Exit {
    stdio::write_output(text.as_bytes(), OUTPUT_LIMIT).map_or(Exit::Internal, |()| Exit::Success)
}
