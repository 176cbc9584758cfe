//! The runtime directory: where the sockets are, and whose it is.

pub mod admission;
pub mod base;
pub mod candidate;
pub mod dir;
pub mod instances;
