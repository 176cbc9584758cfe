//! The listener for probes and metrics, and its connections.

pub(super) mod answers;
pub(super) mod link;
pub(super) mod links;
pub(super) mod listener;
