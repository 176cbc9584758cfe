//! Writing to the standard descriptors without ever waiting for long.
//!
//! O_NONBLOCK is never set: the flag belongs to the open file, which the child and others share.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::os::clock;

/// Most bytes written at once: a pipe that polls writable takes this many without waiting (`PIPE_BUF`).
const CHUNK_BYTES: usize = 4096;

/// Writes to standard output, giving up after `limit`.
///
/// # Errors
///
/// The write failed (EPIPE, EBADF), or the reader did not make room in time (`TimedOut`).
pub fn write_output(bytes: &[u8], limit: Duration) -> io::Result<()> {
    write_bounded(io::stdout().as_fd(), bytes, limit)
}

/// Writes to standard error, giving up after `limit`.
///
/// # Errors
///
/// As [`write_output`].
pub fn write_error(bytes: &[u8], limit: Duration) -> io::Result<()> {
    write_bounded(io::stderr().as_fd(), bytes, limit)
}

fn write_bounded(to: BorrowedFd<'_>, bytes: &[u8], limit: Duration) -> io::Result<()> {
    let give_up = clock::monotonic().saturating_add(limit);
    let mut left = bytes;
    while !left.is_empty() {
        let remaining = give_up.saturating_sub(clock::monotonic());
        let timeout = PollTimeout::try_from(remaining).unwrap_or(PollTimeout::MAX);
        let mut waiting = [PollFd::new(to, PollFlags::POLLOUT)];
        match poll(&mut waiting, timeout) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::TimedOut)),
            Ok(_) => {}
            Err(nix::Error::EINTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let chunk = left.get(..CHUNK_BYTES).unwrap_or(left);
        match nix::unistd::write(to, chunk) {
            Ok(written) => left = left.get(written..).unwrap_or_default(),
            Err(nix::Error::EINTR | nix::Error::EAGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
