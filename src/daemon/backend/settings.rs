//! What the lanes have to know of the configuration, and what they say where it cannot be used.

use std::fmt;

use crate::config::Backend;
use crate::wire::backend::request::Identity;

/// What the lanes need to know of the configuration.
#[derive(Debug, Clone)]
pub struct LaneSettings {
    /// Where the backend is and how to reach it.
    pub backend: Backend,
    /// What the address is, and where it was set, in the words of the configuration: a person is told what to look at.
    pub url_setting: String,
    /// Our name, as the backend is told it.
    pub identity: Identity,
    /// Largest envelope that a worker can be given, in bytes; bounds how much of an answer is read.
    pub max_frame: u64,
}

/// Why there are no lanes: one sentence that names setting and file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneError(pub(in crate::daemon) String);

impl fmt::Display for LaneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LaneError {}
