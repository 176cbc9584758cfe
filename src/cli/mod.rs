//! The command line, read by the table of [`crate::config::keys`]. A small parser reads every
//! start. clap reads everything else, with arguments that are generated from the table. A build
//! without the agent has no clap.
//!
//! Words. An *order* is a subcommand that sends a request to an instance. A *salvaged* command line
//! is one with a mistake, which only decides how that mistake is reported.
//!
//! The folder may use `config`, and acts on nothing. Start with `command_line`, the result;
//! `lean` has the grammar of a start, `command` all of it, `help` the text.

#[cfg(feature = "agent")]
mod clap_error;
#[cfg(feature = "agent")]
mod command;
mod command_line;
#[cfg(feature = "agent")]
mod flags;
mod help;
#[cfg(not(feature = "agent"))]
mod init_only;
mod lean;
mod names;
pub mod salvage;
#[cfg(feature = "agent")]
mod subcommands;
mod usage;

#[cfg(feature = "agent")]
pub use command::{full, parse};
pub use command_line::{CommandLine, HealthOf, JobWord, Order, PrestopWait};
#[cfg(not(feature = "agent"))]
pub use init_only::parse;
pub use usage::{UsageError, no_command, slip, without_usage};
