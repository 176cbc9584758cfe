//! Why a command could not be carried out.

use std::io;

/// Why a command could not be carried out.
#[derive(Debug)]
pub(super) enum Failure {
    /// For the person who ran the command.
    Message(String),
    /// The reader of the output is gone: no message is needed.
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
