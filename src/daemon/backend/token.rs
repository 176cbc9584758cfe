//! The bearer token, from its file: secrets rotate.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::{Backend, Secret};
use crate::daemon::backend::small_file;
use crate::daemon::log::throttle::Throttle;

/// Largest token file, in bytes.
const MAX_TOKEN_FILE_BYTES: u64 = 64 << 10;

/// The source of the token. Copies share their complaints, so each complaint is logged once.
#[derive(Debug, Clone)]
pub(in crate::daemon) struct TokenSource {
    file: Option<PathBuf>,
    fixed: Option<Secret>,
    complaints: Arc<Mutex<Throttle>>,
}

/// A token is configured, and there is none now. The log gives the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::daemon) struct NoToken;

impl TokenSource {
    /// The file if there is one, else the token itself, else none.
    pub(in crate::daemon) fn new(backend: &Backend) -> Self {
        Self {
            file: backend.auth_token_file.clone(),
            fixed: backend.auth_token.clone(),
            complaints: Arc::default(),
        }
    }

    /// The token as it is now; `None`: requests carry none.
    ///
    /// # Errors
    /// The file holds no usable token.
    pub(in crate::daemon) fn now(&self) -> Result<Option<Secret>, NoToken> {
        let Some(path) = &self.file else {
            return Ok(self.fixed.clone());
        };
        let warn_throttled = |what: &str| {
            let mut complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
            complaints.warn(format_args!(
                "backend.auth_token_file = {}: {what}; nothing is sent to the backend until it holds a token",
                path.display()
            ));
            NoToken
        };
        let bytes = small_file::read(path, MAX_TOKEN_FILE_BYTES)
            .map_err(|error| warn_throttled(&format!("cannot be read: {error}")))?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim();
        if text.is_empty() {
            return Err(warn_throttled("is empty"));
        }
        let token = Secret::parse(text).ok_or_else(|| {
            warn_throttled("holds what no header can carry: a token is printable ASCII without blanks")
        })?;
        Ok(Some(token))
    }
}
