//! HTTP/1.1: connections, the way of a request to its answer, and the routes.
//!
//! | question | files |
//! |---|---|
//! | where does a request arrive? | `listener`, `request` |
//! | which fault and which event does it get? | `exchange`, `faulty_backend` |
//! | which code answers it? | `routes`, with the parameters of `call` |
//! | how is an answer written? | `reply`, `reply_body`; as a stream: `feed` |
//!
//! Start with `exchange`: it shows the way of one request.

mod call;
mod exchange;
mod faulty_backend;
mod feed;
mod listener;
mod reply;
mod reply_body;
mod request;
mod routes;

pub(crate) use listener::serve;
