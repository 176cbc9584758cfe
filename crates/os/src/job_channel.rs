//! The channel from a job's process to the worker that runs it, as the job's process sees it: a
//! socket with a number.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::{self, MsgFlags};

use crate::clock;
use crate::errno::new_descriptor;

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
        // SAFETY: numbers only, and the copy is a new descriptor.
        let copy = unsafe { new_descriptor(libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0)) };
        let channel = Self(copy?);
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
            // The flag of a non-blocking descriptor would be shared with the job, so each call
            // passes it.
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            match socket::send(self.0.as_raw_fd(), left, flags) {
                Ok(sent) => left = left.get(sent..).unwrap_or_default(),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => self.wait_for_room(give_up)?,
                Err(error) => return Err(error.into()),
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
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK;
        match socket::recv(self.0.as_raw_fd(), &mut [0], flags) {
            Ok(count) => Ok(count == 0),
            Err(Errno::EAGAIN) => Ok(false),
            Err(Errno::ECONNRESET) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    fn wait_for_room(&self, give_up: Duration) -> io::Result<()> {
        let left = give_up.saturating_sub(clock::monotonic());
        let mut waiting = [PollFd::new(self.0.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut waiting, clock::poll_timeout(left)) {
            Ok(0) if left.is_zero() => Err(io::ErrorKind::TimedOut.into()),
            Ok(_) | Err(Errno::EINTR) => Ok(()),
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
