//! The side of operators: the control socket's lines, the status and its screen.

mod connections;
pub mod control;
mod line;
pub mod screen;
pub mod status_line;
pub mod status_reply;
