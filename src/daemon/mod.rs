//! SHELL. Holds descriptors and processes, and does what the lifecycle says; it decides nothing itself.
#![forbid(unsafe_code)]

mod descendants;
pub mod log;
pub mod plain_loop;
mod start;
