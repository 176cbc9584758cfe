//! What the library logs, by `tracing`.

use std::fmt::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing::{Level, error, warn};

use crate::error::Error;

/// Most characters of a text in the log.
const MOST_CHARS: usize = 10_000;

/// A text from elsewhere on one line: a space for each control character, at most 10,000 characters.
pub(crate) struct OneLine<'a>(pub(crate) &'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut chars = self.0.chars();
        for c in chars.by_ref().take(MOST_CHARS) {
            f.write_char(if c.is_control() { ' ' } else { c })?;
        }
        if chars.next().is_some() { f.write_str("...") } else { Ok(()) }
    }
}

/// Runs code of the program, like its subscriber, whose panic must not end a thread of this
/// library.
pub(crate) fn guarded(body: impl FnOnce()) {
    if let Err(thrown) = catch_unwind(AssertUnwindSafe(body)) {
        // Dropping it might panic again.
        std::mem::forget(thrown);
    }
}

/// Logs an error of a handler with its stack, as one event.
pub(crate) fn failed(level: Level, text: &str, failure: &Error) {
    let stack = std::iter::once(format!("{}: {}", failure.kind(), failure.message()))
        .chain(failure.backtrace().iter().map(|line| format!("    at {line}")))
        .map(|line| OneLine(&line).to_string())
        .collect::<Vec<_>>()
        .join("\n");
    let (kind, message) = (OneLine(failure.kind()), OneLine(failure.message()));
    guarded(|| {
        if level == Level::WARN {
            warn!(error.type = %kind, error.message = %message, error.stack = stack, "{text}");
        } else {
            error!(error.type = %kind, error.message = %message, error.stack = stack, "{text}");
        }
    });
}
