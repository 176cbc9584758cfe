//! What the library logs, by `tracing`.

use std::fmt::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

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
