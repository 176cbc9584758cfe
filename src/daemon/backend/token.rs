//! The bearer token, from its file: secrets rotate.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nix::errno::Errno;

use crate::config::Secret;
use crate::daemon::backend::small_file;
use crate::daemon::log::throttle::Throttle;
use ojs_os::errno::is_shortage;

/// Largest token file, in bytes.
const MAX_TOKEN_FILE_BYTES: u64 = 64 << 10;

/// Between two complaints: the file is looked at each second while it holds no token.
const COMPLAIN_EVERY: Duration = Duration::from_secs(30);

/// The result of a look into the file.
#[derive(Debug)]
pub(in crate::daemon) enum TokenLook {
    /// This is the token.
    Token(Secret),
    /// The file holds no usable token.
    NoToken,
    /// The machine or the file system could not read the file this time.
    Unread,
}

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
            complaints: Throttle::every(COMPLAIN_EVERY),
        }
    }

    /// The token as it is now. Where it is none, the log says why.
    pub(in crate::daemon) fn now(&mut self) -> TokenLook {
        let path = self.path.display();
        let bytes = match small_file::read(&self.path, MAX_TOKEN_FILE_BYTES) {
            Err(error) if may_pass(&error) => {
                self.complaints.warn(format_args!(
                    "backend.auth_token_file = {path}: cannot be read now: {error}; the last token, if there was one, counts until it can"
                ));
                return TokenLook::Unread;
            }
            bytes => bytes.map_err(|error| format!("cannot be read: {error}")),
        };
        match bytes.and_then(|bytes| read(&String::from_utf8_lossy(&bytes))) {
            Ok(token) => TokenLook::Token(token),
            Err(problem) => {
                self.complaints.warn(format_args!(
                    "backend.auth_token_file = {path}: {problem}; nothing is sent to the backend until it holds a token"
                ));
                TokenLook::NoToken
            }
        }
    }
}

/// Whether this says nothing of the file: descriptors or memory are short, or its file system does
/// not answer.
fn may_pass(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    is_shortage(error)
        || matches!(
            errno,
            Some(
                Errno::EINTR
                    | Errno::EIO
                    | Errno::ESTALE
                    | Errno::ETIMEDOUT
                    | Errno::ENOTCONN
                    | Errno::EHOSTDOWN
                    | Errno::EHOSTUNREACH
            )
        )
}

fn read(text: &str) -> Result<Secret, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    let problem = "holds what no header can carry: a token is printable ASCII without blanks";
    Secret::parse(text).ok_or_else(|| problem.to_owned())
}
