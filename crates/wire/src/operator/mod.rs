//! The protocol of operators: the control socket's lines, the status and its screen.
//!
//! | question | files |
//! |---|---|
//! | what may a program ask on the control socket? | `control` |
//! | how is a view written? | `shown`; the status: `status_line` |
//! | how does a subcommand read it? | `status_reply` |
//! | how does `ojs-init status` show it? | `screen`, `connections`, `line` |
//! | which jobs does `ojs-init jobs` show? | `jobs_reply`; for a person: `jobs_table` |
//! | what does `ojs-init cancel` say? | `cancel_reply` |
//!
//! The folder may use the rest of the crate. Start with `control`;
//! `docs/control-protocol.md` is its page.

pub mod cancel_reply;
mod connections;
pub mod control;
pub mod jobs_reply;
pub mod jobs_table;
mod line;
pub mod screen;
pub mod shown;
pub mod status_line;
pub mod status_reply;
