//! Spans of jobs, on their way to a collector of OpenTelemetry.
//!
//! The recorder (`lifecycle::view::traces`) sees orders and answers as they pass, and has the queue
//! of finished spans. [`Exporter`] sends them in batches, one at a time, on a connection of its own
//! that no job waits for. A collector that is away or hangs costs spans, which are counted, and one
//! warning.
//!
//! | question | file |
//! |---|---|
//! | when is a batch sent, again, or dropped? | `exporter` |
//! | how does it reach the collector? | `sender`, through a tunnel of `daemon::backend` |
//!
//! The folder may use `config`, `wire`, `os`, `lifecycle`, `daemon::tokens`, `daemon::log` and
//! `daemon::backend`; it does not know the loop. Start with `exporter`.

pub mod exporter;
mod sender;
