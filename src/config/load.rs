//! Merges the three sources of settings into one configuration, or its errors.

use log::Level;

use super::build::{HAS_AGENT, absent};
use super::environment::Environment;
use super::error::{ConfigError, ConfigErrors};
use super::flags::Flags;
use super::key::Row;
use super::keys::{
    CONCURRENCY, CONFIG_FILE, LOG_FORMAT, LOG_LEVEL, MODE, NO_AGENT, ONCE, RUNTIME_DIR, TERMINATION_LOG, URL, VERBOSE,
};
use super::sections::{Config, Paths};
use super::settings::Settings;
use super::values::enums::{LogFormat, Mode};
use super::{collector_choice, file, misspelt, of_others, proxy_choice, validate};

/// The merged configuration of the flags, the environment and the TOML file.
///
/// # Errors
/// Messages that name key, value, source and the accepted values. An unreadable file, unknown keys
/// and values that their keys do not accept are reported together. If there are none of these, all
/// impossible combinations are.
pub fn load(flags: &Flags, environment: &Environment<'_>) -> Result<Config, ConfigErrors> {
    let mut settings = Settings::default();
    let mut warnings = Vec::new();
    let mut mistakes = Vec::new();
    let mut note = |_: Option<&Row>, error: ConfigError| {
        mistakes.push(error);
        Ok(())
    };
    flags.apply(&mut settings, &mut note)?;
    environment.apply(&mut settings, &mut warnings, &mut note)?;
    file::apply(&mut settings, &mut note)?;
    ConfigErrors::none_of(mistakes)?;
    apply_no_agent(&mut settings, &mut warnings)?;
    if HAS_AGENT {
        apply_once(&mut settings, &mut warnings);
    }
    raise_level(&mut settings);
    let mode = settings.value(&MODE);
    if HAS_AGENT {
        proxy_choice::apply(&mut settings, mode, environment, &mut warnings)?;
        collector_choice::apply(&mut settings);
    } else if mode != Mode::None {
        return Err(ConfigError::new(&absent(&settings.describe(&MODE))).into());
    } else if environment.names_a_backend() && !settings.is_set(&MODE) {
        warnings.push(format!(
            "{} is set, and no jobs are fetched: this build of ojs-init is the plain init alone; install the full ojs-init, or \
             add --no-agent if that is meant.",
            URL.env[0]
        ));
    }
    let mut config = Config::of(settings, warnings, environment);
    let misspelt = misspelt::warnings(environment.unknown(), &config);
    // A missing key may be there under a wrong name.
    validate::check(&mut config).map_err(|error| error.with_hints(&misspelt))?;
    config.warnings.extend(misspelt);
    let of_others = of_others::warnings(environment, &config);
    config.warnings.extend(of_others);
    Ok(config)
}

/// The places of instances, as in the result of [`load`], and a warning for each other fault. A
/// hook must not fail because of a setting that it does not need.
///
/// # Errors
/// A flag, or another source of `paths.runtime_dir` or of the file's name, has a value that its key
/// does not accept.
pub fn load_paths(flags: &Flags, environment: &Environment<'_>) -> Result<(Paths, Vec<String>), ConfigError> {
    let mut settings = Settings::default();
    let mut warnings = Vec::new();
    flags.apply(&mut settings, &mut |_, error| Err(error))?;
    let mut pass_over = |key: Option<&Row>, error: ConfigError| {
        if key.is_some_and(|key| *key == *RUNTIME_DIR || *key == *CONFIG_FILE) {
            return Err(error);
        }
        warnings.push(error.to_string());
        Ok(())
    };
    // Warnings were logged when the instance started.
    environment.apply(&mut settings, &mut Vec::new(), &mut pass_over)?;
    file::apply(&mut settings, &mut pass_over)?;
    Ok((Paths::of(&settings, environment), warnings))
}

/// The way to report an error. Mistakes are ignored, because one of them is the reported error.
pub fn salvage(flags: &Flags, environment: &Environment<'_>) -> Salvaged {
    let mut settings = Settings::default();
    let mut pass_over = |_: Option<&Row>, _: ConfigError| Ok(());
    // Only mistakes are left, and they are ignored.
    let _ = flags.apply(&mut settings, &mut pass_over);
    let _ = environment.apply(&mut settings, &mut Vec::new(), &mut pass_over);
    let _ = file::apply(&mut settings, &mut pass_over);
    Salvaged {
        format: settings.value(&LOG_FORMAT),
        termination_log: settings.value(&TERMINATION_LOG),
        mode: settings.value(&MODE),
    }
}

/// The result of [`salvage`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvaged {
    /// `log.format`, if it is set to a valid format.
    pub format: Option<LogFormat>,
    /// `paths.termination_log`, if it is set to a valid path.
    pub termination_log: Option<std::path::PathBuf>,
    /// `worker.mode`, as far as it is readable.
    pub mode: Mode,
}

/// `--no-agent` is another name for `--mode none`: of the two the one from the higher source
/// counts.
fn apply_no_agent(settings: &mut Settings, warnings: &mut Vec<String>) -> Result<(), ConfigError> {
    let named = settings.value(&MODE);
    if !settings.value(&NO_AGENT) {
        return Ok(());
    }
    let no_agent = settings.source(&NO_AGENT).clone();
    if settings.is_set(&MODE) && named != Mode::None {
        match (no_agent.rank(), settings.source(&MODE).rank()) {
            (0, 0) => {
                let clash = format!(
                    "{} and --no-agent exclude each other; leave one of them out",
                    settings.describe(&MODE)
                );
                return Err(ConfigError::new(&clash));
            }
            (no_agent, mode) if mode < no_agent => return Ok(()),
            (no_agent, mode) if mode == no_agent => warnings.push(format!(
                "{} has no effect: {} asks for a plain init.",
                settings.describe(&MODE),
                settings.describe(&NO_AGENT),
            )),
            _ => {}
        }
    }
    settings.replace(&MODE, Mode::None, no_agent);
    Ok(())
}

/// `--once` fetches one job, so the concurrency is one as well.
fn apply_once(settings: &mut Settings, warnings: &mut Vec<String>) {
    if !settings.value(&ONCE) || settings.value(&MODE) == Mode::None {
        return;
    }
    if settings.is_set(&CONCURRENCY) && settings.value(&CONCURRENCY) > 1 {
        warnings.push(format!(
            "{} has no effect: {} asks for one job.",
            settings.describe(&CONCURRENCY),
            settings.describe(&ONCE),
        ));
    }
    let source = settings.source(&ONCE).clone();
    settings.replace(&CONCURRENCY, 1, source);
}

/// Each `-v` makes the log one step more talkative.
fn raise_level(settings: &mut Settings) {
    let mut levels = settings.value(&LOG_LEVEL);
    let named = levels.level;
    let steps = usize::from(settings.value(&VERBOSE).0);
    // The levels count from 1.
    levels.level = Level::iter().nth(named as usize - 1 + steps).unwrap_or(Level::Trace);
    if levels.level != named {
        let source = settings.source(&VERBOSE).clone();
        settings.replace(&LOG_LEVEL, levels, source);
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
