//! The end: its phases and what moves them, its times, its steps, and what is told of it.

pub mod budget;
pub mod end_report;
pub mod force;
pub mod phase;
pub(super) mod stop;
pub(super) mod times;
pub(super) mod triggers;
