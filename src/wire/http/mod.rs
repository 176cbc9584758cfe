//! HTTP/1.1 as a server: what probes ask, and what they are answered.

pub mod probe;
