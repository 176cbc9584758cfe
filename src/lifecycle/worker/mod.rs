//! The worker: its process, whoever in it has jobs, and what these say.

pub(super) mod asks;
pub(super) mod beats;
pub(super) mod blame;
pub(super) mod cancel_signals;
pub mod capacity;
pub(super) mod capacity_news;
pub(super) mod conversation;
mod deaths;
pub(super) mod holder;
pub(super) mod holders;
pub(super) mod offers;
pub(super) mod pulls;
pub(super) mod supervise;
pub(super) mod supervision;
