//! What happened outside of the server.

use serde::{Deserialize, Serialize};

/// Something that happened outside of the server: a signal, an exit, a deadline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// When, in milliseconds by the clock of the events ([`crate::Server::now_ms`]).
    pub ms: f64,
    /// What.
    #[serde(rename = "mark")]
    pub text: String,
}

impl Mark {
    /// This happened then, in milliseconds by the clock of the events.
    #[must_use]
    pub fn new(ms: f64, text: &str) -> Self {
        Self {
            ms,
            text: text.to_owned(),
        }
    }
}
