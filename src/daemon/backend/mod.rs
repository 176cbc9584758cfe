//! Requests to the backend: connections on the loop, what is sent and read on them, TLS, names, the
//! token.

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
pub(super) mod tunnel_face;
pub(super) mod tunnel_steps;
pub mod tunnels;
