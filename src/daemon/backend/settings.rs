//! The configuration of requests to the backend.

use crate::config::Backend;
use ojs_wire::backend::request::Identity;

/// The configuration of requests to the backend.
#[derive(Debug, Clone)]
pub struct BackendSettings {
    /// The backend's address, and the settings for reaching it.
    pub backend: Backend,
    /// The address and its source, in the words of the configuration, so that a person knows where
    /// to look.
    pub url_setting: String,
    /// The identity that ojs-init sends to the backend.
    pub identity: Identity,
    /// Largest envelope that a worker can be given, in bytes; bounds how much of an answer is read.
    pub max_frame: u64,
}
