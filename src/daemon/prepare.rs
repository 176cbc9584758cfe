//! The beginning of both loops: the log, and becoming an init.

use std::ffi::OsString;

use log::{Level, info, warn};

use crate::cli;
use crate::cli::salvage::{self, Intent};
use crate::config::{self, Config, Environment, Flags, LogFormat, LogLevels, Mode};
use crate::daemon::log::report::report_all;
use crate::daemon::log::sink::{self as log_sink, LogHandle};
use crate::daemon::log::termination::TerminationLog;
use crate::daemon::surroundings::{doubtful_times, surroundings};
use ojs_lifecycle::api::Surroundings;
use ojs_os::entry::Environ;
use ojs_os::init;
use ojs_values::exit::Exit;
use ojs_wire::termination_log;

/// The loaded configuration, for a run with this command. The command may be empty only if the
/// configuration has its own programs. If the configuration could not be loaded and COMMAND is
/// missing as well, the error names COMMAND.
///
/// # Errors
/// The errors of loading, or a missing COMMAND.
pub fn with_command(
    loaded: Result<Config, Vec<String>>,
    flags: &Flags,
    command: &[OsString],
    environ: &Environ,
) -> Result<Config, Vec<String>> {
    let lacks_command = command.is_empty()
        && match &loaded {
            Ok(config) => config.needs_command(),
            Err(_) => config::salvage(flags, &Environment::from_entries(environ.entries())).mode != Mode::Exec,
        };
    if lacks_command {
        return Err(vec![cli::no_command()]);
    }
    loaded
}

/// Reports why COMMAND does not run at all. Each record has the log's format, as far as a faulty
/// configuration shows it. The text is also written to the termination log.
pub fn refuse(messages: &[String], args: &[OsString], environ: &Environ) {
    let ends_a_container = match salvage::intent(args) {
        Intent::Run => true,
        Intent::Other => return report_all(messages),
        // A person may try a subcommand beside a worker that runs.
        Intent::Unclear => init::is_pid_1(),
    };
    let environment = Environment::from_entries(environ.entries());
    let salvaged = config::salvage(&salvage::reporting_flags(args), &environment);
    if log_sink::format(salvaged.format) == LogFormat::Json {
        // The only records: their level is not asked for.
        let _ = log_sink::install(Some(LogFormat::Json), &LogLevels::all(Level::Error));
    }
    report_all(messages);
    if !ends_a_container {
        return;
    }
    let mut termination_log = TerminationLog::open_for_error(salvaged.termination_log.as_deref());
    let causes: Vec<&str> = messages.iter().map(|message| cli::without_usage(message)).collect();
    termination_log.write(termination_log::not_started(&causes.join("; "), Exit::Usage.code()));
    termination_log.finish();
}

/// Starts the log as configured, and logs the doubts about the configuration.
pub fn install_log(config: &Config, environ: &Environ) -> LogHandle {
    let log = log_sink::install(config.log.format, &config.log.level);
    let doubts = doubtful_times(config, environ);
    for warning in config.warnings.iter().chain(&doubts) {
        warn!("{warning}");
    }
    log
}

/// Adopts orphans, and dies with the parent process if that is configured.
pub fn become_init(config: &Config, environ: &Environ) {
    if let Some(signal) = config.init.parent_death_signal
        && let Err(error) = init::set_parent_death_signal(signal)
    {
        warn!(
            "--parent-death-signal: the kernel refused {signal}: {error}; leave the option out, or allow prctl in the \
             seccomp profile"
        );
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
        Err(error) => warn!(
            "cannot adopt orphans, which are left to the init above: {error}; make ojs-init PID 1, or allow prctl in the \
             seccomp profile"
        ),
    }
}

/// Without this the worker could read the token in the memory of ojs-init.
#[cfg(feature = "agent")]
pub fn keep_memory_to_ourselves() {
    if let Err(error) = init::forbid_dumps() {
        warn!(
            "cannot keep our memory from processes of the same user (PR_SET_DUMPABLE): {error}; the worker can read the \
             token there: run it as another user (--user), or allow prctl in the seccomp profile"
        );
    }
}
