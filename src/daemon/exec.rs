//! The child that PID 1 supervises if it is a second process of the same binary. In mode exec that
//! is the runner, which starts a process for each job; with `worker.processes` it is the keeper of
//! copies. This file builds its settings, and checks what must hold before its start.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;

use log::warn;
use ojs_values::small;

use crate::config::values::duration::Bytes;
use crate::config::values::limits::{LEAST_JOB_MEMORY, MemoryLimit};
use crate::config::{self, Config, Mode, OwnProgram, RUNNER_VARIABLE, RunnerSettings, keys};
use crate::daemon::log::sink;
use crate::daemon::start::{self, StartFailure};
use ojs_os::cgroup_memory::MemoryCgroup;
use ojs_os::child::ChildPlan;
use ojs_os::entry::Environ;
use ojs_os::user::Credentials;
use ojs_values::exit::Exit;
use ojs_wire::runner::template::{Template, command_name};
use ojs_wire::text::several;

/// The name of the runner.
pub const OWN_NAME: &str = "ojs-init";

/// Most bytes of the variable with the settings. The kernel accepts 128 KiB for one, its name
/// included.
const MOST_SETTINGS: usize = 120 << 10;

/// The arguments of a program of ojs-init, its name first.
pub fn arguments(program: OwnProgram, command: &[OsString]) -> Vec<OsString> {
    let own = [OWN_NAME, program.word(), "--"].map(OsString::from);
    own.into_iter().chain(command.iter().cloned()).collect()
}

/// The variable of its environment that has its settings.
///
/// # Errors
/// They do not fit, or the directory's name is no UTF-8.
pub fn variable(config: &Config) -> Result<(&'static str, OsString), StartFailure> {
    let mut settings = config.settings.clone();
    let source = |key: &config::Row| config.settings.source(key).clone();
    if config.mode == Mode::Exec {
        let max_memory = memory_limit(config).map(|bytes| MemoryLimit::Bytes(Bytes(bytes)));
        settings.replace(&keys::EXEC_MAX_MEMORY, max_memory, source(&keys::EXEC_MAX_MEMORY));
    }
    let format = Some(sink::format(config.log.format));
    settings.replace(&keys::LOG_FORMAT, format, source(&keys::LOG_FORMAT));
    let settings = RunnerSettings::encode(&settings)
        .map_err(|error| format!("the settings cannot be passed on: {error}; please report it"))
        .map_err(|message| StartFailure::new(Exit::Usage, message))?;
    if settings.len() > MOST_SETTINGS {
        let routes = config.settings.describe(&keys::EXEC_ROUTES);
        let message = format!(
            "{routes}: the programs and their arguments need more than the {} KiB that there are for them; move arguments \
             into scripts",
            MOST_SETTINGS >> 10
        );
        return Err(StartFailure::new(Exit::Usage, message));
    }
    Ok((RUNNER_VARIABLE, settings.into()))
}

/// `exec.max_memory` in bytes. A share of no limit is none, and a value that is not below the
/// container's limit is useless: both are a warning.
pub fn memory_limit(config: &Config) -> Option<u64> {
    let limit = config.exec.max_memory?;
    let container = MemoryCgroup::find().and_then(|cgroup| cgroup.limit());
    let setting = || config.settings.describe(&keys::EXEC_MAX_MEMORY);
    let Some(bytes) = limit.bytes(|| container) else {
        warn!(
            "{}: this container has no memory limit of which that could be a share; jobs are not limited; set a memory \
             limit, or a size",
            setting()
        );
        return None;
    };
    if bytes < LEAST_JOB_MEMORY.0 {
        warn!(
            "{}: that is {} here, not enough to start a program; each job may take {LEAST_JOB_MEMORY}; raise the share, or \
             the container's limit",
            setting(),
            Bytes(bytes)
        );
        return Some(LEAST_JOB_MEMORY.0);
    }
    if container.is_some_and(|container| bytes >= container) {
        warn!(
            "{}: the container has no more than that; the kernel ends a process before we end the job; set less than the \
             container's limit",
            setting()
        );
    }
    Some(bytes)
}

/// Looks for faults that would prevent every start of a job or a copy: a user, a directory or a
/// program that does not exist. No program runs. Returns the faults: for commands all of them.
pub fn check(
    config: &Config,
    command: &[OsString],
    environ: &Environ,
    credentials: Option<&Credentials>,
) -> Vec<StartFailure> {
    match config.own_program() {
        Some(OwnProgram::Runner) => {}
        Some(OwnProgram::Copies) => return Vec::from_iter(check_copies(command, environ, credentials).err()),
        None => return Vec::new(),
    }
    let user = match directory(config).and_then(|()| job_user(config, environ, credentials)) {
        Ok(user) => user,
        Err(failure) => return vec![failure],
    };
    let fault = |(words, of): (Vec<OsString>, String)| {
        if let Err(problem) = Template::read(&words) {
            return Some(StartFailure::new(Exit::Usage, format!("{of}: {problem}")));
        }
        let mut failure = program(config, &words, environ, user.as_ref()).err()?;
        failure.message = format!("{of}: {}", failure.message);
        Some(failure)
    };
    programs(config, command).into_iter().filter_map(fault).collect()
}

fn check_copies(
    command: &[OsString],
    environ: &Environ,
    credentials: Option<&Credentials>,
) -> Result<(), StartFailure> {
    let plan = ChildPlan::new(command, environ).map_err(start::nul_byte)?;
    let program = command.first().map(|program| program.to_string_lossy());
    start::rehearse(plan, credentials.cloned(), program.as_deref())
}

/// The programs of the routes and COMMAND, each with its arguments, and its place in the
/// configuration.
fn programs(config: &Config, command: &[OsString]) -> BTreeMap<Vec<OsString>, String> {
    let routes = config.exec.routes.0.iter();
    let routes = routes.map(|route| {
        let words: Vec<OsString> = route.command.iter().map(OsString::from).collect();
        (words, command_name(Some(&route.pattern)))
    });
    let all = [(command.to_vec(), command_name(None))].into_iter().chain(routes);
    small::gather(all.filter(|(words, _)| !words.is_empty()))
}

fn directory(config: &Config) -> Result<(), StartFailure> {
    let Some(directory) = &config.exec.directory else {
        return Ok(());
    };
    let problem = match fs::metadata(directory) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => "that is no directory".to_owned(),
        Err(error) => error.to_string(),
    };
    let setting = config.settings.describe(&keys::EXEC_DIRECTORY);
    let message = format!("{setting}: {problem}; name a directory that exists");
    Err(StartFailure::new(Exit::Usage, message))
}

/// The user of jobs; `None`: that of ojs-init. With `exec.users` the runner changes to each of
/// them, which only root can.
fn job_user(
    config: &Config,
    environ: &Environ,
    credentials: Option<&Credentials>,
) -> Result<Option<Credentials>, StartFailure> {
    let Some(users) = config.exec.users else {
        return Ok(credentials.cloned());
    };
    let refused = |problem: &str| {
        let setting = config.settings.describe(&keys::EXEC_USERS);
        StartFailure::new(Exit::Usage, format!("{setting}: {problem}"))
    };
    if credentials.is_some_and(|credentials| credentials.uid != 0) {
        let user = config.settings.describe(&keys::USER);
        return Err(refused(&format!(
            "that needs a runner that is root, and {user} says otherwise; leave one of the two out"
        )));
    }
    if !nix::unistd::geteuid().is_root() {
        return Err(refused("that needs root; run the container as root, or leave it out"));
    }
    let first = Credentials {
        uid: users.first,
        gid: users.first,
        groups: Vec::new(),
    };
    let nothing = [OsString::from("/")];
    let plan = ChildPlan::new(&nothing, environ).map_err(start::nul_byte)?;
    // That `/` is no program proves nothing against the user.
    start::rehearse(plan, Some(first.clone()), None).map_err(|_| {
        refused(
            "we are root, but may not change to other users; add CAP_SETUID, CAP_SETGID and CAP_KILL, or leave it out",
        )
    })?;
    Ok(Some(first))
}

/// Whether there is such a program, as each job's process would find it.
fn program(
    config: &Config,
    words: &[OsString],
    environ: &Environ,
    user: Option<&Credentials>,
) -> Result<(), StartFailure> {
    let name = words.first().map_or(OsStr::new(""), OsString::as_os_str);
    let found = [name.to_owned()];
    let plan = ChildPlan::new(&found, environ).map_err(start::nul_byte)?;
    let plan = plan.seen_from(config.exec.directory.as_deref());
    start::rehearse(plan, user.cloned(), Some(&name.to_string_lossy()))
}

/// The worker's program as operators see it: COMMAND, and the number of routes.
pub fn shown_program(config: &Config, command: &[OsString]) -> String {
    let routes = config.exec.routes.0.len();
    let routes = (routes > 0).then(|| several(routes, "route"));
    let command = command.first().map(|program| program.to_string_lossy().into_owned());
    let parts: Vec<String> = command.into_iter().chain(routes).collect();
    parts.join(" and ")
}
