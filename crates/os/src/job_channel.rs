//! The channel from a job's process to the worker that runs it, as the job's process sees it: a
//! socket with a number.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, poll};

use crate::clock;

/// A connected socket that this process got at its start.
#[derive(Debug)]
pub struct JobChannel(OwnedFd);

impl JobChannel {
    /// Duplicates the socket with this number; the descriptor of that number stays open.
    ///
    /// # Errors
    ///
    /// EBADF: the number is not open. ENOTSOCK: it is no socket.
    pub fn open(number: i32) -> io::Result<Self> {
        // SAFETY: numbers only.
        let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
        if copy < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that no other code owns.
        let channel = Self(unsafe { OwnedFd::from_raw_fd(copy) });
        channel.is_shut().map(|_| channel)
    }

    /// Writes all bytes; times out after `limit`. A line that fits the receiver's buffer arrives in
    /// one piece, even if other processes write at the same time.
    ///
    /// # Errors
    ///
    /// EPIPE, ECONNRESET: the reader is gone. `TimedOut`: the reader made no room.
    pub fn send(&self, bytes: &[u8], limit: Duration) -> io::Result<()> {
        let give_up = clock::monotonic().saturating_add(limit);
        let mut left = bytes;
        while !left.is_empty() {
            match self.send_some(left) {
                Ok(sent) => left = left.get(sent..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait_for_room(give_up)?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// True if the worker has shut its writing end, to ask the job to end. Also true if the worker
    /// has ended.
    ///
    /// # Errors
    ///
    /// The kernel's error; none is known.
    pub fn is_shut(&self) -> io::Result<bool> {
        let mut byte = [0_u8; 1];
        let flags = libc::MSG_DONTWAIT | libc::MSG_PEEK;
        // SAFETY: an open descriptor, and one byte that is valid to write to.
        let read = unsafe { libc::recv(self.0.as_raw_fd(), byte.as_mut_ptr().cast(), byte.len(), flags) };
        match read {
            0 => Ok(true),
            1.. => Ok(false),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
                error if error.kind() == io::ErrorKind::ConnectionReset => Ok(true),
                error => Err(error),
            },
        }
    }

    /// The flag of a non-blocking descriptor would be shared with the job, so each call passes it.
    fn send_some(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: an open descriptor, and the pointer and length of a live slice.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    fn wait_for_room(&self, give_up: Duration) -> io::Result<()> {
        let left = give_up.saturating_sub(clock::monotonic());
        let mut waiting = [PollFd::new(self.0.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut waiting, clock::poll_timeout(left)) {
            Ok(0) if left.is_zero() => Err(io::ErrorKind::TimedOut.into()),
            Ok(_) | Err(nix::Error::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its socket has failed")]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::test_support::wait_until_the_other_end_is_closed;

    const SHORT: Duration = Duration::from_millis(20);

    fn pair() -> (UnixStream, UnixStream, JobChannel) {
        let (runner, job) = UnixStream::pair().unwrap();
        let channel = JobChannel::open(job.as_raw_fd()).unwrap();
        (runner, job, channel)
    }

    #[test]
    fn what_is_written_arrives_and_nothing_before_it() {
        let (mut runner, job, channel) = pair();
        channel.send(b"heartbeat\n", SHORT).unwrap();
        drop((job, channel));
        let mut text = String::new();
        runner.read_to_string(&mut text).unwrap();
        assert_eq!(text, "heartbeat\n");
    }

    #[test]
    fn a_number_without_a_socket_is_refused() {
        let file = File::open("/dev/null").unwrap();
        let refused = |number| JobChannel::open(number).unwrap_err().raw_os_error();
        assert_eq!(refused(file.as_raw_fd()), Some(libc::ENOTSOCK));
        assert_eq!(refused(1 << 24), Some(libc::EBADF));
        assert_eq!(refused(-1), Some(libc::EBADF));
    }

    #[test]
    fn the_end_of_the_other_sides_writing_is_seen_and_writing_goes_on() {
        let (runner, job, channel) = pair();
        assert!(!channel.is_shut().unwrap());
        runner.shutdown(Shutdown::Write).unwrap();
        assert!(channel.is_shut().unwrap());
        channel.send(b"checkpoint 1\n", SHORT).unwrap();
        drop(runner);
        wait_until_the_other_end_is_closed(&job);
        assert!(channel.is_shut().unwrap());
    }

    #[test]
    fn nobody_waits_for_ever_for_one_who_does_not_read() {
        let (runner, job, channel) = pair();
        let much = vec![b'x'; 16 << 20];
        let error = channel.send(&much, SHORT).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let flags = nix::fcntl::fcntl(&job, nix::fcntl::FcntlArg::F_GETFL).unwrap();
        assert_eq!(flags & libc::O_NONBLOCK, 0, "the job's own writing still waits");
        drop(runner);
        wait_until_the_other_end_is_closed(&job);
        let error = channel.send(b"x", SHORT).unwrap_err();
        assert!(
            matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset),
            "{error}"
        );
    }
}
