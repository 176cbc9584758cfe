//! The one message that a wrong configuration ends with.

use std::fmt;

use super::keys::{Key, Kind};
use super::network::without_secrets;
use super::settings::Source;

/// Longest part of a wrong value that an error repeats, in characters.
const MAX_SHOWN: usize = 100;

/// How alike two names must be for a suggestion: 0 nothing in common, 1 equal (Jaro-Winkler).
const ALIKE: f64 = 0.85;

/// Why there is no configuration. `Display` is the whole message, one line, without the name of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    message: String,
}

impl ConfigError {
    /// An error in these words; they name key, value, source and what to do.
    #[must_use]
    pub fn new(message: &str) -> Self {
        Self {
            message: message.to_owned(),
        }
    }

    /// The value of one key is refused. `value` is what was written, `problem` ends a sentence that begins with it.
    #[must_use]
    pub fn value(key: &Key, value: &str, source: &Source, problem: &str) -> Self {
        let shown = match shown(key.kind, value) {
            Some(shown) => format!(" = {shown}"),
            None => String::new(),
        };
        let accepted = key.kind.accepted();
        Self::new(&format!(
            "{}{shown} ({source}) {problem}; accepted: {accepted}",
            key.label()
        ))
    }
}

impl ConfigError {
    /// The same with what may be behind it; each hint ends a line that goes on.
    #[must_use]
    pub(super) fn with_hints(self, hints: &[String]) -> Self {
        let message = hints
            .iter()
            .fold(self.message, |message, hint| format!("{message}; {hint}"));
        Self { message }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConfigError {}

/// What was written, in quotes and cut to a length that fits into a log; nothing where it may be a secret.
fn shown(kind: Kind, value: &str) -> Option<String> {
    if matches!(kind, Kind::Secret | Kind::Headers) {
        return None;
    }
    let value = if kind == Kind::Url {
        without_secrets(value)
    } else {
        value.to_owned()
    };
    let cut = value.char_indices().nth(MAX_SHOWN).map(|(end, _)| &value[..end]);
    Some(cut.map_or_else(|| format!("{value:?}"), |cut| format!("{cut:?}...")))
}

/// The known name that is most like the wrong one, if any is.
#[must_use]
pub fn most_alike<'n>(wrong: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let scored = known
        .map(|name| (strsim::jaro_winkler(wrong, name), name))
        .filter(|(score, _)| *score >= ALIKE);
    scored
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys::KeyId;

    #[test]
    fn an_error_names_key_value_source_and_what_is_accepted() {
        let error = ConfigError::value(
            KeyId::Concurrency.key(),
            "abc",
            &Source::Environment("OJS_CONCURRENCY"),
            "is odd",
        );
        let expected = "worker.concurrency = \"abc\" (environment OJS_CONCURRENCY) is odd; \
                        accepted: a whole number from 1 to 10000";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn an_error_repeats_neither_secrets_nor_line_breaks_nor_novels() {
        let message =
            |key: KeyId, value: &str| ConfigError::value(key.key(), value, &Source::Default, "is odd").to_string();
        for key in [KeyId::AuthToken, KeyId::Headers] {
            assert!(!message(key, "hunter2").contains("hunter2"));
        }
        assert!(!message(KeyId::Url, "http://u:hunter2@b").contains("hunter2"));
        assert_eq!(message(KeyId::Mode, "a\nb\u{1b}").lines().count(), 1);
        assert!(message(KeyId::Mode, &"ü".repeat(5000)).len() < 500);
    }

    #[test]
    fn a_slip_of_the_keyboard_finds_the_name_that_was_meant() {
        let known = ["grace_period", "prestop_time", "url"];
        assert_eq!(most_alike("grace_perod", known.into_iter()), Some("grace_period"));
        assert_eq!(most_alike("colour", known.into_iter()), None);
    }
}
