//! HTTP/1.1, as a server and as a client.
//!
//! | question | files |
//! |---|---|
//! | a server with one request for each connection | `probe`, `response` |
//! | a server that keeps its connections | `request_reader`, `message`, `body` |
//! | the answers that a client reads | `answer_head`, `body` |
//! | a client behind a proxy | `connect` |
//! | a request that passes through to the backend | `tunnel`, `header_lines` |
//!
//! Words. A *head* is everything before the body. The *framing* of a body marks its end: by its
//! length, by chunks, or with the connection.
//!
//! `httparse` reads heads and sizes of chunks. Start with `message`, then `body`.

pub mod answer_head;
pub mod body;
pub mod connect;
pub mod header_lines;
pub mod message;
pub mod probe;
pub mod request_reader;
pub mod response;
pub mod tunnel;
