//! The worker's processes, and the worker socket on which its programs connect.
//!
//! `processes` holds each process by a pidfd, for the gateway as well. `socket` has the
//! connections, `link` turns bytes into events and messages into bytes, and `outbound` keeps bytes
//! that could not be written at once. Everything has a bound: bytes for each turn, bytes for each
//! connection, connections.
//!
//! The folder may use `wire`, `os`, `lifecycle::api`, `values`, `daemon::acceptor`,
//! `daemon::tokens`, `daemon::runtime` and `daemon::log`; it does not know the loop. Start with
//! `socket`. `docs/worker-socket.md` is the protocol.

mod link;
pub(super) mod outbound;
pub(super) mod processes;
pub(super) mod socket;
