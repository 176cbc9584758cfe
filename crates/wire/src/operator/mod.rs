//! The protocol of operators: the control socket's lines, the status and its screen.
//!
//! | question | files |
//! |---|---|
//! | what may a program ask on the control socket? | `control` |
//! | how is the status written? | `status_line` |
//! | how does a subcommand read it? | `status_reply` |
//! | how does `ojs-init status` show it? | `screen`, `connections`, `line` |
//!
//! The folder may use the rest of the crate. Start with `control`;
//! `docs/control-protocol.md` is its page.

mod connections;
pub mod control;
mod line;
pub mod screen;
pub mod status_line;
pub mod status_reply;
