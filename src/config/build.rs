//! From settings to the typed configuration.

use super::environment::Environment;
use super::error::ConfigError;
use super::keys::{LOG_LEVEL, MODE, NO_AGENT, VERBOSE};
use super::sections::Config;
use super::settings::Settings;
use super::values::enums::Mode;

/// The configuration that these settings mean, combinations not yet looked at.
///
/// # Errors
/// `--no-agent` and another mode, both on the command line.
pub(super) fn config(
    mut settings: Settings,
    mut warnings: Vec<String>,
    environment: &Environment<'_>,
) -> Result<Config, ConfigError> {
    apply_no_agent(&mut settings, &mut warnings)?;
    raise_level(&mut settings);
    Ok(Config::of(settings, warnings, environment))
}

/// `--no-agent` is another name for `--mode none`: of the two the one from the higher source counts.
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

/// Each `-v` makes the log one step more talkative.
fn raise_level(settings: &mut Settings) {
    let named = settings.value(&LOG_LEVEL);
    let level = (0..settings.value(&VERBOSE).0).fold(named, |level, _| level.raised());
    if level != named {
        let source = settings.source(&VERBOSE).clone();
        settings.replace(&LOG_LEVEL, level, source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::test_support::{Given, assert_says};
    use crate::config::values::enums::LogLevel;

    #[test]
    fn no_agent_goes_before_a_mode_of_the_same_or_a_lower_source() {
        let mode = |given: Given| given.config().mode;
        assert_eq!(mode(Given::no_agent().variable("OJS_MODE=socket")), Mode::None);
        assert_eq!(
            mode(Given::agent().variable("OJS_INIT_NO_AGENT=1").flag(&MODE, "exec")),
            Mode::Exec
        );
        assert_eq!(mode(Given::agent().flag(&NO_AGENT, "false")), Mode::Socket);

        let both = Given::default()
            .variable("OJS_INIT_NO_AGENT=1")
            .variable("OJS_MODE=exec")
            .config();
        assert_eq!((both.mode, both.warnings.len()), (Mode::None, 1));
        assert_eq!(
            both.settings.describe(&MODE),
            "worker.mode = none (environment OJS_INIT_NO_AGENT)"
        );

        assert_says(
            &Given::no_agent().flag(&MODE, "exec").error(),
            &["--no-agent", "worker.mode = exec"],
        );
    }

    #[test]
    fn v_raises_the_level_and_show_says_so() {
        let config = Given::no_agent()
            .flag(&VERBOSE, "1")
            .variable("OJS_LOG_LEVEL=WARNING")
            .config();
        assert_eq!((config.log.level, config.init.verbosity), (LogLevel::Info, 1));
        let config = Given::no_agent().variable("OJS_INIT_VERBOSE=3").config();
        assert_eq!(config.log.level, LogLevel::Trace);
        assert_eq!(
            config.settings.describe(&LOG_LEVEL),
            "log.level = trace (environment OJS_INIT_VERBOSE)"
        );
    }
}
