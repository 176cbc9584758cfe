//! The command line: clap is the only parser, built from the table of [`crate::config::keys`].

mod command;
mod command_line;
mod flags;
mod help;
pub mod salvage;
mod subcommands;
mod usage;

pub use command::{full, parse};
pub use command_line::{CommandLine, HealthOf, JobWord, Order, PrestopWait};
pub use usage::{UsageError, no_command};
