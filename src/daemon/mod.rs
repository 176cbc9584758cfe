//! SHELL. Holds descriptors and processes, and executes the effects of the lifecycle. The lifecycle
//! decides.
//!
//! | question | files |
//! |---|---|
//! | how does a start go? | `prepare`, `start`, `exec`; as a rehearsal: `rehearsal` |
//! | how does the plain init run? | `plain_loop`, `descendants` |
//! | how does the agent run? | `agent`, `event_loop`, `effects`, `options` |
//! | who owns a token of the poll? | `tokens`; who accepts connections: `acceptor` |
//! | how do a worker's programs connect? | `interface`, for `workers` (a Unix socket) and `gateway` (HTTP) |
//! | who talks to the backend? | `backend` |
//! | who answers operators and probes? | `control`, `probes` |
//! | where do sockets and log lines go? | `runtime`, `log` |
//!
//! Words. The *agent* is ojs-init in every mode but none. A *turn* is one pass of the loop.
//!
//! The folder may use every crate; it has no `unsafe` code and does not know `commands`. Start with
//! `plain_loop`, the small loop, then `event_loop`.

mod acceptor;
pub mod agent;
pub mod backend;
mod control;
mod descendants;
mod effects;
mod event_loop;
mod exec;
pub mod gateway;
mod interface;
pub mod log;
mod memory_watch;
pub mod options;
pub mod plain_loop;
pub mod prepare;
mod probes;
pub mod rehearsal;
pub mod runtime;
mod start;
pub mod tokens;
mod window_signal;
pub mod workers;
