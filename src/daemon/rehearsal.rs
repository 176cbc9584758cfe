//! A rehearsal of a start, for `config check`. It runs the same steps through the same functions up
//! to the child, which is not started, and removes all that it made. It collects warnings where a
//! start logs them, so both report the same ones.

use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use log::{Level, LevelFilter, Log, Metadata, Record, warn};

use crate::config::{self, Config, Mode, keys};
use crate::daemon::backend::tls;
use crate::daemon::backend::token::TokenSource;
use crate::daemon::log::termination::TerminationLog;
use crate::daemon::memory_watch::MemoryWatch;
use crate::daemon::options::{announce, doubtful_times, options, surroundings};
use crate::daemon::probes::listener;
use crate::daemon::runtime::admission::Allowed;
use crate::daemon::runtime::candidate::candidates;
use crate::daemon::runtime::dir::RuntimeDir;
use crate::daemon::runtime::instances::{self, NoInstance};
use crate::daemon::start::{self, StartFailure};
use crate::daemon::{agent, exec, plain_loop};
use ojs_os::entry::Environ;
use ojs_os::signals;
use ojs_os::user::Credentials;

/// Most warnings that are kept: each step of a start has one or two.
const MOST_WARNINGS: usize = 64;

/// Longest that is looked for an instance that runs here.
const LOOK_LIMIT: Duration = Duration::from_millis(200);

/// The errors and warnings of a start.
#[derive(Debug)]
pub struct Checked {
    /// The result of the check, and each warning on a separate line. A start would log the warnings
    /// and continue.
    pub report: String,
    /// Each would end a start, which would report only the first one.
    pub errors: Vec<String>,
}

/// Plays a start with this configuration and this command, which is empty if it is not known.
#[must_use]
pub fn run(mut config: Config, command: &[OsString], environ: &Environ) -> Checked {
    let collector: &'static Collector = &COLLECTOR;
    if log::set_logger(collector).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
    signals::expect_children();
    let doubts = doubtful_times(&config, environ);
    let errors = play(&config, command, environ);
    config.warnings.extend(doubts);
    config.warnings.extend(COLLECTOR.take());
    let report = if errors.is_empty() {
        config::check_report(&config)
    } else {
        config::warning_lines(&config)
    };
    Checked { report, errors }
}

fn play(config: &Config, command: &[OsString], environ: &Environ) -> Vec<String> {
    let mut errors = Vec::new();
    let mut note = |result: Result<(), String>| errors.extend(result.err());
    let credentials = start::credentials(&config.process).map_err(|refused| refused.message);
    if config.mode != Mode::None {
        let known = credentials.as_ref().ok().and_then(Option::as_ref);
        agent_steps(config, environ, known, &mut note);
    }
    match credentials {
        Ok(credentials) => {
            let refused = child(config, command, environ, credentials).unwrap_or_else(|refused| vec![refused]);
            errors.extend(refused.into_iter().map(|refused| refused.message));
        }
        Err(unknown) => errors.push(unknown),
    }
    errors
}

/// The steps before the child in the agent, in their order.
fn agent_steps(
    config: &Config,
    environ: &Environ,
    credentials: Option<&Credentials>,
    note: &mut impl FnMut(Result<(), String>),
) {
    let times = options(config, surroundings(environ), 0).times;
    announce(&times, config.shutdown.limits.grace_period_is_explicit);
    let running = running_here(config);
    note(health_address(config, running.as_deref()));
    if config.mode == Mode::Gateway {
        note(gateway_address(config, running.as_deref()));
    }
    let allowed = Allowed::new(credentials.cloned(), &config.worker.socket_users);
    note(RuntimeDir::rehearse(&candidates(&config.paths), &allowed));
    note(
        tls::config(&config.backend)
            .map(drop)
            .map_err(|error| error.to_string()),
    );
    // Without a token a start continues, with this warning.
    let _ = TokenSource::new(&config.backend).now();
    drop(TerminationLog::open(config));
    // Without a limit a start continues, with this warning.
    drop(MemoryWatch::of(config));
}

/// The ojs-init that runs here already, if one does: it has the addresses.
fn running_here(config: &Config) -> Option<String> {
    match instances::the_only(&candidates(&config.paths), LOOK_LIMIT) {
        Ok(instance) => Some(instance.pid.to_string()),
        Err(NoInstance::Several(_) | NoInstance::OtherPids(..)) => Some("several".to_owned()),
        Err(NoInstance::None(_)) => None,
    }
}

fn health_address(config: &Config, running: Option<&str>) -> Result<(), String> {
    let Some(pid) = running else {
        return listener::listen(config).map(drop).map_err(|refused| refused.message);
    };
    if let Some(error) = listener::trouble(config) {
        let address = config.settings.describe(&keys::LISTEN);
        warn_of_address(&format!("{address}: cannot listen there: {error}"), pid);
    }
    Ok(())
}

fn gateway_address(config: &Config, running: Option<&str>) -> Result<(), String> {
    let Err(refused) = agent::listen_for_gateway(config) else {
        return Ok(());
    };
    let pid = running.ok_or(refused.message.clone())?;
    warn_of_address(&refused.message, pid);
    Ok(())
}

fn warn_of_address(trouble: &str, pid: &str) {
    warn!("{trouble}; perhaps because ojs-init runs here already (pid {pid})");
}

/// The child's user, and whether there is such a program. Returns the faults of all programs.
///
/// # Errors
/// A fault before these.
fn child(
    config: &Config,
    command: &[OsString],
    environ: &Environ,
    credentials: Option<Credentials>,
) -> Result<Vec<StartFailure>, StartFailure> {
    if config.own_program().is_some() {
        return programs(config, command, environ, credentials);
    }
    let plan = match config.mode {
        Mode::None => plain_loop::plan(command, environ)?,
        Mode::Socket | Mode::Gateway | Mode::Exec => agent::plan(config, command, environ, &[])?,
    };
    let program = command.first().map(|program| program.to_string_lossy());
    start::rehearse(&plan.run_as(credentials), program.as_deref())?;
    Ok(Vec::new())
}

/// The settings and the user of ojs-init's own program, and a check that all programs exist that it
/// would start.
fn programs(
    config: &Config,
    command: &[OsString],
    environ: &Environ,
    credentials: Option<Credentials>,
) -> Result<Vec<StartFailure>, StartFailure> {
    let variables = [exec::variable(config)?];
    let plan = agent::plan(config, command, environ, &variables)?;
    let as_them = credentials.clone();
    start::rehearse(&plan.run_as(as_them), Some(exec::OWN_NAME))?;
    Ok(exec::check(config, command, environ, credentials.as_ref()))
}

/// Collects warnings that otherwise go to standard error.
static COLLECTOR: Collector = Collector(Mutex::new(Vec::new()));

#[derive(Debug)]
struct Collector(Mutex<Vec<String>>);

impl Collector {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Log for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        let mut warnings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if self.enabled(record.metadata()) && warnings.len() < MOST_WARNINGS {
            warnings.push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}
