//! From settings to the typed configuration. Defaults are typed here, so that a start without settings parses
//! nothing; a test holds them to the texts of the table.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use super::choice::{Choice, FinalState, Leftovers, LogLevel, Mode, Restart, StopSignalAction};
use super::environment::Environment;
use super::error::ConfigError;
use super::keys::KeyId;
use super::sections::{Backend, Config, Health, Init, Log, Paths, Process, Shutdown, Signals, Worker};
use super::settings::{Settings, Source};
use super::value::Value;

/// The configuration that these settings mean, combinations not yet looked at.
///
/// # Errors
/// `--no-agent` and another mode, both on the command line.
pub(super) fn config(
    mut settings: Settings,
    mut warnings: Vec<String>,
    environment: &Environment<'_>,
) -> Result<Config, ConfigError> {
    let mode = mode(&mut settings, &mut warnings)?;
    let init = init(&settings);
    let log = log(&mut settings, init.verbosity);
    let settings = settings;
    Ok(Config {
        mode,
        init,
        shutdown: shutdown(&settings),
        process: Process {
            user: settings.user(KeyId::User),
        },
        log,
        backend: backend(&settings),
        worker: worker(&settings),
        signals: Signals {
            on_quiet: settings.signal(KeyId::OnQuiet),
            on_resume: settings.signal(KeyId::OnResume),
            on_terminate: settings.signal(KeyId::OnTerminate),
        },
        health: Health {
            listen: settings.listen(KeyId::Listen),
        },
        paths: paths(&settings, environment),
        settings,
        warnings,
    })
}

/// `--no-agent` is another name for `--mode none`: of the two the one from the higher source counts.
fn mode(settings: &mut Settings, warnings: &mut Vec<String>) -> Result<Mode, ConfigError> {
    let named: Option<Mode> = settings.choice(KeyId::Mode);
    if settings.switch(KeyId::NoAgent) != Some(true) {
        return Ok(named.unwrap_or(Mode::Socket));
    }
    let no_agent = settings.source(KeyId::NoAgent).clone();
    if named.is_some_and(|mode| mode != Mode::None) {
        match (rank(&no_agent), rank(settings.source(KeyId::Mode))) {
            (0, 0) => {
                let clash = format!(
                    "{} and --no-agent exclude each other; leave one of them out",
                    settings.describe(KeyId::Mode)
                );
                return Err(ConfigError::new(&clash));
            }
            (no_agent, mode) if mode < no_agent => return Ok(named.unwrap_or(Mode::Socket)),
            (no_agent, mode) if mode == no_agent => warnings.push(format!(
                "{} has no effect: {} asks for a plain init.",
                settings.describe(KeyId::Mode),
                settings.describe(KeyId::NoAgent),
            )),
            _ => {}
        }
    }
    settings.replace(KeyId::Mode, Value::Choice(Mode::None.name()), no_agent);
    Ok(Mode::None)
}

/// Precedence of a source: the lowest wins.
fn rank(source: &Source) -> u8 {
    match source {
        Source::CommandLine(_) => 0,
        Source::Environment(_) => 1,
        Source::File { .. } => 2,
        Source::Default => 3,
    }
}

fn init(settings: &Settings) -> Init {
    let on = |key| settings.switch(key).unwrap_or(false);
    Init {
        subreaper: on(KeyId::Subreaper),
        parent_death_signal: settings.signal(KeyId::ParentDeathSignal),
        verbosity: small(settings, KeyId::Verbose),
        warn_on_reap: on(KeyId::WarnOnReap),
        process_group: on(KeyId::ProcessGroup),
        remap_exit: settings.statuses(KeyId::RemapExit).unwrap_or_default(),
        rewrite: settings.rewrites(KeyId::Rewrite).unwrap_or_default(),
    }
}

/// A number that its key bounds to 0..=255; 0 when nobody set it.
fn small(settings: &Settings, key: KeyId) -> u8 {
    settings
        .number(key)
        .and_then(|number| u8::try_from(number).ok())
        .unwrap_or_default()
}

fn log(settings: &mut Settings, verbosity: u8) -> Log {
    let format = settings.choice(KeyId::LogFormat);
    let named = settings.choice(KeyId::LogLevel).unwrap_or(LogLevel::Info);
    let level = (0..verbosity).fold(named, |level, _| level.raised());
    if level != named {
        let source = settings.source(KeyId::Verbose).clone();
        settings.replace(KeyId::LogLevel, Value::Choice(level.name()), source);
    }
    Log { format, level }
}

fn shutdown(settings: &Settings) -> Shutdown {
    let grace_period = settings.duration(KeyId::GracePeriod);
    Shutdown {
        grace_period: grace_period.unwrap_or(Duration::from_secs(30)),
        grace_period_is_explicit: grace_period.is_some(),
        termination_grace_period: settings.duration(KeyId::TerminationGracePeriod),
        prestop_time: settings.duration(KeyId::PrestopTime).unwrap_or_default(),
        stop_margin: settings.duration(KeyId::StopMargin),
        cancel_grace: settings.duration(KeyId::CancelGrace).unwrap_or(Duration::from_secs(1)),
        term_delay: settings.duration(KeyId::TermDelay).unwrap_or_default(),
        sigint: settings.choice(KeyId::Sigint).unwrap_or(StopSignalAction::Graceful),
        sigquit: settings.choice(KeyId::Sigquit).unwrap_or(StopSignalAction::Graceful),
        interrupted_exit: small(settings, KeyId::InterruptedExit),
    }
}

fn backend(settings: &Settings) -> Backend {
    let text = |key, otherwise: &str| settings.short_text(key).unwrap_or_else(|| otherwise.to_owned());
    Backend {
        url: settings.url(KeyId::Url),
        auth_token_file: settings.path(KeyId::AuthTokenFile),
        auth_token: settings.secret(KeyId::AuthToken),
        pass_token: settings.switch(KeyId::PassToken).unwrap_or(false),
        final_state: settings.choice(KeyId::FinalState).unwrap_or(FinalState::Terminate),
        headers: settings.headers(KeyId::Headers).unwrap_or_default(),
        ca_file: settings.path(KeyId::CaFile),
        cert_file: settings.path(KeyId::CertFile),
        key_file: settings.path(KeyId::KeyFile),
        connect_timeout: settings
            .duration(KeyId::ConnectTimeout)
            .unwrap_or(Duration::from_secs(5)),
        request_timeout: settings
            .duration(KeyId::RequestTimeout)
            .unwrap_or(Duration::from_secs(10)),
        leftovers: settings.choice(KeyId::Leftovers).unwrap_or(Leftovers::Fail),
        shutdown_error_type: text(KeyId::ShutdownErrorType, "ShutdownError"),
        shutdown_error_code: text(KeyId::ShutdownErrorCode, "shutdown"),
    }
}

/// Time between heartbeats when nobody sets it, unless a third of the visibility timeout is less.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

fn worker(settings: &Settings) -> Worker {
    let visibility_timeout = settings
        .duration(KeyId::VisibilityTimeout)
        .unwrap_or(Duration::from_secs(120));
    let heartbeat_interval = settings.duration(KeyId::HeartbeatInterval);
    let concurrency = settings
        .number(KeyId::Concurrency)
        .and_then(|number| u32::try_from(number).ok());
    Worker {
        queues: settings
            .names(KeyId::Queues)
            .unwrap_or_else(|| vec!["default".to_owned()]),
        concurrency: concurrency.unwrap_or(10),
        labels: settings.names(KeyId::Labels).unwrap_or_default(),
        poll_interval: settings.duration(KeyId::PollInterval).unwrap_or(Duration::from_secs(1)),
        heartbeat_interval: heartbeat_interval.unwrap_or(HEARTBEAT_INTERVAL.min(visibility_timeout / 3)),
        heartbeat_interval_is_explicit: heartbeat_interval.is_some(),
        visibility_timeout,
        restart: settings.choice(KeyId::Restart).unwrap_or(Restart::Hung),
        server_resume: settings.switch(KeyId::ServerResume).unwrap_or(false),
        timeout_grace: settings
            .duration(KeyId::TimeoutGrace)
            .unwrap_or(Duration::from_secs(30)),
        socket_users: settings.uids(KeyId::SocketUsers).unwrap_or_default(),
        ready_timeout: settings
            .duration(KeyId::ReadyTimeout)
            .unwrap_or(Duration::from_secs(60)),
        type_wait: settings.duration(KeyId::TypeWait).unwrap_or(Duration::from_secs(5)),
        max_frame: settings.size(KeyId::MaxFrame).unwrap_or(4 << 20),
        tell_worker: settings.switch(KeyId::TellWorker).unwrap_or(false),
    }
}

/// Where files are.
pub(super) fn paths(settings: &Settings, environment: &Environment<'_>) -> Paths {
    Paths {
        runtime_dir: settings.path(KeyId::RuntimeDir),
        user_runtime_dir: environment
            .user_runtime_dir()
            .map(|bytes| PathBuf::from(OsStr::from_bytes(bytes))),
        termination_log: settings.path(KeyId::TerminationLog),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::given::{Given, assert_says};

    #[test]
    fn no_agent_goes_before_a_mode_of_the_same_or_a_lower_source() {
        let mode = |given: Given| given.config().mode;
        assert_eq!(mode(Given::no_agent().variable("OJS_MODE=socket")), Mode::None);
        assert_eq!(
            mode(Given::agent().variable("OJS_INIT_NO_AGENT=1").flag(KeyId::Mode, "exec")),
            Mode::Exec
        );
        assert_eq!(mode(Given::agent().flag(KeyId::NoAgent, "false")), Mode::Socket);

        let both = Given::default()
            .variable("OJS_INIT_NO_AGENT=1")
            .variable("OJS_MODE=exec")
            .config();
        assert_eq!((both.mode, both.warnings.len()), (Mode::None, 1));
        assert_eq!(
            both.settings.describe(KeyId::Mode),
            "worker.mode = none (environment OJS_INIT_NO_AGENT)"
        );

        assert_says(
            &Given::no_agent().flag(KeyId::Mode, "exec").error(),
            &["--no-agent", "worker.mode = exec"],
        );
    }

    #[test]
    fn v_raises_the_level_and_show_says_so() {
        let config = Given::no_agent()
            .flag(KeyId::Verbose, "1")
            .variable("OJS_LOG_LEVEL=WARNING")
            .config();
        assert_eq!((config.log.level, config.init.verbosity), (LogLevel::Info, 1));
        let config = Given::no_agent().variable("OJS_INIT_VERBOSE=3").config();
        assert_eq!(config.log.level, LogLevel::Trace);
        assert_eq!(
            config.settings.describe(KeyId::LogLevel),
            "log.level = trace (environment OJS_INIT_VERBOSE)"
        );
    }
}
