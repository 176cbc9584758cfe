//! Requests to the backend: connections on the loop, and what is sent and read on them.
//!
//! Words. A *lane* is a kind of request with bounds of its own. A request *reaches* for a
//! connection: a kept one or a new one. An *exchange* is one request and its answer on a
//! connection. A *tunnel* is a request of the gateway's client that passes through.
//!
//! | question | files |
//! |---|---|
//! | which requests are under way? | `client`, `lanes`, `pending`, `steps` |
//! | where does a connection come from? | `reach`: `kept`, `dial`, `names`, `lookup`, `route`, `slots` |
//! | what happens on a connection? | `connection`, `exchange`, `head`, `answer`, `answer_head` |
//! | what does an answer mean? | `outcome`, `fault`; a backend that stops: `leaving`, `idle_limits` |
//! | event streams | `stream`, `open_stream` |
//! | TLS and the token | `tls`, `tls_session`, `trust`, `tls_words`; `token`, `token_reader`, `small_file` |
//! | tunnels | `tunnels`, `tunnel`, `tunnel_steps` |
//!
//! The folder may use `config`, `wire`, `os`, `lifecycle::api`, `lifecycle::timers`,
//! `daemon::tokens` and `daemon::log`; it does not know the loop. Start with `client`, then
//! `steps`.

pub(super) mod answer;
mod answer_head;
pub mod client;
pub(super) mod connection;
pub(super) mod dial;
pub(super) mod exchange;
pub(super) mod fault;
pub(super) mod head;
mod idle_limits;
pub(super) mod kept;
pub(super) mod lanes;
pub(super) mod leaving;
pub(super) mod lookup;
pub(super) mod names;
pub(super) mod open_stream;
pub mod outcome;
pub(super) mod pending;
pub(super) mod reach;
pub(super) mod route;
pub mod settings;
pub(super) mod slots;
pub(super) mod small_file;
pub(super) mod steps;
pub(super) mod stream;
pub(super) mod tls;
pub(super) mod tls_session;
pub(super) mod tls_words;
pub(super) mod token;
pub(super) mod token_reader;
pub(super) mod trust;
pub mod tunnel;
pub(super) mod tunnel_steps;
pub mod tunnels;
