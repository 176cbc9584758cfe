//! HTTP/1.1 as a server. For connections of one request: its head, the response, and on top of both
//! what probes ask and are answered. For connections that are kept: heads, bodies, and one request
//! after the other. As a client: the heads and bodies of answers, and the question to a proxy.

pub mod answer_head;
pub mod body;
pub mod connect;
pub mod header_lines;
pub mod message;
pub mod probe;
pub mod request_reader;
pub mod response;
pub mod tunnel;
