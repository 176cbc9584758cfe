//! From the configuration to a running child.

use std::ffi::NulError;
use std::fmt;
use std::io;

use log::warn;
use nix::errno::Errno;

use crate::cli;
use crate::config::Process;
use crate::daemon::log::remedy::remedy;
use ojs_lifecycle::api::{SHORTAGE_WINDOW, shortage_pause};
use ojs_os::child::{ChildPlan, SpawnError};
use ojs_os::clock;
use ojs_os::errno::{is_shortage, meaning};
use ojs_os::process::Pid;
use ojs_os::program_file::ProgramFault;
use ojs_os::reaper::{self, Reaped};
use ojs_os::signals::{self, SignalSet};
use ojs_os::user::Credentials;
use ojs_values::exit::Exit;
use ojs_values::signal::Signal;

/// Most inherited children that are reaped between two attempts. A program that exec'ed ojs-init
/// may have left them.
const MOST_INHERITED: usize = 1024;

/// Why no child runs: the message and the exit status.
#[derive(Debug)]
pub struct StartFailure {
    /// The message, for a person.
    pub message: String,
    /// The exit status of ojs-init.
    pub exit: Exit,
}

impl StartFailure {
    /// A failure with that exit status.
    pub fn new(exit: Exit, message: impl fmt::Display) -> Self {
        let message = message.to_string();
        Self { message, exit }
    }
}

/// The credentials for `process.user`; none if the user stays.
pub fn credentials(process: &Process) -> Result<Option<Credentials>, StartFailure> {
    let Some(spec) = &process.user else { return Ok(None) };
    match Credentials::resolve(&spec.user, spec.group.as_deref()) {
        Ok(credentials) => Ok(Some(credentials).filter(|credentials| !credentials.are_ours())),
        Err(error) => Err(StartFailure::new(Exit::Usage, format!("process.user: {error}"))),
    }
}

/// Why one attempt gave no child.
#[derive(Debug)]
pub enum NotStartedNow {
    /// The system has no process at the moment (EAGAIN, ENOMEM). Another attempt may succeed.
    Shortage(io::Error),
    /// The failure is final.
    Refused(StartFailure),
}

/// Starts the child in one attempt, without waiting.
pub fn try_spawn(plan: &ChildPlan, program: &str) -> Result<Pid, NotStartedNow> {
    plan.spawn().map_err(|error| not_started_now(plan, program, error))
}

fn not_started_now(plan: &ChildPlan, program: &str, error: SpawnError) -> NotStartedNow {
    match error {
        SpawnError::NoProcess(error) if is_shortage(&error) => NotStartedNow::Shortage(error),
        SpawnError::NoProcess(error) => NotStartedNow::Refused(no_process_allowed(program, &error)),
        SpawnError::User { step, error } => NotStartedNow::Refused(not_this_user(step, &error)),
        SpawnError::Exec(error) | SpawnError::Traits(error) => {
            NotStartedNow::Refused(not_this_program(program, &error, plan.trouble(None)))
        }
    }
}

/// The errors of a start about the child, as this user, without running the program. Without a
/// program only the user is tried. A missing interpreter or loader of the program's file counts as
/// well. A shortage of processes may have ended by the time of the start, so it is a warning.
pub fn rehearse(mut plan: ChildPlan, user: Option<Credentials>, program: Option<&str>) -> Result<(), StartFailure> {
    plan.credentials = user;
    let result = plan.rehearse();
    // The child has ended, or there is none.
    let _ = reaper::reap_one();
    match (result, program) {
        (Ok(()), None) | (Err(SpawnError::Exec(_)), None) => Ok(()),
        (Ok(()), Some(program)) => plan.trouble(None).map_or(Ok(()), |trouble| rehearsed(program, trouble)),
        (Err(error), program) => match not_started_now(&plan, program.unwrap_or_default(), error) {
            NotStartedNow::Refused(refused) => Err(refused),
            NotStartedNow::Shortage(error) => {
                warn!("cannot create a process now: {}; {}", reason(&error), remedy(&error));
                Ok(())
            }
        },
    }
}

/// Judges the program's file. A file that is no program for this machine is only a warning. The
/// host's binfmt_misc may know how to run it, and most containers cannot see that.
fn rehearsed(program: &str, trouble: ProgramFault) -> Result<(), StartFailure> {
    let is_missing = trouble.is_missing;
    let failure = will_not_run(program, trouble);
    if is_missing {
        return Err(failure);
    }
    let message = failure.message;
    warn!("{message}; it is tried all the same, because the host's binfmt_misc may run it");
    Ok(())
}

/// Starts the child. If the system has no process, it tries again for a while, because a brief
/// shortage should not end a container. A stop signal ends that wait; every other signal stays
/// pending for the child.
pub fn spawn(plan: &ChildPlan, program: &str, warn: impl Fn(fmt::Arguments<'_>)) -> Result<Pid, StartFailure> {
    let give_up = clock::monotonic().saturating_add(SHORTAGE_WINDOW);
    let stop_signals = SignalSet::of(&[Signal::TERM, Signal::INT, Signal::QUIT]);
    let mut pauses = 0;
    loop {
        let error = match try_spawn(plan, program) {
            Ok(pid) => return Ok(pid),
            Err(NotStartedNow::Shortage(error)) => error,
            Err(NotStartedNow::Refused(refused)) => return Err(refused),
        };
        reap_inherited();
        if clock::monotonic() >= give_up {
            return Err(no_process(program, &error));
        }
        if pauses == 0 {
            warn(format_args!(
                "cannot create a process yet, trying for {} s: {}; {}",
                SHORTAGE_WINDOW.as_secs(),
                reason(&error),
                remedy(&error)
            ));
        }
        if let Ok(Some(signal)) = signals::wait(stop_signals, Some(shortage_pause(pauses))) {
            let message = format!("{signal} before {program} could be started: {}", reason(&error));
            return Err(StartFailure::new(Exit::Status(signal.exit_status()), message));
        }
        pauses += 1;
    }
}

/// Reaps children of the program that exec'ed ojs-init. Each ended one uses up a process that the
/// start waits for.
fn reap_inherited() {
    for _ in 0..MOST_INHERITED {
        if !matches!(reaper::reap_one(), Ok(Reaped::Process(_, _))) {
            break;
        }
    }
}

/// An argument, a variable or the name of the program has a NUL byte.
pub fn nul_byte(error: NulError) -> StartFailure {
    let position = error.nul_position();
    let text = String::from_utf8_lossy(&error.into_vec()).into_owned();
    let message = format!(
        "NUL byte in {text:?}, at byte {position}: no argument, variable or name of a program can have one; remove it"
    );
    StartFailure::new(Exit::Usage, message)
}

fn no_process_allowed(program: &str, error: &io::Error) -> StartFailure {
    let message = format!(
        "cannot start {program:?}: the system refuses to create processes: {}; look for a seccomp profile that forbids \
         the system call clone",
        reason(error)
    );
    StartFailure::new(Exit::Internal, message)
}

/// The system had no process for the whole window of attempts.
pub fn no_process(program: &str, error: &io::Error) -> StartFailure {
    let window = SHORTAGE_WINDOW.as_secs();
    let message = format!(
        "cannot start {program}: no process could be created for {window} s: {}; \
         raise the limit on processes (docker --pids-limit, the pod's pid limit, ulimit -u) or the memory limit",
        reason(error)
    );
    StartFailure::new(Exit::Internal, message)
}

fn not_this_user(step: &str, error: &io::Error) -> StartFailure {
    let message = format!(
        "process.user: cannot change to that user: {step}: {}; this needs CAP_SETUID and CAP_SETGID: \
         add them, or let the container itself run as that user and leave process.user out",
        reason(error)
    );
    StartFailure::new(Exit::Usage, message)
}

/// The file is there and cannot run.
fn will_not_run(program: &str, trouble: ProgramFault) -> StartFailure {
    let exit = if trouble.is_missing {
        Exit::NotFound
    } else {
        Exit::NotExecutable
    };
    StartFailure::new(exit, format!("cannot execute {program:?}: {}", trouble.words))
}

fn not_this_program(program: &str, error: &io::Error, trouble: Option<ProgramFault>) -> StartFailure {
    let is_about_the_file = matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::ENOENT | Errno::ENOEXEC)
    );
    if let Some(trouble) = trouble.filter(|_| is_about_the_file) {
        return will_not_run(program, trouble);
    }
    let (exit, hint) = match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT | Errno::ENOTDIR) => {
            let hint = if program.contains('/') {
                "no such file, or the interpreter or loader that it names does not exist"
            } else {
                "not found in any directory of PATH"
            };
            (Exit::NotFound, hint)
        }
        Some(Errno::EACCES) => (
            Exit::NotExecutable,
            "not an executable file, or no permission to execute it",
        ),
        Some(Errno::ENOEXEC) => (Exit::NotExecutable, "not a program for this machine, nor a script"),
        Some(_) | None => (Exit::NotExecutable, "the system refused to execute it"),
    };
    let slip = if exit == Exit::NotFound { cli::slip(program) } else { "" };
    StartFailure::new(
        exit,
        format!("cannot execute {program:?}: {hint} ({}){slip}", reason(error)),
    )
}

/// The meaning of an error's number. EAGAIN has a special meaning when a process is created.
pub fn reason(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EAGAIN) => "a limit on the number of processes is reached".to_owned(),
        Some(_) | None => meaning(error),
    }
}
