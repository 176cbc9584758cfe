//! For the tests: a configuration from flags, variables and a file.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::keys::{CONFIG_FILE, NO_AGENT};
use super::{Config, ConfigError, ConfigErrors, Environment, Flags, Paths, Row, load, load_paths};

/// All inputs of a configuration; loaded by its methods.
#[derive(Default)]
pub(super) struct Given {
    pub flags: Flags,
    variables: Vec<String>,
    pub file: Option<PathBuf>,
}

impl Given {
    /// A plain init without further settings.
    pub fn no_agent() -> Self {
        Self::default().flag(&NO_AGENT, "true")
    }

    /// The least that the agent needs.
    pub fn agent() -> Self {
        Self::default().variable("OJS_URL=http://backend")
    }

    pub fn flag(mut self, key: &'static Row, value: &str) -> Self {
        self.flags.push(key, vec![value.into()]);
        self
    }

    pub fn variable(mut self, entry: &str) -> Self {
        self.variables.push(entry.to_owned());
        self
    }

    pub fn file(mut self, text: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ojs-init-config-{}-{number}.toml", std::process::id()));
        fs::write(&path, text).unwrap();
        self.flags.push(&CONFIG_FILE, vec![path.clone().into()]);
        self.file = Some(path);
        self
    }

    pub fn load(&self) -> Result<Config, ConfigErrors> {
        load(
            &self.flags,
            &Environment::from_entries(self.variables.iter().map(String::as_bytes)),
        )
    }

    pub fn paths(&self) -> Result<(Paths, Vec<String>), ConfigError> {
        let entries = self.variables.iter().map(String::as_bytes);
        load_paths(&self.flags, &Environment::from_entries(entries))
    }

    pub fn config(&self) -> Config {
        self.load().unwrap()
    }

    pub fn errors(&self) -> Vec<String> {
        self.load().unwrap_err().messages()
    }

    /// The error, which must be the only one.
    pub fn error(&self) -> String {
        let error = self.errors().join("\n");
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        if let Some(path) = &self.file {
            let _ = fs::remove_file(path);
        }
    }
}

/// Asserts that the error contains all these parts.
#[track_caller]
pub(super) fn assert_says(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in: {error}");
    }
}
