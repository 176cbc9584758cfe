//! SHELL. Holds descriptors and processes, and does what the lifecycle says; it decides nothing
//! itself.

mod acceptor;
pub mod agent;
pub mod backend;
mod control;
mod descendants;
mod effects;
mod event_loop;
mod exec;
pub mod gateway;
mod interface;
pub mod log;
mod memory_watch;
pub mod options;
pub mod plain_loop;
pub mod prepare;
mod probes;
pub mod rehearsal;
pub mod runtime;
mod start;
pub mod tokens;
mod window_signal;
pub mod workers;
