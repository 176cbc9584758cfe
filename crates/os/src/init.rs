//! The duties of an init: to adopt orphans, and to hold on to nothing that is the child's.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};

use crate::process::Pid;
use ojs_values::signal::Signal;

/// The first descriptor that is none of the three standard ones.
const FIRST_EXTRA_DESCRIPTOR: u32 = 3;

/// Where the search for descriptors ends when there is no /proc to list them.
const HIGHEST_LOOKED_AT: i32 = 1024;

/// Whether we are PID 1 of our PID namespace, to whom the kernel gives every orphan.
#[must_use]
pub fn is_pid_1() -> bool {
    Pid::own().number() == 1
}

/// Whether our parent is in our PID namespace. A container's runtime, which sends the stop signals,
/// is not: for processes that it starts itself the kernel says 0.
#[must_use]
pub fn has_parent_here() -> bool {
    // SAFETY: getppid takes nothing and returns a number.
    unsafe { libc::getppid() != 0 }
}

/// Makes orphaned descendants ours instead of the init's further up.
///
/// # Errors
///
/// EINVAL before Linux 3.4.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: this prctl takes numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })
}

/// Has the kernel send us `signal` when our parent dies. A parent that dies while this call is made
/// is noticed too: then the signal is sent right here and stays pending. One that died before
/// cannot be told from a parent that is an init or a subreaper.
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

/// Descriptors that were open before we opened any of our own.
#[derive(Debug)]
pub struct Inherited(Vec<i32>);

impl Inherited {
    /// Looks which there are. To be called before anything is opened that is to stay.
    #[must_use]
    pub fn look() -> Self {
        let descriptors = open_descriptors().unwrap_or_else(|_| {
            // Without /proc: those that a shell or an orchestrator would hand on.
            // SAFETY: asks for the flags of a number that need not be a descriptor.
            (0..HIGHEST_LOOKED_AT)
                .filter(|descriptor| unsafe { libc::fcntl(*descriptor, libc::F_GETFD) } >= 0)
                .collect()
        });
        let further = descriptors
            .into_iter()
            .filter(|descriptor| *descriptor >= FIRST_EXTRA_DESCRIPTOR.cast_signed());
        Self(further.collect())
    }

    /// Lets go of them, of the working directory, and of standard input and output, like
    /// [`release_inherited`], but leaves what we have opened ourselves.
    pub fn release(self) {
        release_standard();
        for descriptor in self.0 {
            // SAFETY: it was open before we opened anything, so none of our own descriptors has its
            // number.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// Puts `/dev/null` in the place of each closed standard descriptor, so that nothing we open gets
/// its number: neither our log lines nor what [`Inherited::release`] does later may meet one of our
/// own. To be called before anything is opened that is to stay. The child still finds it closed.
pub fn reserve_std_fds() {
    for descriptor in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: asks for the flags of a number that need not be a descriptor; the paths are
        // strings with an end. The lowest free number is this one, as all below it are taken by
        // now. Nobody owns it, and it stays.
        unsafe {
            if libc::fcntl(descriptor, libc::F_GETFD) < 0
                && libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) < 0
            {
                // Without /dev: what can be neither read nor written takes the place too.
                libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
            }
        }
    }
}

/// Puts `/dev/null` in the place of a terminal on standard input: the worker is in the background
/// there, and reading would stop it. We stay in the foreground, so that Ctrl-C and Ctrl-Z reach us.
pub fn detach_stdin_tty() {
    // SAFETY: asks about a number that need not be a descriptor.
    if unsafe { libc::isatty(libc::STDIN_FILENO) } == 0 {
        return;
    }
    if let Ok(null) = File::open("/dev/null") {
        // SAFETY: two open descriptors; ours is closed on drop, the copy stays.
        unsafe { libc::dup2(null.as_raw_fd(), libc::STDIN_FILENO) };
    }
}

/// Keeps our memory from whoever runs as the same user: no core dump, no ptrace, and
/// `/proc/PID/environ`, `mem` and the like belong to root.
///
/// A child that changes its user before exec shares our memory until then, and with it the kernel
/// sets this back to what `fs.suid_dumpable` says: so once more after starting one.
///
/// # Errors
///
/// None is known but a seccomp filter.
pub fn forbid_dumps() -> io::Result<()> {
    // SAFETY: this prctl takes numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) })
}

/// Lets go of what we inherited and only the child needs. These are the working directory (we would
/// keep its file system mounted), standard input and output (a pipe's other end would wait for us)
/// and every further descriptor. For after the child has been started. Best effort: nothing here is
/// worth failing for.
pub fn release_inherited() {
    release_standard();
    close_from(FIRST_EXTRA_DESCRIPTOR);
}

fn release_standard() {
    let _ = std::env::set_current_dir("/");
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let null = null.into_raw_fd();
        // SAFETY: plain descriptor numbers. Standard error stays as it is for our log; where it is
        // closed it becomes /dev/null too, so that no other file ever gets its number and our log
        // lines.
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
}

/// Closes every descriptor from `first` on. None of them is ours at this point.
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

/// The descriptors of this process, without the one that this look itself takes.
fn open_descriptors() -> io::Result<Vec<i32>> {
    let names = fs::read_dir("/proc/self/fd")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()));
    let found: Vec<i32> = names.collect();
    // The directory is closed by now, so whatever is still open was open before.
    // SAFETY: asks for the flags of a number that need not be a descriptor.
    let is_open = |descriptor: &i32| unsafe { libc::fcntl(*descriptor, libc::F_GETFD) } >= 0;
    Ok(found.into_iter().filter(is_open).collect())
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
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
        // SAFETY: as above; the other tests want it as it was.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    }
}
