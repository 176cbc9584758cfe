//! Flags as the command line set them, before their values are read.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use super::error::{ConfigError, OnMistake};
use super::key::Row;
use super::settings::Settings;
use super::source::Source;

/// The flags of one command line, each with its values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Flags(Vec<(&'static Row, Vec<OsString>)>);

impl Flags {
    /// Adds a flag with the values of all its occurrences.
    pub fn push(&mut self, key: &'static Row, values: Vec<OsString>) {
        self.0.push((key, values));
    }

    /// Puts every flag into the settings.
    ///
    /// # Errors
    /// A value is none that its key accepts, unless that is passed over.
    pub(super) fn apply(&self, settings: &mut Settings, on_mistake: OnMistake<'_>) -> Result<(), ConfigError> {
        for (key, values) in &self.0 {
            let source = Source::CommandLine(key.flag.unwrap_or_default());
            settings
                .offer_raw(key, values.iter().map(|value| value.as_bytes()), source)
                .or_else(|error| on_mistake(Some(key), error))?;
        }
        Ok(())
    }
}

/// Shows no values: one of them may be a secret.
impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(key, _)| key)).finish()
    }
}
