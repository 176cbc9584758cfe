//! Why a command could not be carried out.

use std::io;

/// Why a command could not be carried out.
#[derive(Debug)]
pub(super) enum Failure {
    /// For the person who gave the command.
    Message(String),
    /// Nobody reads what is written any more: not worth a word.
    OutputClosed,
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::OutputClosed
        } else {
            Self::Message(format!("cannot write: {error}"))
        }
    }
}
