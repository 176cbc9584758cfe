//! The few system calls that neither std nor nix offer in the form that the test of an init needs.
//!
//! Signals are plain numbers here, 1 to 64: the wrappers of the C library hide 32 and 33, and nix
//! has no real-time ones.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// The kernel's signal set is this many bytes.
const SET_BYTES: usize = 8;

/// Highest signal of the kernel.
pub const HIGHEST_SIGNAL: i32 = 64;

/// The bit of a signal in a mask as `/proc` prints it and the kernel takes it.
pub const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// The mask that holds these signals.
pub fn mask_of(signals: &[i32]) -> u64 {
    signals.iter().fold(0, |mask, &signal| mask | bit(signal))
}

/// The signals of a mask.
pub fn signals_of(mask: u64) -> Vec<i32> {
    (1..=HIGHEST_SIGNAL).filter(|&signal| mask & bit(signal) != 0).collect()
}

fn check(result: i64) -> io::Result<i64> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Replaces the signal mask of this thread.
pub fn set_mask(mask: u64) -> io::Result<()> {
    // SAFETY: the set is 8 readable bytes as the kernel wants them, and it stores no old set
    // through a null pointer.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const mask,
            std::ptr::null_mut::<u64>(),
            SET_BYTES,
        )
    };
    check(result).map(drop)
}

/// Takes one pending signal of the mask; `None` when the time is over first.
pub fn take_signal(mask: u64, patience: Option<Duration>) -> io::Result<Option<i32>> {
    let limit = patience.map(|patience| libc::timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(patience.subsec_nanos()),
    });
    let limit_pointer = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the set is 8 readable bytes, the limit is null or a live timespec, and no siginfo is
    // asked for.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigtimedwait,
            &raw const mask,
            std::ptr::null_mut::<libc::siginfo_t>(),
            limit_pointer,
            SET_BYTES,
        )
    };
    match check(result) {
        Ok(signal) => Ok(i32::try_from(signal).ok()),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sends any signal, 0 to 64.
pub fn send(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: kill takes two integers and touches no memory of ours.
    check(i64::from(unsafe { libc::kill(pid, signal) })).map(drop)
}

/// Ignores a signal, or gives it back its default.
pub fn set_ignored(signal: i32, ignored: bool) -> io::Result<()> {
    let handler = if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
    // Handler, flags, restorer, mask: whatever order an architecture has after the handler, it is
    // all zero.
    let action = [handler, 0, 0, 0, 0];
    // SAFETY: the kernel reads a sigaction from the array, which is long enough, and neither
    // disposition is a function.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            action.as_ptr(),
            std::ptr::null_mut::<libc::c_void>(),
            SET_BYTES,
        )
    };
    check(result).map(drop)
}

/// Nanoseconds of `CLOCK_MONOTONIC`, comparable between processes.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Runs `body` in a new process and returns its id. Only for processes that have one thread.
pub fn fork(body: impl FnOnce() -> i32) -> io::Result<i32> {
    // SAFETY: the probes and the launcher that call this have a single thread, so the child may run
    // any code.
    let pid = unsafe { libc::fork() };
    match pid {
        0 => leave(body()),
        _ => check(i64::from(pid)).map(|_| pid),
    }
}

/// Ends this process at once: no destructor, no flush, no handler.
pub fn leave(status: i32) -> ! {
    // SAFETY: _exit does not return and needs nothing.
    unsafe { libc::_exit(status) }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this status.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

impl Ended {
    /// The words of `waitpid` about a process that ended.
    pub fn from_wait(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signal(libc::WTERMSIG(status))
        } else {
            Self::Code(libc::WEXITSTATUS(status))
        }
    }
}

/// Reaps that child: `None` while it lives and `block` is false.
pub fn reap(pid: i32, block: bool) -> io::Result<Option<Ended>> {
    let mut status = 0;
    let options = if block { 0 } else { libc::WNOHANG };
    // SAFETY: the pointer is to a live integer.
    let reaped = unsafe { libc::waitpid(pid, &raw mut status, options) };
    match check(i64::from(reaped))? {
        0 => Ok(None),
        _ => Ok(Some(Ended::from_wait(status))),
    }
}

/// Sets how many processes our user may have; the hard limit stays, it could never be raised again.
pub fn set_process_limit(most: u64) -> io::Result<()> {
    let (_, hard) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NPROC)?;
    Ok(nix::sys::resource::setrlimit(
        nix::sys::resource::Resource::RLIMIT_NPROC,
        most.min(hard),
        hard,
    )?)
}

/// Closes a descriptor by number, whoever holds it.
pub fn close(descriptor: i32) {
    // SAFETY: only for a process about to exec, where nothing uses the descriptor afterwards.
    unsafe { libc::close(descriptor) };
}

/// Puts a copy of `from` at the number `to`; it stays open over an exec.
pub fn copy_to(from: i32, to: i32) -> io::Result<()> {
    // SAFETY: only for the launcher, which knows that the number `to` is free.
    check(i64::from(unsafe { libc::dup2(from, to) })).map(drop)
}

/// Makes the terminal at that descriptor the controlling one.
pub fn take_terminal(descriptor: i32) -> io::Result<()> {
    // SAFETY: TIOCSCTTY takes an integer.
    check(i64::from(unsafe { libc::ioctl(descriptor, libc::TIOCSCTTY, 0) })).map(drop)
}

/// Says of a terminal how large it is.
pub fn set_terminal_size(terminal: BorrowedFd<'_>, columns: u16, lines: u16) -> io::Result<()> {
    let size = libc::winsize {
        ws_row: lines,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: an open descriptor, and the kernel only reads `size`.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
