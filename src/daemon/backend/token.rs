//! The bearer token, from its file: secrets rotate.

use std::path::PathBuf;

use crate::config::Secret;
use crate::daemon::backend::small_file;
use crate::daemon::log::throttle::Throttle;

/// Largest token file, in bytes.
const MAX_TOKEN_FILE_BYTES: u64 = 64 << 10;

/// The file of the token, `backend.auth_token_file`.
#[derive(Debug)]
pub(in crate::daemon) struct TokenFile {
    path: PathBuf,
    complaints: Throttle,
}

impl TokenFile {
    /// This file.
    pub(in crate::daemon) fn new(path: PathBuf) -> Self {
        Self {
            path,
            complaints: Throttle::default(),
        }
    }

    /// The token as it is now; `None`: the file holds no usable one, and the log says why.
    pub(in crate::daemon) fn now(&mut self) -> Option<Secret> {
        let bytes = small_file::read(&self.path, MAX_TOKEN_FILE_BYTES);
        let token = bytes
            .map_err(|error| format!("cannot be read: {error}"))
            .and_then(|bytes| read(&String::from_utf8_lossy(&bytes)));
        token
            .map_err(|problem| {
                let path = self.path.display();
                self.complaints.warn(format_args!(
                    "backend.auth_token_file = {path}: {problem}; nothing is sent to the backend until it holds a token"
                ));
            })
            .ok()
    }
}

fn read(text: &str) -> Result<Secret, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    let problem = "holds what no header can carry: a token is printable ASCII without blanks";
    Secret::parse(text).ok_or_else(|| problem.to_owned())
}
