//! Programs of ojs-init that PID 1 starts as the worker, each in a separate process. The runner of
//! mode exec runs one process for each job. The keeper of copies runs several workers
//! (`worker.processes`).
//!
//! The runner is one thread with one loop and one wait. A job is a process that leads its own
//! session; its end is the job's outcome.
//!
//! | question | files |
//! |---|---|
//! | what does PID 1 send and receive? | `connection`, `intake`, `news` |
//! | what is known of a job that runs? | `job` |
//! | how is a job's process started? | `start`, `routes`, `environment`, `process`, `temporary`, `users` |
//! | what does a job write? | `streams`, `output`, `redaction` |
//! | how does a job end? | `ending`, `outcome`; its other processes: `leftovers`, `memory` |
//! | how do copies run? | `copies`, `slots` |
//!
//! The folder may use `config`, `wire`, `os`, `lifecycle::api`, `lifecycle::timers` and
//! `daemon::log`; it does not know the loop of PID 1. Start with `state`, then `event_loop`.

mod connection;
mod copies;
mod ending;
mod environment;
mod event_loop;
mod intake;
mod job;
mod leftovers;
mod memory;
mod news;
mod outcome;
mod output;
mod process;
mod redaction;
mod routes;
mod slots;
mod start;
mod state;
mod streams;
mod temporary;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use mio::Poll;

use crate::config::{OwnProgram, RUNNER_VARIABLE, RunnerSettings};
use crate::daemon::log::remedy::remedy;
use crate::daemon::log::report::report;
use crate::daemon::log::sink;
use crate::runner::connection::InitConnection;
use crate::runner::memory::MemoryLimiter;
use crate::runner::redaction::Redaction;
use crate::runner::routes::JobCommands;
use crate::runner::start::Starter;
use crate::runner::state::{Runner, RunnerTokenOwner};
use crate::runner::streams::OutputReader;
use crate::runner::temporary::TemporaryDirectories;
use crate::runner::users::Users;
use ojs_lifecycle::timers::Timers;
use ojs_os::cgroup::OomKills;
use ojs_os::entry::Environ;
use ojs_os::image;
use ojs_os::init;
use ojs_os::open_files::raise_open_files_limit;
use ojs_os::own_children::OwnChildren;
use ojs_os::signal_fd::SignalFd;
use ojs_os::signals::{self, SignalSet};
use ojs_values::exit::Exit;
use ojs_values::signal::Signal;
use ojs_wire::runner::frames;

/// Parent of the jobs' directories if the usual place cannot be written, as under a read-only root.
const IN_MEMORY: &str = "/dev/shm";

/// The mark of `/proc/self/exe` behind the path of a file that was removed or replaced.
const REMOVED: &[u8] = b" (deleted)";

/// The name of the runner in its `ready` frame.
const CLIENT: &str = concat!("ojs-init runner/", env!("CARGO_PKG_VERSION"));

/// True if PID 1 has started this process as one of them: `ojs-init runner -- COMMAND...` with the
/// settings in the environment. Returns the arguments after the `--`.
pub fn is_meant<'a>(args: &'a [OsString], environ: &Environ) -> Option<(OwnProgram, &'a [OsString])> {
    let ([word, dashes], command) = args.get(1..)?.split_first_chunk::<2>()?;
    let mut programs = [OwnProgram::Runner, OwnProgram::Copies].into_iter();
    let program = programs.find(|program| *word == *program.word())?;
    (dashes == "--" && environ.value(RUNNER_VARIABLE).is_some()).then_some((program, command))
}

/// Runs it until PID 1 wants no more.
pub fn run(program: OwnProgram, command: &[OsString], environ: Environ) -> Exit {
    if program == OwnProgram::Runner {
        // A job has no other descriptors than its own.
        init::close_inherited();
    }
    // PID 1 keeps its own closed descriptors from its children.
    init::reserve_std_fds();
    start(program, command, environ).unwrap_or_else(|(exit, message)| {
        report(&message);
        exit
    })
}

fn start(program: OwnProgram, command: &[OsString], environ: Environ) -> Result<Exit, (Exit, String)> {
    let settings = environ.value(RUNNER_VARIABLE).unwrap_or_default().to_string_lossy();
    let settings = RunnerSettings::decode(&settings).map_err(|error| internal(RUNNER_VARIABLE, &error))?;
    let log = sink::install(settings.log.format, &settings.log.level);
    log.stderr_is_shared();
    signals::expect_children();
    let ended = match program {
        OwnProgram::Runner => run_jobs(settings, command, environ),
        OwnProgram::Copies => copies::run(settings, command, environ),
    };
    // The last lines may be those of a job that was cut off a moment ago, or the reason of the end.
    log.flush(None);
    ended
}

fn run_jobs(settings: RunnerSettings, command: &[OsString], environ: Environ) -> Result<Exit, (Exit, String)> {
    let ended = set_up(settings, command, environ)?.run();
    ended.map_err(failed("cannot wait for signals, and for what jobs and PID 1 write"))
}

fn internal(what: &str, error: &dyn Display) -> (Exit, String) {
    (Exit::Internal, format!("mode exec: {what}: {error}"))
}

/// A failed system call: its purpose, and the advice.
fn failed(what: &'static str) -> impl FnOnce(io::Error) -> (Exit, String) {
    move |error| internal(what, &format_args!("{error}; {}", remedy(&error)))
}

fn set_up(settings: RunnerSettings, command: &[OsString], environ: Environ) -> Result<Runner, (Exit, String)> {
    init::become_subreaper().map_err(failed("cannot adopt orphans"))?;
    init::forbid_dumps().map_err(failed("cannot keep our memory to ourselves (PR_SET_DUMPABLE)"))?;
    let socket = environ.value("OJS_SOCKET").unwrap_or_default();
    let routes = JobCommands::new(&settings.exec.routes.0, command).map_err(|problem| (Exit::Usage, problem))?;
    start::check_commands(&routes, settings.exec.directory.as_deref(), &environ)?;
    let mut connection = InitConnection::open(Path::new(socket), settings.worker.max_frame)
        .map_err(failed("cannot connect to the worker socket"))?;
    connection.send(&frames::ready(settings.worker.concurrency, CLIENT));
    let poll = Poll::new().map_err(failed("cannot create an epoll descriptor"))?;
    let wanted = SignalSet::of(&[Signal::TERM, Signal::INT, Signal::QUIT, Signal::CHLD]);
    let signals = SignalFd::new(wanted).map_err(failed("cannot create a descriptor of signals"))?;
    let runner = assemble(settings, routes, environ, connection, poll, signals)?;
    runner
        .watch(runner.signals.as_raw_fd(), RunnerTokenOwner::Signals)
        .map_err(failed("cannot watch the signals"))?;
    runner
        .watch(runner.connection.descriptor(), RunnerTokenOwner::Connection)
        .map_err(failed("cannot watch the worker socket"))?;
    Ok(runner)
}

fn assemble(
    settings: RunnerSettings,
    routes: JobCommands,
    environ: Environ,
    connection: InitConnection,
    poll: Poll,
    signals: SignalFd,
) -> Result<Runner, (Exit, String)> {
    let redaction = Redaction::new(&settings.exec.redact.0, environ.entries());
    let users = Users::new(settings.exec.users, settings.worker.concurrency);
    let parent = environ.value("TMPDIR").filter(|path| !path.is_empty());
    let parents = [Path::new(parent.unwrap_or(OsStr::new("/tmp"))), Path::new(IN_MEMORY)];
    let temporary = TemporaryDirectories::below(&parents, users.are_used());
    if settings.max_memory().is_some() {
        memory::check();
    }
    let memory_files = start::check_memory_files();
    if let Err(error) = &memory_files
        && !temporary.has_place()
    {
        return Err(internal(
            "cannot give jobs anything to read: neither memfd_create works nor is there a directory that can be written",
            error,
        ));
    }
    Ok(Runner {
        poll,
        signals,
        connection,
        reader: OutputReader::new(redaction),
        starter: Starter {
            routes,
            // Each job keeps descriptors of the runner. Where a filter forbids to raise the limit,
            // fewer jobs run at once.
            limits: start::limits(raise_open_files_limit().ok(), &settings.exec.rlimits),
            temporary,
            users,
            environ,
            program: own_path(),
            has_memory_files: memory_files.is_ok(),
            oom_kills: OomKills::find(),
            oom_score: start::oom_score(),
            settings,
        },
        jobs: BTreeMap::new(),
        waiting: BTreeMap::new(),
        by_id: BTreeMap::new(),
        leaders: BTreeSet::new(),
        next_number: 0,
        timers: Timers::default(),
        readable: BTreeSet::new(),
        ended: BTreeSet::new(),
        hears: true,
        is_watched_for_room: false,
        has_signals: true,
        has_unwatched: false,
        stray_looks: 0,
        killed: BTreeMap::new(),
        ending: BTreeMap::new(),
        children: OwnChildren::open(),
        memory: MemoryLimiter::default(),
        has_looked: false,
        has_cut_off: false,
        exit: None,
    })
}

/// The path of this program, for a job's `"$OJS_INIT"`. Without `/proc` it is the path by which it
/// was executed.
fn own_path() -> Option<OsString> {
    let by_proc = std::env::current_exe().ok().map(|path| name_now(path.into_os_string()));
    by_proc.or_else(|| Some(OsStr::from_bytes(image::own_file()?.to_bytes()).to_owned()))
}

/// The name of a program's file without the kernel's mark on a file that was removed. An update
/// puts another file in its place.
fn name_now(path: OsString) -> OsString {
    match path.as_bytes().strip_suffix(REMOVED) {
        Some(name) if !Path::new(&path).exists() => OsStr::from_bytes(name).to_owned(),
        Some(_) | None => path,
    }
}
