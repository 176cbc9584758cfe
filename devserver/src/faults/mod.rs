//! Faults of a real network and a real backend, on demand.
//!
//! Words. A *fault* is one thing that goes wrong, such as a lost reply. A *rule* says which
//! requests the fault meets, and how often. A fault is switched on by the command line, by a test,
//! or by a request to `/dev/faults`.
//!
//! Nothing here has a socket: `http` asks which fault meets a request, and acts on it. Start with
//! `fault`, then `active`.

mod active;
mod fault;
mod request;

pub(crate) use active::Faults;
pub(crate) use fault::{ANSWERED_INSTEAD, FAULT_NAMES, LATE_REPLY, LOSE_REPLY};
pub use fault::{Backend, Fault, FaultRule, HEARTBEAT_DELAYS, StreamFault};
pub(crate) use request::FaultRequest;
