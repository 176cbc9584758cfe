//! The number of the last error, for code that may not do more than system calls.

use std::ffi::c_int;

/// That of the calling thread.
pub(in crate::os) fn errno() -> c_int {
    // SAFETY: always a valid pointer to the calling thread's errno.
    unsafe { *libc::__errno_location() }
}
