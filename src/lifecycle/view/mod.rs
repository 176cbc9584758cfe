//! What can be seen from outside: status, probes, metrics, and what operators are answered.

pub mod health;
pub mod metrics;
pub(super) mod operators;
pub mod snapshot;
pub mod status;
