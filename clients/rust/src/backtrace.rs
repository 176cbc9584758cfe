//! Where an error arose. An error of Rust does not know: `?` does, and with RUST_BACKTRACE=1 the
//! whole stack is there.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::Location;

use crate::text::clean;

const MOST_LINES: usize = 50;
const MOST_CHARS: usize = 10_000;
const MOST_LINE_CHARS: usize = 1000;

/// The line of the program that calls, alone.
#[track_caller]
pub(crate) fn place() -> Vec<String> {
    vec![Location::caller().to_string()]
}

/// The line of the program that calls, and the stack where RUST_BACKTRACE asks for it.
#[track_caller]
pub(crate) fn here() -> Vec<String> {
    from(&Location::caller().to_string(), &Backtrace::capture())
}

/// A place, and the stack that was captured there, the innermost call first.
pub(crate) fn from(place: &str, stack: &Backtrace) -> Vec<String> {
    let mut lines = vec![clean(place, MOST_LINE_CHARS)];
    if stack.status() == BacktraceStatus::Captured {
        lines.extend(frames(&stack.to_string()));
    }
    lines.truncate(MOST_LINES);
    let mut room = MOST_CHARS;
    lines.retain(|line| {
        let chars = line.chars().count();
        let fits = chars <= room;
        room = room.saturating_sub(chars);
        fits
    });
    lines
}

/// Where this library's files are, as a stack names them.
fn library() -> &'static str {
    file!().trim_end_matches("backtrace.rs")
}

/// `FILE:LINE:COLUMN in FUNCTION` of each frame of the program, without those of the standard
/// library and of this one. A function is told by its file as well: one that was inlined has no
/// path in its name.
fn frames(stack: &str) -> Vec<String> {
    let mut lines = stack.lines().map(str::trim).peekable();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let Some((_, function)) = line.split_once(": ") else { continue };
        let place = lines.next_if(|next| next.starts_with("at ")).map_or("", |next| &next[3..]);
        let of_library = place.strip_prefix("./").unwrap_or(place).strip_prefix(library());
        if function.starts_with("ojs_worker::pool::") || of_library.is_some_and(|file| file.starts_with("pool.rs:")) {
            break;
        }
        let is_ours =
            of_library.is_some() || ["ojs_worker::", "<ojs_worker::"].iter().any(|prefix| function.starts_with(prefix));
        let is_std = place.starts_with("/rustc/")
            || ["std::", "core::", "<core::", "<alloc::", "alloc::", "__rust", "rust_begin_unwind", "<T as core::"]
                .iter()
                .any(|prefix| function.starts_with(prefix));
        if !is_std && !is_ours {
            found.push(clean(&format!("{place} in {function}"), MOST_LINE_CHARS).trim_start().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_its_frames_without_those_of_the_standard_library() {
        let stack = "   0: std::backtrace::Backtrace::capture\n             at /rustc/x/backtrace.rs:1:2\n   \
                     1: mail::send\n             at ./bin/mail.rs:10:5\n   2: <ojs_worker::error::Error as core::convert::From<E>>::from\n   3: mail::main\n   4: ojs_worker::pool::run\n   5: x::y\n";
        assert_eq!(frames(stack), ["./bin/mail.rs:10:5 in mail::send", "in mail::main"]);
    }
}
