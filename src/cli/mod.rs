//! The command line. clap is the only parser; its arguments are generated from the table of
//! [`crate::config::keys`].
//!
//! Words. An *order* is a subcommand that sends a request to an instance. A *salvaged* command line
//! is one with a mistake, which only decides how that mistake is reported.
//!
//! The folder may use `config`, and acts on nothing. Start with `command_line`, the result;
//! `command` has the grammar, `help` the text.

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
