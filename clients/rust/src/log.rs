//! What the library logs, by `tracing`.

use std::fmt::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing::{error, warn};

use crate::error::Error;

/// Most characters of a text in the log.
const MOST_CHARS: usize = 10_000;

/// A text from elsewhere on one line, cut after 10,000 characters: a space for each control
/// character.
pub(crate) struct OneLine<'a>(pub(crate) &'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().take(MOST_CHARS).try_for_each(|c| f.write_char(if c.is_control() { ' ' } else { c }))
    }
}

/// Runs code of the program, like its subscriber, whose panic must not end a thread of this
/// library.
pub(crate) fn guarded(body: impl FnOnce()) {
    // Dropping what was thrown might panic again.
    let _ = catch_unwind(AssertUnwindSafe(body)).map_err(std::mem::forget);
}

/// Logs an error of a handler with its stack, as one event.
pub(crate) fn failed(is_warning: bool, text: &str, failure: &Error) {
    let (kind, message) = (OneLine(failure.kind()), OneLine(failure.message()));
    let stack = format!("{kind}: {message}\n    at {}", failure.place());
    guarded(|| match is_warning {
        true => warn!(error.type = %kind, error.message = %message, error.stack = stack, "{text}"),
        false => error!(error.type = %kind, error.message = %message, error.stack = stack, "{text}"),
    });
}
