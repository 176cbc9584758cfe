//! `--launch COMPLAINT [STEP]... -- PROGRAM [ARG]...`: prepares the process as a case wants it,
//! then becomes the init.
//!
//! A process of its own does this, not a closure between fork and exec, because it may then run any
//! code. Whatever goes wrong is written to the file COMPLAINT.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::{NOT_LAUNCHED, text};
use crate::support::sys;
use crate::support::wait::{pause, wait_until};

/// The rest of a start when all steps are done.
#[derive(Debug)]
struct Plan {
    environment: Vec<Vec<u8>>,
    blocked: u64,
    ignored: u64,
    closed: Vec<i32>,
    stamp: bool,
}

/// Does the steps and execs; returns only on failure, or in the process that waits for the init.
pub fn run(arguments: &[OsString]) -> i32 {
    let Some((complaint, rest)) = arguments.split_first() else {
        return NOT_LAUNCHED;
    };
    match launch(Path::new(complaint), rest) {
        Ok(status) => status,
        Err(error) => {
            let _ = std::fs::write(complaint, error);
            NOT_LAUNCHED
        }
    }
}

fn launch(complaint: &Path, arguments: &[OsString]) -> Result<i32, String> {
    let split = arguments
        .iter()
        .position(|argument| argument == "--")
        .ok_or("no -- in the arguments")?;
    let (steps, command) = arguments.split_at(split);
    let environment = std::env::vars_os().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
    let mut plan = Plan {
        environment: environment.collect(),
        blocked: 0,
        ignored: 0,
        closed: Vec::new(),
        stamp: false,
    };
    for step in steps {
        let step = text(Some(step))?;
        let (name, value) = step.split_once('=').unwrap_or((step, ""));
        if let Some(status) = plan
            .prepare(name, value, complaint)
            .map_err(|error| format!("step {step}: {error}"))?
        {
            return Ok(status);
        }
    }
    let command = command.iter().skip(1).map(|argument| CString::new(argument.as_bytes()));
    let command: Vec<CString> = command.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    plan.exec(&command)
}

impl Plan {
    /// One step; a status means that this process is the one that stays behind and has done its
    /// part.
    fn prepare(&mut self, name: &str, value: &str, complaint: &Path) -> Result<Option<i32>, String> {
        let number = || value.parse::<i32>().map_err(|_| "not a number".to_owned());
        let done = |result: std::io::Result<()>| result.map_err(|error| error.to_string());
        match name {
            "pid1" => become_first()?,
            "namespace" => unshare(CloneFlags::CLONE_NEWPID).map_err(|error| error.to_string())?,
            "parent" => return stay_behind(),
            "terminal" => {
                nix::unistd::setsid().map_err(|error| error.to_string())?;
                done(sys::take_terminal(0))?;
            }
            "background" => {
                nix::unistd::setpgid(nix::unistd::Pid::from_raw(0), nix::unistd::Pid::from_raw(0))
                    .map_err(|error| error.to_string())?;
            }
            "ignore" => self.ignored |= sys::bit(number()?),
            "block" => self.blocked |= sys::bit(number()?),
            "raise" => {
                done(sys::set_mask(self.blocked))?;
                done(sys::send(std::process::id().cast_signed(), number()?))?;
            }
            "close" => self.closed.push(number()?),
            "open" => open_at(&complaint.with_file_name(format!("open-{value}")), number()?)?,
            "zombies" => leave_zombies(number()?)?,
            "lodger" => lodge(number()?)?,
            "user" => become_user(number()?.cast_unsigned())?,
            "processes" => done(sys::set_process_limit(u64::from(number()?.cast_unsigned())))?,
            "read-only" => make_read_only()?,
            "no-environment" => self.environment.clear(),
            "environment" => self.environment.push(from_hexadecimal(value)?),
            "hold" => await_file(Path::new(value))?,
            "stamp" => self.stamp = true,
            _ => return Err("no such step".to_owned()),
        }
        Ok(None)
    }

    fn exec(mut self, command: &[CString]) -> Result<i32, String> {
        let program = command.first().ok_or("no program")?;
        // The runtime of Rust ignores SIGPIPE, posix_spawn of glibc 32 and 33, and a disposition
        // survives the exec.
        for signal in [libc::SIGPIPE, 32, 33].into_iter().chain(sys::signals_of(self.ignored)) {
            sys::set_ignored(signal, self.ignored & sys::bit(signal) != 0).map_err(|error| error.to_string())?;
        }
        sys::set_mask(self.blocked).map_err(|error| error.to_string())?;
        for &descriptor in &self.closed {
            sys::close(descriptor);
        }
        if self.stamp {
            self.environment
                .push(format!("STARTED={}", sys::monotonic_ns()).into_bytes());
        }
        let environment = self.environment.into_iter().map(CString::new);
        let environment: Vec<CString> = environment
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        let Err(error) = nix::unistd::execve(program, command, &environment);
        Err(format!("exec {program:?}: {error}"))
    }
}

/// The first process of a PID namespace, with a `/proc` that shows it.
fn become_first() -> Result<(), String> {
    if std::process::id() != 1 {
        return Err("this is not process 1 of a PID namespace".to_owned());
    }
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    unshare(CloneFlags::CLONE_NEWNS).map_err(|error| format!("no mount namespace: {error}"))?;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
        .map_err(|error| format!("private mounts: {error}"))?;
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), None::<&str>)
        .map_err(|error| format!("mount /proc: {error}"))
}

/// The parent waits for the child and ends with its status; the child goes on with the steps.
fn stay_behind() -> Result<Option<i32>, String> {
    // SAFETY: the launcher has a single thread, so that the child may go on with any code.
    let child = match unsafe { nix::unistd::fork() }.map_err(|error| error.to_string())? {
        nix::unistd::ForkResult::Child => return Ok(None),
        nix::unistd::ForkResult::Parent { child } => child.as_raw(),
    };
    match sys::reap(child, true).map_err(|error| error.to_string())? {
        Some(sys::Ended::Code(status)) => Ok(Some(status)),
        Some(sys::Ended::Signal(signal)) => Ok(Some(128 + signal)),
        None => Err("a blocking wait found nothing".to_owned()),
    }
}

fn open_at(path: &Path, descriptor: i32) -> Result<(), String> {
    let file = std::fs::File::create(path).map_err(|error| error.to_string())?;
    sys::copy_to(std::os::fd::AsRawFd::as_raw_fd(&file), descriptor).map_err(|error| error.to_string())
}

/// Children that have ended and that nobody has waited for.
fn leave_zombies(count: i32) -> Result<(), String> {
    for _ in 0..count {
        let child = sys::fork(|| 3).map_err(|error| error.to_string())?;
        let ended = || crate::support::proc::stat(child).is_some_and(|stat| stat.state == 'Z');
        if !wait_until(Duration::from_secs(5), ended) {
            return Err("a child does not end".to_owned());
        }
    }
    Ok(())
}

/// A living child that the init knows nothing of; it ends with 9 after that many milliseconds.
fn lodge(milliseconds: i32) -> Result<(), String> {
    let life = Duration::from_millis(u64::from(milliseconds.cast_unsigned()));
    sys::fork(|| {
        pause(life);
        9
    })
    .map(drop)
    .map_err(|error| error.to_string())
}

fn become_user(id: u32) -> Result<(), String> {
    let failed = |error: nix::errno::Errno| error.to_string();
    let group = nix::unistd::Gid::from_raw(id);
    nix::unistd::setgroups(&[]).map_err(failed)?;
    nix::unistd::setresgid(group, group, group).map_err(failed)?;
    let user = nix::unistd::Uid::from_raw(id);
    nix::unistd::setresuid(user, user, user).map_err(failed)
}

/// Every mount of this namespace that can be is read-only afterwards; `/` must be.
fn make_read_only() -> Result<(), String> {
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    let mounts = std::fs::read_to_string("/proc/self/mounts").map_err(|error| error.to_string())?;
    for point in mounts.lines().filter_map(|line| line.split(' ').nth(1)) {
        match mount(None::<&str>, point, None::<&str>, flags, None::<&str>) {
            Err(error) if point == "/" => return Err(format!("{point}: {error}")),
            _ => {}
        }
    }
    Ok(())
}

fn await_file(path: &Path) -> Result<(), String> {
    if wait_until(Duration::from_secs(20), || path.exists()) {
        Ok(())
    } else {
        Err("never released".to_owned())
    }
}

fn from_hexadecimal(value: &str) -> Result<Vec<u8>, String> {
    let bytes = OsStr::new(value).as_bytes().chunks(2).map(|pair| {
        let pair = OsString::from_vec(pair.to_vec());
        u8::from_str_radix(pair.to_str().unwrap_or("?"), 16).map_err(|error| error.to_string())
    });
    bytes.collect()
}
