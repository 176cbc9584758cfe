//! The end: its phases and what moves them, its times, its steps, and what is told of it.

pub(super) mod clock;
pub mod end_report;
pub mod phase;
pub(super) mod stop;
pub(super) mod stop_signals;
pub(super) mod times;
pub(super) mod triggers;
