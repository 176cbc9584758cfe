//! The worker's processes, and the worker socket on which its programs connect.

mod link;
pub(super) mod outbound;
pub(super) mod processes;
pub(super) mod socket;
