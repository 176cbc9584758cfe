//! What the command line set, before anybody looked at the values.

use std::ffi::OsString;
use std::fmt;

use super::error::ConfigError;
use super::key::Row;
use super::settings::Settings;
use super::source::Source;

/// The options of one command line, each with its values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Flags(Vec<(&'static Row, Vec<OsString>)>);

impl Flags {
    /// Adds an option with the values of all its occurrences.
    pub fn push(&mut self, key: &'static Row, values: Vec<OsString>) {
        self.0.push((key, values));
    }

    /// Puts every option into the settings.
    ///
    /// # Errors
    /// A value is none that its key accepts.
    pub(super) fn apply(&self, settings: &mut Settings) -> Result<(), ConfigError> {
        for (key, values) in &self.0 {
            let source = Source::CommandLine(key.flag.unwrap_or_default());
            let mut texts = Vec::with_capacity(values.len());
            for value in values {
                let Some(text) = value.to_str() else {
                    return Err(ConfigError::value(
                        *key,
                        &value.to_string_lossy(),
                        &source,
                        "is not UTF-8",
                    ));
                };
                key.notation.form.split(text, &mut texts);
            }
            settings.offer(*key, &texts, source)?;
        }
        Ok(())
    }

    /// The same for every option whose value is right; the others are passed over.
    pub(super) fn apply_what_is_right(&self, settings: &mut Settings) {
        for flag in &self.0 {
            let _ = Self(vec![flag.clone()]).apply(settings);
        }
    }
}

/// Without values: one of them may be a secret.
impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(key, _)| key)).finish()
    }
}
