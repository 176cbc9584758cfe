//! The environment, read once from its raw entries.

use super::Objection;
use super::error::ConfigError;
use super::keys::{KEYS, KeyId};
use super::settings::{Settings, Source};

/// Variables of the ecosystem begin with this.
const OURS: &[u8] = b"OJS_";

/// The variables that matter, as raw bytes. An empty one counts as unset.
#[derive(Clone, Default)]
pub struct Environment<'a> {
    known: Vec<Variable<'a>>,
    unknown: Vec<&'a [u8]>,
    in_kubernetes: bool,
    user_runtime_dir: Option<&'a [u8]>,
}

#[derive(Clone)]
struct Variable<'a> {
    key: KeyId,
    /// Position among the variables of the key: the lowest wins.
    rank: usize,
    value: &'a [u8],
}

impl<'a> Environment<'a> {
    /// Picks the variables that matter out of `NAME=value` entries. Entries of any other form are left out; of two
    /// with the same name the first counts, as for getenv.
    pub fn from_entries(entries: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut environment = Self::default();
        for entry in entries {
            if entry.starts_with(OURS) {
                environment.add(entry);
            } else if let Some(host) = entry.strip_prefix(b"KUBERNETES_SERVICE_HOST=") {
                environment.in_kubernetes |= !host.is_empty();
            } else if let Some(directory) = entry.strip_prefix(b"XDG_RUNTIME_DIR=") {
                environment.user_runtime_dir = environment.user_runtime_dir.or(Some(directory));
            }
        }
        environment.known.sort_by_key(|variable| (variable.key, variable.rank));
        environment
    }

    /// Whether this is a container of Kubernetes.
    #[must_use]
    pub fn in_kubernetes(&self) -> bool {
        self.in_kubernetes
    }

    /// `XDG_RUNTIME_DIR`, unless it is empty.
    #[must_use]
    pub fn user_runtime_dir(&self) -> Option<&'a [u8]> {
        self.user_runtime_dir.filter(|directory| !directory.is_empty())
    }

    /// The names of variables that begin as ours do and are none of them, in the order of the environment.
    pub(super) fn unknown(&self) -> &[&'a [u8]] {
        &self.unknown
    }

    fn add(&mut self, entry: &'a [u8]) {
        let Some(end) = entry.iter().position(|byte| *byte == b'=') else {
            return;
        };
        let (name, value) = (&entry[..end], &entry[end + 1..]);
        if value.is_empty() {
            return;
        }
        for key in &KEYS {
            if let Some(rank) = key.env.iter().position(|known| known.as_bytes() == name) {
                if !self.known.iter().any(|other| other.key == key.id && other.rank == rank) {
                    self.known.push(Variable {
                        key: key.id,
                        rank,
                        value,
                    });
                }
                return;
            }
        }
        self.unknown.push(name);
    }

    /// Puts every variable into the settings. Of several for one key the first listed wins.
    ///
    /// # Errors
    /// A value is none that its key accepts, unless that is passed over.
    pub(super) fn apply(
        &self,
        settings: &mut Settings,
        warnings: &mut Vec<String>,
        object: Objection<'_>,
    ) -> Result<(), ConfigError> {
        for (position, variable) in self.known.iter().enumerate() {
            let winner = self.known[..position].iter().find(|other| other.key == variable.key);
            warnings.extend(winner.and_then(|winner| winner.difference(variable)));
            // A value that another one hides is checked all the same.
            variable
                .offer(settings)
                .or_else(|error| object(Some(variable.key), error))?;
        }
        Ok(())
    }
}

impl Variable<'_> {
    fn name(&self) -> &'static str {
        self.key.key().env[self.rank]
    }

    fn offer(&self, settings: &mut Settings) -> Result<(), ConfigError> {
        let (key, source) = (self.key.key(), Source::Environment(self.name()));
        let Ok(text) = str::from_utf8(self.value) else {
            return Err(ConfigError::value(
                key,
                &String::from_utf8_lossy(self.value),
                &source,
                "is not UTF-8",
            ));
        };
        let mut texts = Vec::new();
        key.kind.split(text, &mut texts);
        settings.offer(key, &texts, source)
    }

    /// A warning when the other one, which loses, means something else.
    fn difference(&self, loser: &Self) -> Option<String> {
        let mut values = [Settings::default(), Settings::default()];
        let read = |variable: &Self, into: &mut Settings| variable.offer(into).is_ok();
        let [winning, losing] = &mut values;
        let is_same = read(self, winning)
            && read(loser, losing)
            && winning.get(self.key).map(|setting| &setting.value)
                == losing.get(self.key).map(|setting| &setting.value);
        (!is_same).then(|| {
            format!(
                "{} and {} differ: {} is used for {}.",
                self.name(),
                loser.name(),
                self.name(),
                self.key.key().label()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::config::given::{Given, assert_says};
    use crate::config::{Flags, load};

    #[test]
    fn an_empty_variable_counts_as_unset() {
        let config = Given::agent()
            .variable("OJS_CONCURRENCY=")
            .variable("OJS_GRACE_PERIOD=")
            .config();
        assert_eq!(config.worker.concurrency, 10);
        assert!(!config.shutdown.grace_period_is_explicit);
    }

    #[test]
    fn of_several_variables_the_first_listed_wins_with_a_warning_when_they_differ() {
        let config = Given::agent()
            .variable("OJS_GRACE_PERIOD=7")
            .variable("OJS_SHUTDOWN_GRACE_PERIOD=8")
            .config();
        assert_eq!(config.shutdown.grace_period.as_secs(), 8);
        assert_eq!(config.warnings.len(), 1);
        assert_says(&config.warnings[0], &["OJS_SHUTDOWN_GRACE_PERIOD", "OJS_GRACE_PERIOD"]);

        let same = Given::agent()
            .variable("OJS_GRACE_PERIOD=8s")
            .variable("OJS_SHUTDOWN_TIMEOUT=8")
            .config();
        assert_eq!(same.warnings, [""; 0]);
    }

    #[test]
    fn a_value_that_is_not_utf8_is_an_error() {
        let environment = [b"OJS_QUEUES=\xff".as_slice()];
        let error = load(&Flags::default(), &Environment::from_entries(environment.into_iter())).unwrap_err();
        assert_says(&error.to_string(), &["OJS_QUEUES", "not UTF-8"]);
    }

    #[test]
    fn nothing_in_the_environment_makes_reading_it_panic() {
        let entries: [&[u8]; 6] = [b"", b"=", b"OJS_", b"OJS_INIT_", b"OJS_INIT_\xff=\xff", b"OJS_QUEUES"];
        let config = load(
            &Given::no_agent().flags,
            &Environment::from_entries(entries.into_iter()),
        )
        .unwrap();
        assert_eq!(config.warnings.len(), 1);
    }

    #[test]
    fn the_surroundings_are_kept() {
        let entries: [&[u8]; 2] = [b"KUBERNETES_SERVICE_HOST=10.0.0.1", b"XDG_RUNTIME_DIR=/run/user/7"];
        let environment = Environment::from_entries(entries.into_iter());
        assert!(environment.in_kubernetes());
        let config = load(&Given::no_agent().flags, &environment).unwrap();
        assert_eq!(config.paths.user_runtime_dir, Some(PathBuf::from("/run/user/7")));
    }
}
