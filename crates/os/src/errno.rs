//! Numbers of errors.

use std::ffi::{c_int, c_long};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use nix::errno::{Errno, ErrnoSentinel};

/// The errno of the calling thread, for code that may not do more than system calls.
pub(crate) fn errno() -> c_int {
    // SAFETY: always a valid pointer to the calling thread's errno.
    unsafe { *libc::__errno_location() }
}

/// The result of a system call, or its error, whatever number that has.
pub(crate) fn check<T: ErrnoSentinel + PartialEq>(result: T) -> io::Result<T> {
    if result == T::sentinel() {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// The descriptor that a system call returned, or its error.
///
/// # Safety
///
/// The descriptor is new, and no other code owns it.
pub(crate) unsafe fn new_descriptor(result: impl Into<c_long>) -> io::Result<OwnedFd> {
    let number = check(result.into())?;
    let number = i32::try_from(number).map_err(io::Error::other)?;
    // SAFETY: as the caller has to know.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Whether a resource is used up that may be free again soon: processes, memory, descriptors,
/// space. A retry does not help with any other error.
pub fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOSPC | libc::EDQUOT)
    )
}

/// The meaning of an error's number, without the number.
pub fn meaning(error: &io::Error) -> String {
    let errno = error.raw_os_error().map(Errno::from_raw);
    errno.map_or_else(|| error.to_string(), |errno| errno.desc().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_up_may_be_free_again_and_what_is_forbidden_stays_forbidden() {
        let is = |number| is_shortage(&io::Error::from_raw_os_error(number));
        for number in [
            libc::EAGAIN,
            libc::ENOMEM,
            libc::EMFILE,
            libc::ENFILE,
            libc::ENOBUFS,
            libc::ENOSPC,
            libc::EDQUOT,
        ] {
            assert!(is(number), "{number}");
        }
        for number in [
            libc::EPERM,
            libc::ENOSYS,
            libc::EACCES,
            libc::EINVAL,
            libc::ENOENT,
            libc::EROFS,
            libc::E2BIG,
            libc::ELOOP,
        ] {
            assert!(!is(number), "{number}");
        }
        assert!(!is_shortage(&io::ErrorKind::TimedOut.into()));
    }
}
