//! Operations on a TCP socket that the standard library lacks.

use std::io;
use std::os::fd::AsFd;

use socket2::SockRef;

/// Writes as many of these bytes as the kernel accepts now, and returns their number. If
/// `is_end_next`, the kernel holds the bytes and sends them with the end of the connection, so the
/// caller has to close at once.
///
/// # Errors
///
/// The kernel's error. A closed peer raises no SIGPIPE.
pub fn send(socket: &impl AsFd, bytes: &[u8], is_end_next: bool) -> io::Result<usize> {
    let wait = if is_end_next { libc::MSG_MORE } else { 0 };
    SockRef::from(socket).send_with_flags(bytes, wait | libc::MSG_NOSIGNAL)
}
