//! Writing to the standard descriptors without ever waiting for long.
//!
//! O_NONBLOCK is never set: the flag belongs to the open file, which the child and others share. A
//! terminal, which may block although it polls writable, is opened once more instead.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::geteuid;

use crate::clock;

/// Most bytes per write: a pipe that polls writable accepts this many without blocking
/// (`PIPE_BUF`).
const CHUNK_BYTES: usize = 4096;

/// Pause before a descriptor is tried again that polled writable and accepted nothing: a terminal
/// with too little room, or a pipe that another process filled first.
const FULL_PAUSE: Duration = Duration::from_millis(10);

/// Writes to standard output, giving up after `limit`.
///
/// # Errors
///
/// The write failed (EPIPE, EBADF), or the reader did not make room in time (`TimedOut`).
pub fn write_output(bytes: &[u8], limit: Duration) -> io::Result<()> {
    write_bounded(io::stdout().as_fd(), bytes, limit).1
}

/// Like [`write_output`], and returns the number of written bytes even after an error.
pub fn write_output_counted(bytes: &[u8], limit: Duration) -> (usize, io::Result<()>) {
    write_bounded(io::stdout().as_fd(), bytes, limit)
}

/// Writes to standard error, giving up after `limit`.
///
/// # Errors
///
/// As [`write_output`].
pub fn write_error(bytes: &[u8], limit: Duration) -> io::Result<()> {
    write_bounded(io::stderr().as_fd(), bytes, limit).1
}

/// Standard error for a thread that may block. Writes wait for the reader however long that takes,
/// even if another process has set O_NONBLOCK on the shared open file, as Node.js does with pipes.
#[derive(Debug)]
pub struct BlockingStderr;

impl Write for BlockingStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut to = io::stderr();
        let mut is_full = false;
        loop {
            match to.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
            if std::mem::replace(&mut is_full, true) {
                // The descriptor polled writable, and still does not accept these bytes.
                clock::pause(FULL_PAUSE);
            }
            let mut waiting = [PollFd::new(to.as_fd(), PollFlags::POLLOUT)];
            match poll(&mut waiting, PollTimeout::NONE) {
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a file that is this process's standard input, at most `most` bytes, from its beginning.
/// The place at which other readers continue does not move.
///
/// # Errors
///
/// Standard input is no file (ESPIPE), or is not open.
pub fn read_input_from_its_beginning(most: u64) -> io::Result<Vec<u8>> {
    let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let length = stdin.metadata()?.len().min(most);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    stdin.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Makes this user the owner of the pipes among standard input, output and error that belong to
/// this process's user. A program of that user can then open `/dev/stderr` by its name. Best
/// effort: without that right the owner stays, and open descriptors still work.
pub fn give_pipes_to(uid: u32) {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    for descriptor in [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()] {
        let is_own_pipe = fstat(descriptor).is_ok_and(|found| {
            SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFIFO
                && found.st_uid == geteuid().as_raw()
        });
        if is_own_pipe {
            let _ = std::os::unix::fs::fchown(descriptor, Some(uid), None);
        }
    }
}

/// The terminal behind this descriptor as a separate open file that never blocks; `None` if it is
/// no terminal.
fn own_terminal(of: BorrowedFd<'_>) -> Option<File> {
    let path = format!("/proc/self/fd/{}", of.as_raw_fd());
    let open = || {
        File::options()
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)
            .ok()
    };
    of.is_terminal().then(open).flatten()
}

fn write_bounded(to: BorrowedFd<'_>, bytes: &[u8], limit: Duration) -> (usize, io::Result<()>) {
    let mut left = bytes;
    let result = write_all(to, &mut left, limit);
    (bytes.len().saturating_sub(left.len()), result)
}

fn write_all(to: BorrowedFd<'_>, left: &mut &[u8], limit: Duration) -> io::Result<()> {
    let terminal = own_terminal(to);
    let to = terminal.as_ref().map_or(to, AsFd::as_fd);
    let give_up = clock::monotonic().saturating_add(limit);
    while !left.is_empty() {
        let remaining = give_up.saturating_sub(clock::monotonic());
        let mut waiting = [PollFd::new(to, PollFlags::POLLOUT)];
        match poll(&mut waiting, clock::poll_timeout(remaining)) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::TimedOut)),
            Ok(_) => {}
            Err(nix::Error::EINTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let chunk = left.get(..CHUNK_BYTES).unwrap_or(*left);
        match nix::unistd::write(to, chunk) {
            Ok(written) => *left = left.get(written..).unwrap_or_default(),
            // The terminal polls writable and accepts nothing, because it has less room than it
            // wants. Pauses instead of a busy loop.
            Err(nix::Error::EAGAIN) if remaining.is_zero() => return Err(io::Error::from(io::ErrorKind::TimedOut)),
            Err(nix::Error::EAGAIN) => clock::pause(FULL_PAUSE),
            Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
