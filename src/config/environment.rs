//! The environment, read once from its raw entries.

use std::sync::Arc;

use ojs_values::small;

use super::error::{ConfigError, OnMistake};
use super::key::Row;
use super::keys::{CONFIG_FILE, KEYS, URL};
use super::settings::Settings;
use super::source::Source;

/// The beginning of the ecosystem's variables.
const OURS: &[u8] = b"OJS_";

/// The beginning of OpenTelemetry's variables. They are for COMMAND first, so no mistake in one
/// keeps it from its start.
const OF_TELEMETRY: &[u8] = b"OTEL_";

/// Variables without that prefix that are read: the proxies of all programs, the variables of tini,
/// HOME, and XDG_RUNTIME_DIR.
const OF_OTHERS: [&str; 11] = [
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "NO_PROXY",
    "no_proxy",
    "TINI_KILL_PROCESS_GROUP",
    "TINI_SUBREAPER",
    "TINI_VERBOSITY",
    "HOME",
    "XDG_RUNTIME_DIR",
];

/// The variables that matter, as raw bytes. An empty one counts as unset.
#[derive(Clone, Default)]
pub struct Environment<'a> {
    known: Vec<Variable<'a>>,
    unknown: Vec<&'a [u8]>,
    /// One of the variables for the backend's address is set, and this build reads none of them.
    names_a_backend: bool,
    /// Variables of other programs, or of all, that ojs-init reads.
    of_others: Vec<(&'static str, &'a [u8])>,
}

#[derive(Clone)]
struct Variable<'a> {
    key: &'static Row,
    /// Position among the variables of the key: the lowest wins.
    rank: usize,
    value: &'a [u8],
}

impl<'a> Environment<'a> {
    /// Selects the variables that ojs-init reads from `NAME=value` entries. Entries of another form
    /// are left out. Of two equal names the first counts, as for getenv.
    pub fn from_entries(entries: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut environment = Self::default();
        for entry in entries {
            if entry.starts_with(OURS) || entry.starts_with(OF_TELEMETRY) {
                environment.add(entry);
            } else {
                environment.add_of_others(entry);
            }
        }
        let place = |variable: &Variable| (variable.key.position, variable.rank);
        small::sort_by(&mut environment.known, |one, other| place(one) < place(other));
        environment
    }

    /// The names of variables with the prefix of ojs-init that no key has, in the order of the
    /// environment.
    pub(super) fn unknown(&self) -> &[&'a [u8]] {
        &self.unknown
    }

    /// True if a variable names a backend that this build cannot talk to.
    pub(super) fn names_a_backend(&self) -> bool {
        self.names_a_backend
    }

    /// The value of a variable of [`OF_OTHERS`], unless it is empty.
    pub(super) fn of_others(&self, name: &str) -> Option<&'a [u8]> {
        self.of_others_or_empty(name).filter(|value| !value.is_empty())
    }

    /// Like [`Environment::of_others`], and returns an empty value as well.
    pub(super) fn of_others_or_empty(&self, name: &str) -> Option<&'a [u8]> {
        let found = self.of_others.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }

    fn add_of_others(&mut self, entry: &'a [u8]) {
        let named = |name: &&'static str| Some((*name, entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?));
        if let Some((name, value)) = OF_OTHERS.iter().find_map(named)
            && self.of_others_or_empty(name).is_none()
        {
            self.of_others.push((name, value));
        }
    }

    fn add(&mut self, entry: &'a [u8]) {
        let Some(end) = entry.iter().position(|byte| *byte == b'=') else {
            return;
        };
        let (name, value) = (&entry[..end], &entry[end + 1..]);
        if value.is_empty() {
            return;
        }
        for key in KEYS {
            if let Some(rank) = key.env.iter().position(|known| known.as_bytes() == name) {
                if !key.is_built_in() && *key != *CONFIG_FILE {
                    // COMMAND may read it.
                    self.names_a_backend |= *key == *URL;
                    return;
                }
                if !self.known.iter().any(|other| other.key == key && other.rank == rank) {
                    self.known.push(Variable { key, rank, value });
                }
                return;
            }
        }
        if name.starts_with(OURS) {
            self.unknown.push(name);
        }
    }

    /// Puts every variable into the settings. Of several for one key the first listed wins.
    ///
    /// # Errors
    /// A value is none that its key accepts, unless that is passed over.
    pub(super) fn apply(
        &self,
        settings: &mut Settings,
        warnings: &mut Vec<String>,
        on_mistake: OnMistake<'_>,
    ) -> Result<(), ConfigError> {
        for (position, variable) in self.known.iter().enumerate() {
            let winner = self.known[..position].iter().find(|other| other.key == variable.key);
            warnings.extend(winner.and_then(|winner| winner.difference(variable)));
            // A hidden value is checked as well.
            match variable.offer(settings) {
                Ok(()) => {}
                Err(error) if variable.name().as_bytes().starts_with(OF_TELEMETRY) => {
                    warnings.push(format!("{error}; ojs-init ignores it, and COMMAND gets it as it is."));
                }
                Err(error) => on_mistake(Some(variable.key), error)?,
            }
        }
        Ok(())
    }
}

impl Variable<'_> {
    fn name(&self) -> &'static str {
        self.key.env[self.rank]
    }

    fn offer(&self, settings: &mut Settings) -> Result<(), ConfigError> {
        settings.offer_raw(self.key, [self.value], Source::Environment(self.name()))
    }

    /// A warning if another variable of the key, which is not used, has a different value.
    fn difference(&self, loser: &Self) -> Option<String> {
        let read = |variable: &Self| {
            let mut settings = Settings::default();
            variable.offer(&mut settings).ok()?;
            settings.get(self.key).map(|setting| Arc::clone(&setting.value))
        };
        let is_same = read(self)
            .zip(read(loser))
            .is_some_and(|(winning, losing)| winning.equals(&*losing));
        (!is_same).then(|| {
            format!(
                "{} and {} differ: {} is used for {}.",
                self.name(),
                loser.name(),
                self.name(),
                self.key.label()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::config::test_support::{Given, assert_says};
    use crate::config::{Flags, load};

    #[test]
    fn an_empty_variable_counts_as_unset() {
        let config = Given::agent()
            .variable("OJS_CONCURRENCY=")
            .variable("OJS_GRACE_PERIOD=")
            .config();
        assert_eq!(config.worker.concurrency, 10);
        assert!(!config.shutdown.limits.grace_period_is_explicit);
    }

    #[test]
    fn of_several_variables_the_first_listed_wins_with_a_warning_when_they_differ() {
        let config = Given::agent()
            .variable("OJS_GRACE_PERIOD=7")
            .variable("OJS_SHUTDOWN_GRACE_PERIOD=8")
            .config();
        assert_eq!(config.shutdown.limits.grace_period.as_secs(), 8);
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
        assert_says(&error.messages()[0], &["OJS_QUEUES", "not UTF-8"]);
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
    fn the_directory_of_the_user_is_kept() {
        let entries: [&[u8]; 1] = [b"XDG_RUNTIME_DIR=/run/user/7"];
        let environment = Environment::from_entries(entries.into_iter());
        let config = load(&Given::no_agent().flags, &environment).unwrap();
        assert_eq!(config.paths.user_runtime_dir, Some(PathBuf::from("/run/user/7")));
    }
}
