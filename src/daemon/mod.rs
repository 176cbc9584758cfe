//! SHELL. Holds descriptors and processes, and executes the effects of the lifecycle. The lifecycle
//! decides.
//!
//! | question | files |
//! |---|---|
//! | how does a start go? | `prepare`, `start`, `exec`; as a rehearsal: `rehearsal` |
//! | how does the plain init run? | `plain_loop`, `descendants` |
//! | how does the agent run? | `agent`, `event_loop`, `effects`, `span_turns`, `options` |
//! | who owns a token of the poll? | `tokens`; who accepts connections: `acceptor` |
//! | how do a worker's programs connect? | `interface`, for `workers` (a Unix socket) and `gateway` (HTTP) |
//! | who talks to the backend? | `backend`; to a collector of traces: `traces` |
//! | who answers operators and probes? | `control`, `probes`; from `worker_usage` too |
//! | where do sockets and log lines go? | `runtime`, `log` |
//!
//! Words. The *agent* is ojs-init in every mode but none. A *turn* is one pass of the loop.
//!
//! The folder may use every crate; it has no `unsafe` code and does not know `commands`. Start with
//! `plain_loop`, the small loop, then `event_loop`.

#[cfg(feature = "agent")]
mod acceptor;
#[cfg(feature = "agent")]
pub mod agent;
#[cfg(feature = "agent")]
pub mod backend;
#[cfg(feature = "agent")]
mod control;
pub mod descendants;
#[cfg(feature = "agent")]
mod effects;
#[cfg(feature = "agent")]
mod event_loop;
#[cfg(feature = "agent")]
mod exec;
#[cfg(feature = "agent")]
pub mod gateway;
#[cfg(feature = "agent")]
mod interface;
pub mod log;
#[cfg(feature = "agent")]
mod memory_watch;
#[cfg(feature = "agent")]
pub mod options;
pub mod plain_loop;
pub mod prepare;
#[cfg(feature = "agent")]
mod probes;
#[cfg(feature = "agent")]
mod recycling;
pub mod rehearsal;
#[cfg(feature = "agent")]
mod rehearsal_agent;
#[cfg(feature = "agent")]
pub mod runtime;
#[cfg(feature = "agent")]
mod span_turns;
mod start;
mod surroundings;
#[cfg(feature = "agent")]
pub mod tokens;
#[cfg(feature = "agent")]
pub mod traces;
#[cfg(feature = "agent")]
mod two_workers;
#[cfg(feature = "agent")]
mod window_signal;
#[cfg(feature = "agent")]
mod worker_usage;
#[cfg(feature = "agent")]
pub mod workers;
