//! HTTP/1.1 as a server: heads of requests, responses, and on top of both what probes ask and are answered.

pub mod head;
pub mod probe;
pub mod response;
