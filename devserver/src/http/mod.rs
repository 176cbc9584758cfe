//! HTTP/1.1: connections, what happens to a request on its way to its answer, and the routes.

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
