//! Starts a child: fork and exec, and between them the child undoes this process's own settings.
//!
//! The child is created as `posix_spawn` implementations do it. The child shares this process's
//! memory, and this process is suspended until the child has exec'ed or ended (`CLONE_VM |
//! CLONE_VFORK`). That is faster than a copy, and needs no pipe to report an error. No signal can
//! be forwarded to a child that is not the program yet.

use std::ffi::{CStr, CString, NulError, OsStr, OsString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use nix::unistd::{AccessFlags, access};

use crate::child_words::{candidates, changed};
use crate::entry::{Environ, value_of};
use crate::errno::{check, errno};
use crate::job_child::{JobTraits, Refused};
use crate::listen_pid::{self, ListenPid};
use crate::open_files::OpenFiles;
use crate::process::Pid;
use crate::program_file::{self, ProgramFault};
use crate::signals;
use crate::stdio;
use crate::user::Credentials;
use ojs_values::signal::Signal;

/// Stack of the child between clone and exec, in bytes. A dozen system calls run on it.
const STACK_BYTES: usize = 16 * 1024;

/// Runs a script that lacks its `#!` line, as `execvp` and every shell do.
const SHELL: &CStr = c"/bin/sh";

/// The program to start, and its differences from this process.
#[derive(Debug)]
pub struct ChildPlan {
    /// The possible paths of the program, in the order to try.
    candidates: Vec<CString>,
    /// The arguments, the program's name first.
    args: Vec<CString>,
    environment: ChildEnvironment,
    /// The user that it runs as, if not this process's.
    pub credentials: Option<Credentials>,
    /// A terminal whose foreground process group the child becomes.
    pub terminal: Option<OwnedFd>,
    /// Makes the child a job: own session, only these descriptors, SIGKILL when this process ends.
    pub job: Option<JobTraits>,
    /// Its limit of open files, if this process has another one.
    pub open_files: Option<OpenFiles>,
    /// The kernel sends the child this signal when the thread that starts it ends. The child's own
    /// children get none, nor does a program that changes its user at exec.
    pub at_our_end: Option<Signal>,
}

/// The environment that the child gets.
#[derive(Debug)]
enum ChildEnvironment {
    /// This process's own, as the kernel passed it.
    Inherited(Environ),
    /// A copy with changes: the entries.
    Changed(Vec<CString>),
}

/// Why no child was started.
#[derive(Debug)]
pub enum SpawnError {
    /// The kernel cannot start a process (EAGAIN, ENOMEM), or the child met a limit that may have
    /// room again (EAGAIN, EMFILE, ENFILE). A retry may help.
    NoProcess(io::Error),
    /// The user could not be changed; `step` names the system call.
    User {
        step: &'static str,
        error: io::Error,
    },
    /// A job's session, niceness, limits, directory or descriptors.
    Traits(io::Error),
    Exec(io::Error),
}

/// The step that the child was at when it failed; 0 in the slot means that none failed.
#[derive(Clone, Copy)]
enum Step {
    Groups = 1,
    Group = 2,
    User = 3,
    Exec = 4,
    Traits = 5,
}

impl ChildPlan {
    /// A child that runs `command` (never empty) with this environment.
    ///
    /// # Errors
    ///
    /// An argument contains a NUL byte, which no program can be given.
    pub fn new(command: &[OsString], environ: &Environ) -> Result<Self, NulError> {
        let args = command
            .iter()
            .map(|arg| CString::new(arg.as_bytes()))
            .collect::<Result<Vec<_>, _>>()?;
        let program = command.first().map_or(OsStr::new(""), OsString::as_os_str);
        let candidates = candidates(program, environ.value("PATH"))?;
        Ok(Self {
            candidates,
            args,
            environment: ChildEnvironment::Inherited(environ.alias()),
            credentials: None,
            terminal: None,
            job: None,
            open_files: None,
            at_our_end: None,
        })
    }

    /// Executes this file, regardless of the first argument and the search path.
    pub fn executing(mut self, file: &CStr) -> Self {
        self.candidates = vec![file.to_owned()];
        self
    }

    /// Looks for the program from this directory, as a job does that starts there.
    pub fn seen_from(mut self, directory: Option<&Path>) -> Self {
        let Some(directory) = directory else { return self };
        for candidate in &mut self.candidates {
            let path = directory.join(OsStr::from_bytes(candidate.as_bytes()));
            // No directory has a NUL byte in its name.
            if let Ok(path) = CString::new(path.as_os_str().as_bytes()) {
                *candidate = path;
            }
        }
        self
    }

    /// Gives the child a copy of the environment with changes. Each name in `set` gets the new
    /// value: its first entry stays in place, further ones are left out. A name without an entry is
    /// added at the end. Entries of a name in `remove` are left out. All others stay byte for byte
    /// and in order, duplicates and those without `=` included. The old PATH finds the program.
    ///
    /// # Errors
    ///
    /// A NUL byte in a name or value.
    pub fn with_environment(mut self, set: &[(&str, &OsStr)], remove: &[&str]) -> Result<Self, NulError> {
        let entries = match &self.environment {
            ChildEnvironment::Inherited(environ) => changed(environ.entries(), set, remove)?,
            ChildEnvironment::Changed(entries) => changed(entries.iter().map(|entry| entry.as_bytes()), set, remove)?,
        };
        self.environment = ChildEnvironment::Changed(entries);
        Ok(self)
    }

    /// Does all of [`spawn`](Self::spawn) except the exec: a child changes to the user, checks for
    /// a file that it may execute, and ends. Only an exec shows whether the kernel can run that
    /// file.
    ///
    /// # Errors
    ///
    /// As for `spawn`; the child is left to the reaper.
    pub fn rehearse(&self) -> Result<(), SpawnError> {
        self.fork(true).map(drop)
    }

    /// Starts the child in a new process group, with the signal mask and dispositions that this
    /// process was started with; a job gets the defaults. Returns after the child has exec'ed.
    ///
    /// # Errors
    ///
    /// See [`SpawnError`]; a child that failed before exec is left to the reaper.
    pub fn spawn(&self) -> Result<Pid, SpawnError> {
        if let Some(credentials) = self.credentials.as_ref().filter(|_| self.job.is_none()) {
            stdio::give_pipes_to(credentials.uid);
        }
        self.fork(false)
    }

    /// Whether this process was started with sockets by number. The child gets them, with its own
    /// pid in place of this one's; a job gets none of them.
    fn has_listen_pid(&self) -> bool {
        let is_ours = |entry: &[u8]| {
            let pid = value_of(entry, listen_pid::NAME);
            pid.is_some_and(|pid| pid == Pid::own().to_string().as_bytes())
        };
        self.job.is_none()
            && match &self.environment {
                ChildEnvironment::Inherited(environ) => environ.entries().any(is_ours),
                ChildEnvironment::Changed(entries) => entries.iter().any(|entry| is_ours(entry.as_bytes())),
            }
    }

    /// The fault in the program's file that keeps the kernel from running it, as far as reading
    /// shows it. Like `execvp` the search continues after a file that may not be executed or names
    /// a missing file. `directory` is where the child starts, if not in this process's directory.
    pub fn trouble(&self, directory: Option<&Path>) -> Option<ProgramFault> {
        let paths = self
            .candidates
            .iter()
            .map(|path| Path::new(OsStr::from_bytes(path.as_bytes())));
        let paths = paths.map(|path| directory.map_or_else(|| path.to_owned(), |directory| directory.join(path)));
        let mut missing = None;
        for file in paths.filter(|path| path.is_file() && access(path, AccessFlags::X_OK).is_ok()) {
            match program_file::trouble(&file) {
                Some(trouble) if trouble.is_missing => missing = missing.or(Some(trouble)),
                trouble => return trouble,
            }
        }
        missing
    }

    fn fork(&self, is_rehearsal: bool) -> Result<Pid, SpawnError> {
        let args = null_terminated(&self.args);
        let mut shell_args = vec![SHELL.as_ptr(), ptr::null()];
        shell_args.extend(args.get(1..).unwrap_or_default());
        if self.job.is_some() {
            signals::learn_ignored();
        }
        let mut environment = match &self.environment {
            ChildEnvironment::Inherited(environ) if self.has_listen_pid() => environ.pointers().collect(),
            ChildEnvironment::Inherited(_) => Vec::new(),
            ChildEnvironment::Changed(entries) => entries.iter().map(|entry| entry.as_ptr()).collect(),
        };
        let mut listen_pid = ListenPid::default();
        if self.has_listen_pid() {
            listen_pid.take_place(&mut environment);
        }
        environment.push(ptr::null());
        let mut job = SpawnOrder {
            plan: self,
            args: args.as_ptr(),
            environ: match &self.environment {
                ChildEnvironment::Inherited(environ) if !self.has_listen_pid() => environ.as_ptr(),
                ChildEnvironment::Inherited(_) | ChildEnvironment::Changed(_) => environment.as_ptr(),
            },
            listen_pid: &raw mut listen_pid,
            candidates: null_terminated(&self.candidates),
            shell_args,
            is_rehearsal,
            parent: Pid::own().number(),
            failed_step: 0,
            errno: 0,
        };
        let mut stack = [MaybeUninit::<u8>::uninit(); STACK_BYTES];
        // SAFETY: the top of the array, aligned to 16 bytes as the ABI asks; the stack grows down
        // into it. `job` and `stack` outlive the child's use because CLONE_VFORK suspends this
        // process until the child has exec'ed or ended. `child_main` has the expected signature and
        // never unwinds.
        let pid = unsafe {
            let top = stack.as_mut_ptr().add(STACK_BYTES);
            let top = top.sub(top.addr() % 16);
            libc::clone(
                child_main,
                top.cast::<c_void>(),
                libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
                (&raw mut job).cast::<c_void>(),
            )
        };
        let pid = check(pid).map_err(SpawnError::NoProcess)?;
        job.outcome(Pid::new(pid))
    }
}

/// The memory that parent and child share while the parent is suspended.
struct SpawnOrder<'a> {
    plan: &'a ChildPlan,
    args: *const *const c_char,
    environ: *const *const c_char,
    /// An entry of `environ`, or of no use.
    listen_pid: *mut ListenPid,
    candidates: Vec<*const c_char>,
    /// `/bin/sh`, a place for the script's path, the script's arguments.
    shell_args: Vec<*const c_char>,
    /// Nothing is executed.
    is_rehearsal: bool,
    /// The pid of this process.
    parent: c_int,
    failed_step: c_int,
    errno: c_int,
}

impl SpawnOrder<'_> {
    /// Reads the child's result. The reaper reaps a failed child like any other.
    fn outcome(&self, pid: Pid) -> Result<Pid, SpawnError> {
        // SAFETY: both are plain integers inside a live struct. Volatile, because the compiler does
        // not know that another process wrote them.
        let (step, errno) = unsafe {
            (
                (&raw const self.failed_step).read_volatile(),
                (&raw const self.errno).read_volatile(),
            )
        };
        if step == 0 {
            return Ok(pid);
        }
        let error = io::Error::from_raw_os_error(errno);
        // The kernel applies the user's limit of processes at the exec. `exec.rlimits` can make
        // ENOMEM permanent, so ENOMEM is not among these.
        if matches!(errno, libc::EAGAIN | libc::EMFILE | libc::ENFILE) {
            return Err(SpawnError::NoProcess(error));
        }
        if step == Step::Traits as c_int {
            return Err(SpawnError::Traits(error));
        }
        let step = if step == Step::Groups as c_int {
            "setgroups"
        } else if step == Step::Group as c_int {
            "setresgid"
        } else if step == Step::User as c_int {
            "setresuid"
        } else {
            return Err(SpawnError::Exec(error));
        };
        Err(SpawnError::User { step, error })
    }

    /// Leaves the reason for the parent and ends the child.
    fn fail(&mut self, step: Step, errno: c_int) -> ! {
        // SAFETY: see `outcome`; _exit ends this process without running anything of the parent's.
        unsafe {
            (&raw mut self.failed_step).write_volatile(step as c_int);
            (&raw mut self.errno).write_volatile(errno);
            libc::_exit(127)
        }
    }
}

/// The child, between clone and exec. The child runs in the parent's memory: system calls only,
/// nothing that allocates or panics.
extern "C" fn child_main(argument: *mut c_void) -> c_int {
    // SAFETY: `spawn` passes a pointer to its `SpawnOrder`, which no other code touches until this
    // process has exec'ed.
    let job = unsafe { &mut *argument.cast::<SpawnOrder<'_>>() };
    let plan = job.plan;
    if plan.job.is_none() {
        // SAFETY: setpgid takes two numbers. It cannot fail for a fresh child, and if it did the
        // child would merely stay in the parent's group.
        unsafe { libc::setpgid(0, 0) };
    }
    if let Some(Err(Refused(errno))) = plan.job.as_ref().map(JobTraits::take_place) {
        job.fail(Step::Traits, errno);
    }
    if let Some(terminal) = &plan.terminal {
        // Never fatal: without the foreground the program still runs. SIGTTOU is blocked, so this
        // does not stop the process. SAFETY: an open descriptor and a number.
        unsafe { libc::tcsetpgrp(terminal.as_raw_fd(), libc::getpid()) };
    }
    if let Some(credentials) = &plan.credentials {
        change_user(job, credentials);
    }
    if let Some(Err(Refused(errno))) = plan.job.as_ref().map(|traits| traits.settle(job.parent)) {
        job.fail(Step::Traits, errno);
    }
    if let Some(signal) = plan.at_our_end {
        // Never fatal. A change of the user resets this, so this call follows the change.
        // SAFETY: numbers only.
        let orphan = unsafe {
            libc::syscall(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, signal.number(), 0, 0, 0);
            libc::getppid() != job.parent
        };
        if orphan {
            job.fail(Step::Traits, libc::ESRCH);
        }
    }
    if job.is_rehearsal {
        let errno = look(job);
        if errno != 0 {
            job.fail(Step::Exec, errno);
        }
        // SAFETY: ends this process without running anything of the parent's.
        unsafe { libc::_exit(0) }
    }
    if let Some(limit) = &plan.open_files {
        // Never fatal: the limit is no higher than this process's own.
        let _ = limit.take_effect();
    }
    if plan.job.is_some() {
        signals::restore_defaults();
    } else {
        signals::restore_inherited();
    }
    // SAFETY: `fork` keeps it until this process has exec'ed or ended, and does not touch it again.
    unsafe { (*job.listen_pid).set(libc::getpid()) };
    let errno = exec(job);
    job.fail(Step::Exec, errno)
}

/// Changes to the user's groups, group and id, in the order that leaves no way back. These are raw
/// calls because the C library's wrappers would first change every thread of the parent.
fn change_user(job: &mut SpawnOrder<'_>, credentials: &Credentials) {
    let Credentials { uid, gid, groups } = credentials;
    // SAFETY: the pointer and count describe a live slice; the others take numbers.
    unsafe {
        if libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) != 0 {
            job.fail(Step::Groups, errno());
        }
        if libc::syscall(libc::SYS_setresgid, *gid, *gid, *gid) != 0 {
            job.fail(Step::Group, errno());
        }
        if libc::syscall(libc::SYS_setresuid, *uid, *uid, *uid) != 0 {
            job.fail(Step::User, errno());
        }
    }
}

/// Looks at each candidate as `execvp` would meet it; 0 when one is a file that may be executed.
fn look(job: &SpawnOrder<'_>) -> c_int {
    let mut result = libc::ENOENT;
    for candidate in job.candidates.iter().copied().take_while(|path| !path.is_null()) {
        let mut stat = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: the path is a C string, and `stat` has room for what is read of it.
        let (is_there, may_execute) = unsafe {
            let is_there = libc::stat(candidate, stat.as_mut_ptr()) == 0;
            (is_there, is_there && libc::access(candidate, libc::X_OK) == 0)
        };
        // SAFETY: read only after a call that has filled it.
        let is_file = is_there && unsafe { stat.assume_init_ref() }.st_mode & libc::S_IFMT == libc::S_IFREG;
        if is_file && may_execute {
            return 0;
        }
        if is_there || errno() == libc::EACCES {
            result = libc::EACCES;
        }
    }
    result
}

/// Tries each candidate as `execvp` does; returns the errno to report when none could be executed.
fn exec(job: &mut SpawnOrder<'_>) -> c_int {
    let environ = job.environ;
    let mut result = libc::ENOENT;
    for candidate in job
        .candidates
        .iter()
        .copied()
        .take_while(|candidate| !candidate.is_null())
    {
        // SAFETY: the path is a C string, and both arrays are null-terminated arrays of C strings.
        unsafe { libc::execve(candidate, job.args, environ) };
        match errno() {
            libc::ENOEXEC if program_file::is_binary(candidate) => return libc::ENOEXEC,
            libc::ENOEXEC => {
                if let Some(script) = job.shell_args.get_mut(1) {
                    *script = candidate;
                }
                // SAFETY: as above; the array ends with the null pointer of `args`.
                unsafe { libc::execve(SHELL.as_ptr(), job.shell_args.as_ptr(), environ) };
                return libc::ENOEXEC;
            }
            // Not in this directory: the next may have it, but a refusal is the better thing to
            // report.
            libc::ENOENT | libc::ENOTDIR => {}
            libc::EACCES => result = libc::EACCES,
            other => return other,
        }
    }
    result
}

/// The array form of C: pointers, then null. Valid as long as the strings live.
fn null_terminated(strings: &[CString]) -> Vec<*const c_char> {
    strings
        .iter()
        .map(|string| string.as_ptr())
        .chain([ptr::null()])
        .collect()
}

#[cfg(test)]
#[path = "child_tests.rs"]
mod tests;
