//! What ojs-init was told, by whom, and whether it makes sense: command line, environment and TOML file become one
//! typed [`Config`] that remembers the source of each value.
//!
//! The table in [`keys`] is the heart. Everything else reads it: [`flags`](Flags), [`Environment`] and the file give
//! texts, `value` turns them into typed values, `settings` keeps the one of highest precedence, `build` fills the
//! sections, `combine` looks at them together.

#![forbid(unsafe_code)]

mod build;
mod choice;
mod combine;
mod doubtful_times;
pub mod duration;
mod environment;
mod error;
mod file;
mod flags;
pub mod keys;
mod misspelt;
mod network;
mod sections;
mod settings;
mod show;
mod user;
mod value;

pub use choice::{Choice, FinalState, Leftovers, LogFormat, LogLevel, Mode, Restart, StopSignalAction};
pub use doubtful_times::doubtful_times;
pub use environment::Environment;
pub use error::{ConfigError, most_alike};
pub use file::{DEFAULT_PATH, MAX_FILE_BYTES};
pub use flags::Flags;
pub use keys::KeyId;
pub use network::{BackendUrl, Header, Listen, Secret};
pub use sections::{Backend, Config, Health, Init, Log, Paths, Process, Shutdown, Signals, Worker};
pub use settings::{Setting, Settings, Source};
pub use show::{check_report, show, warning_lines};
pub use user::UserSpec;
pub use value::Value;

/// The configuration that the flags, the environment and the TOML file make together.
///
/// # Errors
/// One message that names key, value, source and what is accepted: an unreadable file, an unknown key, a value that
/// its key does not accept, or an impossible combination.
pub fn load(flags: &Flags, environment: &Environment<'_>) -> Result<Config, ConfigError> {
    let mut settings = Settings::default();
    let mut warnings = Vec::new();
    flags.apply(&mut settings)?;
    let mut refuse = |_: Option<KeyId>, error: ConfigError| Err(error);
    environment.apply(&mut settings, &mut warnings, &mut refuse)?;
    file::apply(&mut settings, &mut refuse)?;
    let mut config = build::config(settings, warnings, environment)?;
    let misspelt = misspelt::warnings(environment.unknown(), &config);
    // What is missing may be there under a wrong name.
    combine::check(&mut config).map_err(|error| error.with_hints(&misspelt))?;
    config.warnings.extend(misspelt);
    Ok(config)
}

/// Where instances may be, as [`load`] would find it, and a warning for everything else that is wrong: a hook must not come
/// to nothing because of a setting that it does not need.
///
/// # Errors
/// A flag, or another source of `paths.runtime_dir` or of the file's name, has a value that its key does not accept.
pub fn load_paths(flags: &Flags, environment: &Environment<'_>) -> Result<(Paths, Vec<String>), ConfigError> {
    let mut settings = Settings::default();
    let mut warnings = Vec::new();
    flags.apply(&mut settings)?;
    let mut pass_over = |key: Option<KeyId>, error: ConfigError| match key {
        Some(KeyId::RuntimeDir | KeyId::ConfigFile) => Err(error),
        Some(_) | None => {
            warnings.push(error.to_string());
            Ok(())
        }
    };
    // What is only doubtful was said when the instance started.
    environment.apply(&mut settings, &mut Vec::new(), &mut pass_over)?;
    file::apply(&mut settings, &mut pass_over)?;
    Ok((build::paths(&settings, environment), warnings))
}

/// What can be known of how to report an error: every mistake is passed over, since one of them is what is reported.
#[must_use]
pub fn salvage(flags: &Flags, environment: &Environment<'_>) -> Salvaged {
    let mut settings = Settings::default();
    let mut pass_over = |_: Option<KeyId>, _: ConfigError| Ok(());
    flags.apply_what_is_right(&mut settings);
    // Nothing is left to object to.
    let _ = environment.apply(&mut settings, &mut Vec::new(), &mut pass_over);
    let _ = file::apply(&mut settings, &mut pass_over);
    Salvaged {
        format: settings.choice(KeyId::LogFormat),
        termination_log: settings.path(KeyId::TerminationLog),
    }
}

/// See [`salvage`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvaged {
    /// `log.format`, if somebody set it and it is one.
    pub format: Option<LogFormat>,
    /// `paths.termination_log`, the same.
    pub termination_log: Option<std::path::PathBuf>,
}

/// What to do about a mistake in the value of a key, or about one of no key: an error to give up with, or nothing.
type Objection<'o> = &'o mut dyn FnMut(Option<KeyId>, ConfigError) -> Result<(), ConfigError>;

#[cfg(test)]
mod given;
#[cfg(test)]
mod load_tests;
