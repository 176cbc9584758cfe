//! Requests to the backend: the threads that wait for its answers, connections, TLS, names.

pub(super) mod connect;
pub(super) mod connect_words;
pub(super) mod http;
pub mod lanes;
pub(super) mod pool;
pub(super) mod resolver;
pub mod settings;
pub(super) mod small_file;
pub(super) mod tls;
pub(super) mod tls_words;
pub(super) mod token;
pub(super) mod trust;
