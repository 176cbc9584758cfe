//! The runner of mode exec: what it is told at its start, what it says and hears on the worker
//! socket, and what its jobs tell it.
//!
//! The runner is the worker that mode exec brings along. It speaks the worker socket protocol as
//! any other worker does.

pub mod arguments;
pub mod frames;
mod guard;
pub mod job_lines;
pub mod template;
