//! What both loops begin with: the log, and becoming an init.

use std::time::Duration;

use log::{LevelFilter, info, warn};

use crate::config::{Config, LogFormat, LogLevel};
use crate::daemon::agent_options::surroundings;
use crate::daemon::log::{self as log_sink, LogHandle};
use crate::daemon::log_record::Format;
use crate::lifecycle::budget::Surroundings;
use crate::os::entry::Environ;
use crate::os::{init, stdio};

/// Longest that an error message at the end may wait for a slow reader of standard error.
const REPORT_LIMIT: Duration = Duration::from_secs(1);

/// Tells the user on standard error why we cannot go on: as a record of the log once there is one, before that and in
/// subcommands as `ojs-init: ...`.
pub fn report(message: &str) {
    let line = log_sink::fatal(message).unwrap_or_else(|| format!("ojs-init: {message}\n"));
    // Nothing can be said about a standard error that takes nothing; the exit status still tells.
    let _ = stdio::write_error(line.as_bytes(), REPORT_LIMIT);
}

/// Starts the log as configured.
pub fn install_log(config: &Config) -> LogHandle {
    let format = match config.log.format {
        Some(LogFormat::Text) => Some(Format::Text),
        Some(LogFormat::Json) => Some(Format::Json),
        None => None,
    };
    let level = match config.log.level {
        LogLevel::Error => LevelFilter::Error,
        LogLevel::Warn => LevelFilter::Warn,
        LogLevel::Info => LevelFilter::Info,
        LogLevel::Debug => LevelFilter::Debug,
        LogLevel::Trace => LevelFilter::Trace,
    };
    log_sink::install(format, level)
}

/// Adopts orphans, and dies with our parent if that was asked for.
pub fn become_init(config: &Config, environ: &Environ) {
    if let Some(signal) = config.init.parent_death_signal
        && let Err(error) = init::set_parent_death_signal(signal)
    {
        warn!("--parent-death-signal: the kernel refused {signal}: {error}");
    }
    let is_pid_1 = init::is_pid_1();
    if is_pid_1 && !config.init.subreaper {
        return;
    }
    match init::become_subreaper() {
        Ok(()) if is_pid_1 => {}
        // GS 4.3: a shell in between swallows the orchestrator's signals.
        Ok(()) if surroundings(environ) != Surroundings::None && init::has_parent_here() => warn!(
            "not PID 1 of this container: adopting orphans as a subreaper; stop signals arrive only if the process above \
             passes them on, as init programs do and shells do not: use the exec form of ENTRYPOINT, or exec"
        ),
        Ok(()) => info!("not PID 1: adopting orphans as a subreaper"),
        Err(error) => warn!("cannot adopt orphans, which are left to the init above: {error}"),
    }
}
