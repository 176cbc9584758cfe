//! Faults of a real network and a real backend, on demand.
//!
//! Words. A *fault* is one failure, such as a lost reply. A *rule* selects the requests that the
//! fault affects, and how often. The command line, a test, or a request to `/dev/faults` switches a
//! fault on.
//!
//! Nothing here has a socket: `http` looks up the fault of a request, and acts on it. Start with
//! `fault`, then `active`.

mod active;
mod fault;
mod request;

pub(crate) use active::Faults;
pub(crate) use fault::{ANSWERED_INSTEAD, FAULT_NAMES, LATE_REPLY, LOSE_REPLY};
pub use fault::{Backend, Fault, FaultRule, HEARTBEAT_DELAYS, StreamFault};
pub(crate) use request::FaultRequest;
