//! The duties of an init: to adopt orphans, and to hold on to nothing that is the child's.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};

use crate::errno::check;
use crate::process::Pid;
use ojs_values::signal::Signal;

/// The first descriptor that is none of the three standard ones.
const FIRST_EXTRA_DESCRIPTOR: u32 = 3;

/// Whether this process is PID 1 of its PID namespace, which gets every orphan from the kernel.
pub fn is_pid_1() -> bool {
    Pid::own().number() == 1
}

/// Whether the parent of this process is in its PID namespace. A container's runtime, which sends
/// the stop signals, is outside: for processes that the runtime starts itself the kernel returns 0.
pub fn has_parent_here() -> bool {
    // SAFETY: getppid takes nothing and returns a number.
    unsafe { libc::getppid() != 0 }
}

/// Makes orphaned descendants children of this process instead of an init further up.
///
/// # Errors
///
/// EINVAL before Linux 3.4.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: this prctl takes numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })?;
    Ok(())
}

/// Has the kernel send this process `signal` when its parent dies. If the parent dies during this
/// call, the call sends the signal itself, and it stays pending. A parent that died before looks
/// like an init or a subreaper.
///
/// # Errors
///
/// EINVAL for a number that is no signal.
pub fn set_parent_death_signal(signal: Signal) -> io::Result<()> {
    // SAFETY: getppid and this prctl take and return numbers only.
    let (before, result, after) = unsafe {
        let before = libc::getppid();
        let result = libc::prctl(libc::PR_SET_PDEATHSIG, signal.number(), 0, 0, 0);
        (before, result, libc::getppid())
    };
    check(result)?;
    if before != after {
        crate::process::signal(Pid::own(), signal)
    } else {
        Ok(())
    }
}

/// Opens `/dev/null` for each closed standard descriptor, so that no later descriptor gets its
/// number. Otherwise log lines or [`release_inherited`] could hit a descriptor of this process.
/// Call it before opening anything that is to stay. The child still finds the descriptor closed.
pub fn reserve_std_fds() {
    for descriptor in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: asks for the flags of a number that need not be a descriptor; the paths are
        // strings with an end. The lowest free number is this one, as all below it are in use by
        // now. No other code owns it, and it stays.
        unsafe {
            if libc::fcntl(descriptor, libc::F_GETFD) < 0
                && libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) < 0
            {
                // Without /dev: a descriptor that can be neither read nor written fills the place
                // too.
                libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
            }
        }
    }
}

/// Puts `/dev/null` in the place of a terminal on standard input, because the worker is in the
/// background there, and reading would stop it. ojs-init stays in the foreground, so Ctrl-C and
/// Ctrl-Z reach it.
pub fn detach_stdin_tty() {
    // SAFETY: asks about a number that need not be a descriptor. The standard library would make a
    // buffer for standard input first.
    if unsafe { libc::isatty(libc::STDIN_FILENO) } == 0 {
        return;
    }
    if let Ok(null) = File::open("/dev/null") {
        // SAFETY: two open descriptors; the opened one is closed on drop, the copy stays.
        unsafe { libc::dup2(null.as_raw_fd(), libc::STDIN_FILENO) };
    }
}

/// Protects this process's memory from other processes of its user: no core dump, no ptrace, and
/// `/proc/PID/environ`, `mem` and similar files belong to root.
///
/// A child that changes its user before exec still shares this memory. With the change of the user
/// the kernel resets this flag to `fs.suid_dumpable`, so call this again after starting a child.
///
/// # Errors
///
/// None is known but a seccomp filter.
pub fn forbid_dumps() -> io::Result<()> {
    // SAFETY: this prctl takes numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) })?;
    Ok(())
}

/// Releases what this process inherited and only the child needs: the working directory (its file
/// system would stay mounted), standard input and output (a pipe's other end would wait) and every
/// further descriptor. Call it after the child has been started. Best effort: no error here is
/// worth failing for.
pub fn release_inherited() {
    let _ = std::env::set_current_dir("/");
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let null = null.into_raw_fd();
        // SAFETY: plain descriptor numbers. Standard error stays unchanged for the log; if it is
        // closed it becomes /dev/null too, so that no other file gets its number and the log lines.
        unsafe {
            libc::dup2(null, libc::STDIN_FILENO);
            libc::dup2(null, libc::STDOUT_FILENO);
            if libc::fcntl(libc::STDERR_FILENO, libc::F_GETFD) < 0 {
                libc::dup2(null, libc::STDERR_FILENO);
            }
            // /dev/null may have got the number of a closed standard descriptor. Then it stays.
            if null >= FIRST_EXTRA_DESCRIPTOR.cast_signed() {
                libc::close(null);
            }
        }
    }
    close_from(FIRST_EXTRA_DESCRIPTOR);
}

/// Closes every descriptor besides the three standard ones that this process was started with. Call
/// it before opening anything.
pub fn close_inherited() {
    close_from(FIRST_EXTRA_DESCRIPTOR);
}

/// Closes every descriptor from `first` on. This process needs none of them at this point.
fn close_from(first: u32) {
    // SAFETY: closes descriptors that nothing in this process uses.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
    if closed == 0 {
        return;
    }
    // Before Linux 5.9, or forbidden by a seccomp filter that does not know the call.
    for descriptor in open_descriptors()
        .unwrap_or_default()
        .into_iter()
        .filter(|fd| *fd >= first.cast_signed())
    {
        // SAFETY: as above.
        unsafe { libc::close(descriptor) };
    }
}

/// The descriptors of this process, without the one that this function opens itself.
fn open_descriptors() -> io::Result<Vec<i32>> {
    let names = fs::read_dir("/proc/self/fd")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()));
    let found: Vec<i32> = names.collect();
    // The directory is closed by now, so any descriptor that is still open was open before.
    // SAFETY: asks for the flags of a number that need not be a descriptor.
    let is_open = |descriptor: &i32| unsafe { libc::fcntl(*descriptor, libc::F_GETFD) } >= 0;
    Ok(found.into_iter().filter(is_open).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_forbid_dumps_the_kernel_makes_no_dump() {
        // SAFETY: these prctls take and return numbers only.
        let dumpable = || unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) };
        assert_eq!(dumpable(), 1);
        forbid_dumps().unwrap();
        assert_eq!(dumpable(), 0);
        // SAFETY: as above; the other tests expect the former value.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    }
}
