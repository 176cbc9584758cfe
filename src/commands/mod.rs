//! The subcommands: another program of the same binary. It finds the instance that runs in this container, asks it over its
//! control socket, says what it was told, and ends.
#![forbid(unsafe_code)]

mod ask;
pub mod operate;
mod status;
mod watch;
