//! The messages that a wrong configuration ends with: one for each mistake.

use std::fmt;

use super::key::Row;
use super::source::Source;
use super::values::masked::masked;

/// Longest part of a wrong value that an error repeats, in characters.
const MAX_SHOWN: usize = 100;

/// Judges a mistake in the value of a key, or elsewhere: `Err` ends the start, `Ok` ignores it.
pub(super) type OnMistake<'o> = &'o mut dyn FnMut(Option<&Row>, ConfigError) -> Result<(), ConfigError>;

/// Most errors that are reported of one configuration.
const MOST_ERRORS: usize = 20;

/// Why there is no configuration: all mistakes that were found, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// Fails if there are any errors; of too many the last ones are only counted.
    pub(super) fn none_of(mut errors: Vec<ConfigError>) -> Result<(), Self> {
        if errors.is_empty() {
            return Ok(());
        }
        let more = errors.len().saturating_sub(MOST_ERRORS);
        if more > 0 {
            errors.truncate(MOST_ERRORS);
            errors.push(ConfigError::new(&format!("more errors in the configuration: {more}")));
        }
        Err(Self(errors))
    }

    /// Adds possible causes to the first error.
    pub(super) fn with_hints(mut self, hints: &[String]) -> Self {
        self.0.iter_mut().take(1).for_each(|error| error.add_hints(hints));
        self
    }

    /// The messages, in the order of command line, environment and file.
    pub fn messages(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}

/// One mistake in the configuration. `Display` is the whole message, one line, without the name of
/// the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    message: String,
}

impl ConfigError {
    /// An error with this message, which names key, value, source and advice.
    pub fn new(message: &str) -> Self {
        Self {
            message: message.to_owned(),
        }
    }

    /// The value of one key is refused. `value` is the text as written; `problem` ends a sentence
    /// that begins with it.
    pub fn value(key: &Row, value: &str, source: &Source, problem: &str) -> Self {
        let (label, accepted) = (key.label(), key.accepted());
        let value = (key.values.quotable)(value).map_or(String::new(), |value| format!(" = {}", cut(&masked(&value))));
        Self::new(&format!("{label}{value} ({source}) {problem}; accepted: {accepted}"))
    }

    /// Adds possible causes to the error; each hint continues its line.
    fn add_hints(&mut self, hints: &[String]) {
        for hint in hints {
            self.message.push_str("; ");
            self.message.push_str(hint);
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConfigError {}

/// The written value, in quotes and cut to a length that fits into a log.
fn cut(value: &str) -> String {
    let cut = value.char_indices().nth(MAX_SHOWN).map(|(end, _)| &value[..end]);
    cut.map_or_else(|| format!("{value:?}"), |cut| format!("{cut:?}..."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys::{AUTH_TOKEN, CONCURRENCY, HEADERS, KEYS, MODE};

    #[test]
    fn an_error_names_key_value_source_and_what_is_accepted() {
        let error = ConfigError::value(&CONCURRENCY, "abc", &Source::Environment("OJS_CONCURRENCY"), "is odd");
        let expected = "worker.concurrency = \"abc\" (environment OJS_CONCURRENCY) is odd; \
                        accepted: a whole number from 1 to 10000";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn an_error_repeats_neither_secrets_nor_line_breaks_nor_novels() {
        let message = |key: &Row, value: &str| ConfigError::value(key, value, &Source::Default, "is odd").to_string();
        for key in [&AUTH_TOKEN.row, &HEADERS.row] {
            assert!(!message(key, "hunter2").contains("hunter2"));
        }
        // A variable of any key may hold a URL by mistake.
        for key in KEYS {
            for url in [
                "http://u:hunter2@b",
                "u:hunter2@b",
                "a,postgres://u:hunter2@b?c",
                "http://b/?token=hunter2",
            ] {
                assert!(!message(key, url).contains("hunter2"), "{key:?} {url}");
            }
        }
        assert!(message(&CONCURRENCY, "a@b").contains("a@b"));
        assert_eq!(message(&MODE, "a\nb\u{1b}").lines().count(), 1);
        assert!(message(&MODE, &"ü".repeat(5000)).len() < 500);
    }
}
