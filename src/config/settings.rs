//! What was set, by whom: the higher in precedence comes first and stays.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::choice::Choice;
use super::error::ConfigError;
use super::keys::{COUNT, Key, KeyId};
use super::value::Value;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A flag; its long name without the dashes.
    CommandLine(&'static str),
    /// An environment variable.
    Environment(&'static str),
    /// The TOML file.
    File {
        /// As it was named.
        path: Arc<Path>,
        /// Counted from 1.
        line: usize,
    },
    /// Nobody set it.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine(flag) => write!(f, "command line --{flag}"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A key that somebody set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Which key.
    pub key: KeyId,
    /// Its value.
    pub value: Value,
    /// Who set it.
    pub source: Source,
}

/// All keys that somebody set; what nobody set takes no room and no time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    set: Vec<Setting>,
    /// For each key one more than its position in `set`, or 0.
    slots: [u8; COUNT],
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            set: Vec::new(),
            slots: [0; COUNT],
        }
    }
}

impl Settings {
    /// Reads what was written for a key, and keeps it unless a source of higher precedence came first. The value is
    /// checked in either case: a mistake that is hidden today breaks the start on the day it is not.
    ///
    /// # Errors
    /// The value is none that the key accepts.
    pub fn offer(&mut self, key: &'static Key, texts: &[&str], source: Source) -> Result<(), ConfigError> {
        match key.kind.parse(texts) {
            Ok(value) if self.get(key.id).is_none() => {
                self.replace(key.id, value, source);
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(problem) => Err(ConfigError::value(key, &texts.join(","), &source, &problem)),
        }
    }

    /// Sets a key whatever was set before: for values that follow from other keys.
    pub fn replace(&mut self, key: KeyId, value: Value, source: Source) {
        let setting = Setting { key, value, source };
        match self.position(key) {
            Some(position) => self.set[position] = setting,
            None => {
                self.set.push(setting);
                // COUNT is far below 255: a test holds it there.
                self.slots[key as usize] = u8::try_from(self.set.len()).unwrap_or(u8::MAX);
            }
        }
    }

    /// The setting of a key, if somebody set it.
    #[must_use]
    pub fn get(&self, key: KeyId) -> Option<&Setting> {
        self.position(key).and_then(|position| self.set.get(position))
    }

    /// Everything that was set, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Setting> {
        self.set.iter()
    }

    /// The effective value as text; never a secret.
    #[must_use]
    pub fn text(&self, key: KeyId) -> String {
        self.get(key).map_or_else(
            || key.key().default.text().to_owned(),
            |setting| setting.value.to_string(),
        )
    }

    /// Who set a key.
    #[must_use]
    pub fn source(&self, key: KeyId) -> &Source {
        self.get(key).map_or(&Source::Default, |setting| &setting.source)
    }

    /// `key = value (source)`, for messages.
    #[must_use]
    pub fn describe(&self, key: KeyId) -> String {
        format!("{} = {} ({})", key.key().label(), self.text(key), self.source(key))
    }

    fn position(&self, key: KeyId) -> Option<usize> {
        usize::from(self.slots[key as usize]).checked_sub(1)
    }
}

/// The value of a key in its own type; `None` when nobody set it.
macro_rules! readers {
    ($($(#[$doc:meta])* $name:ident: $variant:ident($found:ident) -> $type:ty = $value:expr;)*) => {
        impl Settings {$(
            $(#[$doc])*
            pub fn $name(&self, key: KeyId) -> Option<$type> {
                if let Value::$variant($found) = &self.get(key)?.value { Some($value) } else { None }
            }
        )*}
    };
}

readers! {
    /// Of a switch.
    switch: Switch(on) -> bool = *on;
    /// Of a number or a count.
    number: Number(number) -> u64 = *number;
    /// Of a size, in bytes.
    size: Size(bytes) -> u64 = *bytes;
    /// Of a duration.
    duration: Duration(duration) -> Duration = *duration;
    /// Of a short text.
    short_text: Text(text) -> String = text.clone();
    /// Of a path.
    path: Path(path) -> PathBuf = path.clone();
    /// Of a signal.
    signal: Signal(signal) -> crate::signal::Signal = *signal;
    /// Of a list of names.
    names: Names(names) -> Vec<String> = names.clone();
    /// Of a list of user ids.
    uids: Uids(uids) -> Vec<u32> = uids.clone();
    /// Of exit statuses.
    statuses: Statuses(statuses) -> crate::exit::RemapExit = statuses.clone();
    /// Of signal rewrites.
    rewrites: Rewrites(rewrites) -> std::collections::BTreeMap<crate::signal::Signal, Option<crate::signal::Signal>>
        = rewrites.clone();
    /// Of headers.
    headers: Headers(headers) -> Vec<super::network::Header> = headers.clone();
    /// Of a URL.
    url: Url(url) -> super::network::BackendUrl = url.clone();
    /// Of an address to listen on.
    listen: Listen(listen) -> super::network::Listen = *listen;
    /// Of a user.
    user: User(user) -> super::user::UserSpec = user.clone();
    /// Of a secret.
    secret: Secret(secret) -> super::network::Secret = secret.clone();
}

impl Settings {
    /// Of one word out of a few.
    #[must_use]
    pub fn choice<C: Choice>(&self, key: KeyId) -> Option<C> {
        if let Value::Choice(word) = &self.get(key)?.value {
            C::named(word)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_source_stays_and_a_later_one_is_still_checked() {
        let key = KeyId::Concurrency.key();
        let mut settings = Settings::default();
        settings.offer(key, &["3"], Source::CommandLine("concurrency")).unwrap();
        settings
            .offer(key, &["4"], Source::Environment("OJS_CONCURRENCY"))
            .unwrap();
        assert_eq!(settings.number(KeyId::Concurrency), Some(3));
        assert!(settings.offer(key, &["many"], Source::Default).is_err());
    }

    #[test]
    fn a_key_that_nobody_set_shows_its_default() {
        let settings = Settings::default();
        assert_eq!(
            settings.describe(KeyId::GracePeriod),
            "shutdown.grace_period = 30s (default)"
        );
        assert_eq!(settings.number(KeyId::Concurrency), None);
    }

    #[test]
    fn there_is_a_slot_for_every_key() {
        assert!(COUNT < usize::from(u8::MAX));
    }
}
