//! The worker: its process, whoever in it has jobs, and what these say.

pub(super) mod asks;
mod blame;
mod cancel_signals;
pub mod capacity;
mod capacity_news;
pub(super) mod conversation;
pub(super) mod holder;
pub(super) mod holders;
pub(super) mod offers;
mod pulling;
pub(super) mod pulls;
mod supervise;
pub(super) mod supervision;
mod takers;
pub(super) mod workers;
pub(super) mod workers_said;
