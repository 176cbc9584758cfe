//! The worker: its process, whoever in it has jobs, and what these say.

pub mod capacity;
pub(super) mod conversation;
pub mod end_cause;
pub(super) mod holders;
pub(super) mod supervision;
