//! Faults of a real network and a real backend, on demand.

mod active;
mod fault;
mod request;

pub(crate) use active::Faults;
pub(crate) use fault::{ANSWERED_INSTEAD, FAULT_NAMES, LATE_REPLY, LOSE_REPLY};
pub use fault::{Backend, Fault, FaultRule, HEARTBEAT_DELAYS, StreamFault};
pub(crate) use request::FaultRequest;
