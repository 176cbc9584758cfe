//! The part of a rehearsal that only the agent has.

use std::ffi::OsString;
use std::time::Duration;

use log::warn;

use crate::config::{Config, Mode, keys};
use crate::daemon::backend::tls;
use crate::daemon::backend::token::TokenFile;
use crate::daemon::log::termination::TerminationLog;
use crate::daemon::memory_watch::MemoryWatch;
use crate::daemon::options::{announce, options};
use crate::daemon::probes::listener;
use crate::daemon::runtime::admission::Allowed;
use crate::daemon::runtime::candidate::candidates;
use crate::daemon::runtime::dir::RuntimeDir;
use crate::daemon::runtime::instances::{self, NoInstance};
use crate::daemon::start::{self, StartFailure};
use crate::daemon::surroundings::surroundings;
use crate::daemon::{agent, exec};
use ojs_os::entry::Environ;
use ojs_os::user::Credentials;

/// Longest that is looked for an instance that runs here.
const LOOK_LIMIT: Duration = Duration::from_millis(200);

/// The errors of a start with the agent. `credentials` are those of the child, or the error about
/// them.
pub fn play(
    config: &Config,
    command: &[OsString],
    environ: &Environ,
    credentials: Result<Option<Credentials>, String>,
) -> Vec<String> {
    let mut errors = Vec::new();
    let known = credentials.as_ref().ok().and_then(Option::as_ref);
    steps(config, environ, known, &mut |result| errors.extend(result.err()));
    match credentials {
        Ok(credentials) => {
            let refused = child(config, command, environ, credentials).unwrap_or_else(|refused| vec![refused]);
            errors.extend(refused.into_iter().map(|refused| refused.message));
        }
        Err(unknown) => errors.push(unknown),
    }
    errors
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
    let plan = agent::plan(config, command, environ, &[])?;
    let program = command.first().map(|program| program.to_string_lossy());
    start::rehearse(plan, credentials, program.as_deref())?;
    Ok(Vec::new())
}

/// The steps before the child in the agent, in their order.
fn steps(
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
    let token = config.backend.auth_token_file.clone();
    let _ = token.map(|path| TokenFile::new(path).now());
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
    start::rehearse(plan, credentials.clone(), Some(exec::OWN_NAME))?;
    Ok(exec::check(config, command, environ, credentials.as_ref()))
}
