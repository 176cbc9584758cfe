//! HTTP/1.1: connections, what happens to a request on its way to its answer, and the routes.
//!
//! | question | files |
//! |---|---|
//! | where does a request come in? | `listener`, `request` |
//! | which fault meets it, and which event tells of it? | `exchange`, `faulty_backend` |
//! | who answers it? | `routes`, with the parameters of `call` |
//! | how is an answer written? | `reply`, `reply_body`; as a stream: `feed` |
//!
//! Start with `exchange`: it is the way of one request.

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
