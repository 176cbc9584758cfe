//! What can be asked of a TCP socket and has no other way to be asked.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use socket2::SockRef;

/// Has the kernel tell of a connection when something was said on it, and not before; of one on which nothing is said for so long, in
/// whole seconds, it tells a little later all the same. To be set before the socket listens.
///
/// # Errors
///
/// The kernel, or its stand-in, cannot do that: then it tells at once.
pub fn defer_accept(socket: &impl AsRawFd, silence: Duration) -> io::Result<()> {
    let seconds = libc::c_int::try_from(silence.as_secs()).map_err(io::Error::other)?;
    let length = libc::socklen_t::try_from(size_of_val(&seconds)).map_err(io::Error::other)?;
    // SAFETY: the value is as long as it says, and the kernel has read it when the call returns.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            length,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Writes as many of these bytes as the kernel takes now; how many that were. Where the end of the connection is next, they wait for it
/// and leave with it: it has to be said at once.
///
/// # Errors
///
/// What the kernel says. That the other side is gone raises no SIGPIPE.
pub fn send(socket: &impl AsFd, bytes: &[u8], is_end_next: bool) -> io::Result<usize> {
    let wait = if is_end_next { libc::MSG_MORE } else { 0 };
    SockRef::from(socket).send_with_flags(bytes, wait | libc::MSG_NOSIGNAL)
}
