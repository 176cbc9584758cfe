//! The limit of open files of this process and of the child.

use std::io;

use crate::errno::check;

/// How many descriptors a process may have.
#[derive(Debug, Clone, Copy)]
pub struct OpenFiles(pub(crate) libc::rlimit64);

impl OpenFiles {
    fn ours() -> io::Result<Self> {
        let mut limit = libc::rlimit64 {
            rlim_cur: 0,
            rlim_max: 0,
        };
        let nothing = std::ptr::null::<libc::rlimit64>();
        // SAFETY: the structure is valid to write to, and nothing is read through the null pointer.
        check(unsafe { libc::syscall(libc::SYS_prlimit64, 0, libc::RLIMIT_NOFILE, nothing, &raw mut limit) })?;
        Ok(Self(limit))
    }

    /// Makes it that of the process that calls this. Allocates nothing and sets nothing but that:
    /// for a child between clone and exec.
    ///
    /// # Errors
    ///
    /// EPERM: the hard limit is lower.
    pub fn take_effect(&self) -> io::Result<()> {
        let nothing = std::ptr::null_mut::<libc::rlimit64>();
        // SAFETY: the structure lives, and nothing is written through the null pointer.
        check(unsafe { libc::syscall(libc::SYS_prlimit64, 0, libc::RLIMIT_NOFILE, &raw const self.0, nothing) })?;
        Ok(())
    }
}

/// Most descriptors that this process may have: the soft limit. 0 if the kernel does not return it.
pub fn open_files_limit() -> usize {
    OpenFiles::ours().map_or(0, |limit| usize::try_from(limit.0.rlim_cur).unwrap_or(usize::MAX))
}

/// Raises the soft limit of descriptors to the hard limit. Returns the old limit for the child,
/// because some programs use as many descriptors as a high limit allows.
///
/// # Errors
///
/// A filter forbids it.
pub fn raise_open_files_limit() -> io::Result<OpenFiles> {
    let former = OpenFiles::ours()?;
    let mut raised = former;
    raised.0.rlim_cur = former.0.rlim_max;
    raised.take_effect()?;
    Ok(former)
}
