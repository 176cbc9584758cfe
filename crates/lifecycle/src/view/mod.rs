//! What can be seen from outside: status, probes, metrics, and what operators are answered.

pub mod health;
pub(super) mod health_state;
pub mod metrics;
pub(super) mod operator_state;
pub(super) mod operators;
pub mod status;
