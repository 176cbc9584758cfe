//! What requests to the backend have to know of the configuration, and what is said where it cannot
//! be used.

use std::fmt;

use crate::config::Backend;
use ojs_wire::backend::request::Identity;

/// What requests to the backend need to know of the configuration.
#[derive(Debug, Clone)]
pub struct BackendSettings {
    /// Where the backend is and how to reach it.
    pub backend: Backend,
    /// What the address is, and where it was set, in the words of the configuration: a person is
    /// told what to look at.
    pub url_setting: String,
    /// Our name, as the backend is told it.
    pub identity: Identity,
    /// Largest envelope that a worker can be given, in bytes; bounds how much of an answer is read.
    pub max_frame: u64,
}

/// Why nothing can be asked of the backend: one sentence that names setting and file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendError(pub(in crate::daemon) String);

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BackendError {}
