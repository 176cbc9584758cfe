//! The differences of a child that is a job: its descriptors, its session, its limits, and that it
//! does not outlive this process. The second half runs between clone and exec: system calls only.

use std::ffi::{CString, c_int};
use std::os::fd::{AsRawFd, OwnedFd};

use crate::errno::errno;
use crate::open_files::OpenFiles;

/// The first descriptor behind a job's own ones.
const FIRST_OTHER: c_int = 4;

/// How a job's process differs from other children.
#[derive(Debug)]
pub struct JobTraits {
    /// Standard input, output and error, and the job's channel, which has number 3. The child has
    /// no others.
    pub descriptors: [OwnedFd; 4],
    /// Where the child starts, if not in this process's directory.
    pub directory: Option<CString>,
    /// Its niceness, -20 to 19.
    pub nice: Option<i32>,
    pub limits: Vec<Limit>,
}

/// A limit of the kernel for a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    resource: c_int,
    soft: u64,
    hard: u64,
}

impl Limit {
    /// The limit by the kernel's name in small letters without its prefix (`nofile`). `None`: there
    /// is no such limit. A limit without a number is unlimited.
    pub fn named(name: &str, soft: Option<u64>, hard: Option<u64>) -> Option<Self> {
        let resource = match name {
            "as" => libc::RLIMIT_AS,
            "core" => libc::RLIMIT_CORE,
            "cpu" => libc::RLIMIT_CPU,
            "data" => libc::RLIMIT_DATA,
            "fsize" => libc::RLIMIT_FSIZE,
            "locks" => libc::RLIMIT_LOCKS,
            "memlock" => libc::RLIMIT_MEMLOCK,
            "msgqueue" => libc::RLIMIT_MSGQUEUE,
            "nice" => libc::RLIMIT_NICE,
            "nofile" => libc::RLIMIT_NOFILE,
            "nproc" => libc::RLIMIT_NPROC,
            "rss" => libc::RLIMIT_RSS,
            "rtprio" => libc::RLIMIT_RTPRIO,
            "rttime" => libc::RLIMIT_RTTIME,
            "sigpending" => libc::RLIMIT_SIGPENDING,
            "stack" => libc::RLIMIT_STACK,
            _ => return None,
        };
        // The types of these numbers differ between the C libraries.
        #[allow(clippy::cast_possible_wrap, trivial_numeric_casts, reason = "small numbers")]
        let resource = resource as c_int;
        Some(Self {
            resource,
            soft: soft.unwrap_or(libc::RLIM_INFINITY),
            hard: hard.unwrap_or(libc::RLIM_INFINITY),
        })
    }
}

impl From<OpenFiles> for Limit {
    fn from(OpenFiles(limit): OpenFiles) -> Self {
        #[allow(clippy::cast_possible_wrap, trivial_numeric_casts, reason = "a small number")]
        let resource = libc::RLIMIT_NOFILE as c_int;
        Self {
            resource,
            soft: limit.rlim_cur,
            hard: limit.rlim_max,
        }
    }
}

/// The system call that failed before the exec, and why.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refused(pub c_int);

impl JobTraits {
    /// Runs as this process's user: the child becomes the leader of a session and a group, takes
    /// its descriptors, and sets niceness and limits.
    pub(crate) fn take_place(&self) -> Result<(), Refused> {
        // SAFETY: takes nothing. It cannot fail for a fresh child, which leads no group.
        unsafe { libc::setsid() };
        // This must precede a limit that is below the number of descriptors in use.
        self.take_descriptors()?;
        if let Some(nice) = self.nice {
            // SAFETY: takes numbers; 0 is this process.
            check(unsafe { libc::syscall(libc::SYS_setpriority, 0, 0, nice) })?;
        }
        for limit in &self.limits {
            let value = libc::rlimit64 {
                rlim_cur: limit.soft,
                rlim_max: limit.hard,
            };
            let nothing = std::ptr::null_mut::<libc::rlimit64>();
            // SAFETY: the structure lives, and nothing is written through the null pointer.
            check(unsafe { libc::syscall(libc::SYS_prlimit64, 0, limit.resource, &raw const value, nothing) })?;
        }
        Ok(())
    }

    /// Puts the job's descriptors in their places. The exec closes all others: this process opens
    /// none without that flag, and has closed those that it inherited.
    fn take_descriptors(&self) -> Result<(), Refused> {
        // First out of the way of their places.
        let mut moved = [0; 4];
        for (descriptor, moved) in self.descriptors.iter().zip(&mut moved) {
            // SAFETY: an open descriptor and numbers.
            let copy = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_DUPFD_CLOEXEC, FIRST_OTHER) };
            check(copy.into())?;
            *moved = copy;
        }
        for (copy, place) in moved.into_iter().zip(0..FIRST_OTHER) {
            // SAFETY: numbers; what had that number is this process's copy of it.
            check(unsafe { libc::dup2(copy, place) }.into())?;
        }
        Ok(())
    }

    /// Runs as the job's user: the child will end with its parent, and changes to its directory.
    pub(crate) fn settle(&self, parent: i32) -> Result<(), Refused> {
        // A change of the user resets this, so this call follows the change.
        // SAFETY: takes numbers.
        check(unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) })?;
        // SAFETY: takes nothing.
        if unsafe { libc::getppid() } != parent {
            return Err(Refused(libc::ESRCH));
        }
        if let Some(directory) = &self.directory {
            // SAFETY: a C string.
            check(unsafe { libc::syscall(libc::SYS_chdir, directory.as_ptr()) })?;
        }
        Ok(())
    }
}

fn check(result: libc::c_long) -> Result<(), Refused> {
    if result < 0 { Err(Refused(errno())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_that_can_be_configured_is_known() {
        for name in [
            "as",
            "core",
            "cpu",
            "data",
            "fsize",
            "locks",
            "memlock",
            "msgqueue",
            "nice",
            "nofile",
            "nproc",
            "rss",
            "rtprio",
            "rttime",
            "sigpending",
            "stack",
        ] {
            assert!(Limit::named(name, Some(1), None).is_some(), "{name}");
        }
        assert_eq!(Limit::named("nothing", None, None), None);
    }
}
