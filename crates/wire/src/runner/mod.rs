//! The runner of mode exec: its frames on the worker socket, and the lines of its jobs.
//!
//! The runner is the worker that is part of mode exec. It speaks the worker socket protocol like
//! any other worker.
//!
//! | question | files |
//! |---|---|
//! | which frames does the runner receive and send on the worker socket? | `frames` |
//! | what may a job write on `OJS_JOB_FD`? | `job_lines` |
//! | how does a command get values of its job? | `template`, `arguments`; refused placeholders: `guard` |
//!
//! The folder may use the rest of the crate. Start with `frames`.

pub mod arguments;
pub mod frames;
mod guard;
pub mod job_lines;
pub mod template;
