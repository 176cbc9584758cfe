//! The listener for probes and metrics, and its connections. A connection has one request and one
//! response. A hostile client costs a few descriptors and KiB for a few seconds, and nothing else.
//!
//! `listener` opens the port, `links` has the connections, `link` is one of them, and `answers`
//! writes the response. The lifecycle decides the answer to a probe (`lifecycle::view::health`).
//!
//! The folder may use `config`, `wire`, `os`, `lifecycle`, `values`, and of `daemon` the acceptor,
//! the tokens, `start` and the log; it does not know the loop. Start with `links`.

pub(super) mod answers;
pub(super) mod link;
pub(super) mod links;
pub(super) mod listener;
