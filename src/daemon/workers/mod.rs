//! The worker's processes and their connections.

pub mod admission;
pub(super) mod link;
pub(super) mod outbound;
pub(super) mod socket;
