//! An Open Job Spec backend in memory, for development and tests. Not for production: nothing
//! survives the process.
//!
//! The server plays the specification's conformance levels 0 and 1 over HTTP, to the letter. Real
//! backends deviate in some points. Here a reservation belongs to the worker that fetched the job,
//! a visibility timeout counts as an attempt and leaves an error, and a worker whose heartbeats
//! stop is dead. The server can also speak like real backends ([`Dialect`]), and imitate the faults
//! of networks and backends ([`Fault`]).
//!
//! ```
//! use ojs_devserver::{JobState, Options, Server};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::start(Options::default())?;
//! let id = server.enqueue(r#"{"type": "email.send", "args": ["a@b.c"]}"#)?;
//! // A worker at `server.url()` could fetch it now.
//! assert_eq!(server.job(&id).map(|job| job.state), Some(JobState::Available));
//! # Ok(())
//! # }
//! ```
//!
//! `store` has every rule about jobs, `dialect` reads the requests of workers, `faults` the faults,
//! and `http` the connections. `state` has these behind one lock, [`Server`] is the thread. Start
//! with `store`; read [`timeline`] and [`cli`] last.

pub mod cli;
mod clock;
mod dialect;
mod events;
mod faults;
mod http;
mod ids;
mod json;
mod moment;
mod operation;
mod options;
mod refusal;
mod server;
mod state;
mod store;
pub mod timeline;

pub use dialect::Dialect;
pub use events::Event;
pub use faults::{Backend, Fault, FaultRule, HEARTBEAT_DELAYS, StreamFault};
pub use operation::Operation;
pub use options::Options;
pub use server::{Server, StartError};
pub use store::job::{Delivery, Directive, End, JobState};
pub use store::snapshot::JobSnapshot;
