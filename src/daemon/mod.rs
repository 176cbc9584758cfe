//! SHELL. Holds descriptors and processes, and does what the lifecycle says; it decides nothing itself.
#![forbid(unsafe_code)]

pub mod admission;
pub mod log;
pub mod plain_loop;
pub mod runtime_base;
pub mod runtime_dir;
mod start;
