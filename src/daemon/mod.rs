//! SHELL. Holds descriptors and processes, and does what the lifecycle says; it decides nothing itself.
#![forbid(unsafe_code)]

mod agent_options;
mod descendants;
pub mod log;
mod narrate;
pub mod plain_loop;
pub mod prepare;
mod start;
