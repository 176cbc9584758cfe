//! Settings, each with its source. The source of highest precedence is offered first and stays.

use std::any::Any;
use std::sync::Arc;

use super::build::absent;
use super::error::ConfigError;
use super::key::{Key, Row};
use super::source::Source;
use super::values::masked::masked;
use super::values::{AnyValue, Value};

/// A key that is set.
#[derive(Debug, Clone)]
pub struct Setting {
    pub key: &'static Row,
    /// Its value, of the key's type.
    pub value: Arc<dyn AnyValue>,
    pub source: Source,
    /// Whether it was written as a number without a unit.
    pub is_bare: bool,
}

impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.value.equals(&*other.value) && self.source == other.source
    }
}

impl Eq for Setting {}

/// All keys that are set. Unset ones cost no room and no time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings(Vec<Setting>);

impl Settings {
    /// Reads the texts of a key, and keeps the value unless a source of higher precedence came
    /// before. The value is checked in either case, because a hidden mistake would break a later
    /// start.
    ///
    /// # Errors
    /// The key does not accept the value.
    pub fn offer(&mut self, key: &'static Row, texts: &[&str], source: Source) -> Result<(), ConfigError> {
        if !key.is_built_in() {
            return Err(ConfigError::new(&absent(&format!("{} ({source})", key.label()))));
        }
        match (key.values.read)(texts) {
            Ok(value) if self.get(key).is_none() => {
                let is_bare = texts.iter().all(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                self.0.push(Setting {
                    key,
                    value,
                    source,
                    is_bare,
                });
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(problem) => Err(ConfigError::value(key, &texts.join(","), &source, &problem)),
        }
    }

    /// Offers the text of a flag or a variable, which may hold several values.
    ///
    /// # Errors
    /// The key does not accept the value.
    pub fn offer_raw<'b>(
        &mut self,
        key: &'static Row,
        raw: impl IntoIterator<Item = &'b [u8]>,
        source: Source,
    ) -> Result<(), ConfigError> {
        let mut texts = Vec::new();
        for bytes in raw {
            let Ok(text) = str::from_utf8(bytes) else {
                let shown = String::from_utf8_lossy(bytes);
                return Err(ConfigError::value(key, &shown, &source, "is not UTF-8"));
            };
            key.notation.form.split(text, &mut texts);
        }
        self.offer(key, &texts, source)
    }

    /// Replaces the value of a key, for values that follow from other keys.
    pub fn replace<V: Value>(&mut self, key: &'static Key<V>, value: V, source: Source) {
        self.0.retain(|setting| *setting.key != key.row);
        self.0.push(Setting {
            key,
            value: Arc::new(value),
            source,
            is_bare: false,
        });
    }

    /// The setting of a key, if it is set.
    pub fn get(&self, key: &Row) -> Option<&Setting> {
        self.0.iter().find(|setting| setting.key == key)
    }

    /// True if a key is set.
    pub fn is_set(&self, key: &Row) -> bool {
        self.get(key).is_some()
    }

    /// All settings, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Setting> {
        self.0.iter()
    }

    /// The value of a key, or its default. Inlined, so that keys which are not in this build cost
    /// nothing.
    #[inline(always)]
    pub fn value<V: Value>(&self, key: &Key<V>) -> V {
        if key.is_built_in() {
            self.value_if_set(key).unwrap_or_else(key.default)
        } else {
            (key.default)()
        }
    }

    fn value_if_set<V: Value>(&self, key: &Key<V>) -> Option<V> {
        let set = self.get(key).map(|setting| &*setting.value as &dyn Any);
        set.and_then(|value| value.downcast_ref().cloned())
    }

    /// The effective value as text; never a secret.
    pub fn text(&self, key: &Row) -> String {
        self.get(key).map_or_else(
            || key.default_text(),
            |setting| masked(&setting.value.shown()).into_owned(),
        )
    }

    /// The source of a key's value.
    pub fn source(&self, key: &Row) -> &Source {
        self.get(key).map_or(&Source::Default, |setting| &setting.source)
    }

    /// `key = value (source)`, for messages.
    pub fn describe(&self, key: &Row) -> String {
        format!("{} = {} ({})", key.label(), self.text(key), self.source(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys::{CONCURRENCY, GRACE_PERIOD};

    #[test]
    fn the_first_source_stays_and_a_later_one_is_still_checked() {
        let mut settings = Settings::default();
        settings
            .offer(&CONCURRENCY, &["3"], Source::CommandLine("concurrency"))
            .unwrap();
        settings
            .offer(&CONCURRENCY, &["4"], Source::Environment("OJS_CONCURRENCY"))
            .unwrap();
        assert_eq!(settings.value(&CONCURRENCY), 3);
        assert!(settings.offer(&CONCURRENCY, &["many"], Source::Default).is_err());
    }

    #[test]
    fn a_key_that_nobody_set_shows_its_default() {
        let settings = Settings::default();
        assert_eq!(
            settings.describe(&GRACE_PERIOD),
            "shutdown.grace_period = 30s (default)"
        );
        assert_eq!(
            (settings.value(&CONCURRENCY), settings.is_set(&CONCURRENCY)),
            (10, false)
        );
    }

    #[test]
    fn what_is_set_later_goes_before_what_was_set() {
        let mut settings = Settings::default();
        settings.replace(&CONCURRENCY, 3, Source::Environment("OJS_CONCURRENCY"));
        settings.replace(&CONCURRENCY, 4, Source::CommandLine("concurrency"));
        assert_eq!((settings.value(&CONCURRENCY), settings.iter().count()), (4, 1));
    }
}
