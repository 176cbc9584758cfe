//! Marks: events outside of the server.

use serde::{Deserialize, Serialize};

/// An event outside of the server: a signal, an exit, a deadline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// When it happened, in milliseconds by the clock of the events ([`crate::Server::now_ms`]).
    pub ms: f64,
    /// The event, for people.
    #[serde(rename = "mark")]
    pub text: String,
}

impl Mark {
    /// A mark that this happened then, in milliseconds by the clock of the events.
    #[must_use]
    pub fn new(ms: f64, text: &str) -> Self {
        Self {
            ms,
            text: text.to_owned(),
        }
    }
}
