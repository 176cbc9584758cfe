//! The errors of clap, in ojs-init's words.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::usage::{UsageError, negative, of_message, of_order, stray, unknown_option};

/// The error of clap, in ojs-init's words if they are clearer. `parses` returns whether a command
/// line supervises a command.
pub(super) fn error(error: &clap::Error, args: &[OsString], parses: impl Fn(&[OsString]) -> bool) -> UsageError {
    let is_of_a_word = matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand);
    if let Some(word) = word(error).filter(|_| is_of_a_word) {
        return if let Some(error) = negative(word, args) {
            error
        } else if word.starts_with('-') {
            unknown_option(word, context(error, ContextKind::SuggestedArg), args)
        } else {
            stray(word, args, parses)
        };
    }
    let rendered = error.render().to_string();
    let text = rendered.trim_end();
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let problem = text.split("\n\n").next().unwrap_or(text);
    of_order(args, problem).unwrap_or_else(|| of_message(text))
}

/// The word that clap stumbled over.
pub(super) fn word(error: &clap::Error) -> Option<&str> {
    context(error, ContextKind::InvalidArg).or_else(|| context(error, ContextKind::InvalidSubcommand))
}

fn context(error: &clap::Error, wanted: ContextKind) -> Option<&str> {
    let (_, value) = error.context().find(|(kind, _)| *kind == wanted)?;
    if let ContextValue::String(text) = value {
        Some(text)
    } else {
        None
    }
}
