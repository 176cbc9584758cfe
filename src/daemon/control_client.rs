//! A subcommand's side of the control socket: a line there, a line back, never longer than it may take.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::daemon::narrate::seconds;
use crate::lifecycle::event::Request;
use crate::os::clock;
use crate::os::socket::Stream;
use crate::wire::control::{self, MAX_LINE, Told};
use crate::wire::frame::{Frame, FrameReader};

/// Why there is no answer. `Display` is for the user.
#[derive(Debug)]
pub enum NoAnswer {
    /// None came in time.
    TooLate(Duration),
    /// The instance is gone, or has closed the connection.
    Gone,
    /// What came is none.
    Strange,
    /// A system call failed.
    Failed(io::Error),
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLate(limit) => write!(
                f,
                "ojs-init did not answer within {}; what it has read by now may still be carried out",
                seconds(*limit)
            ),
            Self::Gone => f.write_str("ojs-init ended, or closed the connection, before it answered"),
            Self::Strange => f.write_str("what ojs-init answered is not understood; is it another version?"),
            Self::Failed(error) => write!(f, "cannot talk to ojs-init: {error}"),
        }
    }
}

impl std::error::Error for NoAnswer {}

/// Asks for something, and waits for the answer, at most `limit`.
pub fn ask(mut stream: &Stream, request: Request, limit: Duration) -> Result<Told, NoAnswer> {
    let give_up = clock::monotonic().saturating_add(limit);
    // A request always fits into the buffer of a connection that has no other on its way.
    match stream.write(&control::encode_request(request)) {
        Ok(_) => {}
        Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
            return Err(NoAnswer::Gone);
        }
        Err(error) => return Err(NoAnswer::Failed(error)),
    }
    let mut reader = FrameReader::new(MAX_LINE);
    let mut buffer = [0; 512];
    loop {
        let left = give_up.saturating_sub(clock::monotonic());
        if left.is_zero() {
            return Err(NoAnswer::TooLate(limit));
        }
        wait_readable(stream, left).map_err(NoAnswer::Failed)?;
        match stream.read(&mut buffer) {
            Ok(0) => return Err(NoAnswer::Gone),
            Ok(count) => match reader.next_frame(&mut buffer.get(..count).unwrap_or_default()) {
                Some(Frame::Line(line)) => return control::decode_answer(line).ok_or(NoAnswer::Strange),
                Some(Frame::TooLong) => return Err(NoAnswer::Strange),
                None => {}
            },
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Err(NoAnswer::Gone),
            Err(error) => return Err(NoAnswer::Failed(error)),
        }
    }
}

/// Returns early when there is something to read, or a signal came.
fn wait_readable(stream: &Stream, limit: Duration) -> io::Result<()> {
    let mut waiting = [PollFd::new(stream.as_fd(), PollFlags::POLLIN)];
    match poll(&mut waiting, timeout(limit)) {
        Ok(_) | Err(nix::Error::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Waits until this moment on the monotonic clock, with nothing to wait for.
pub fn pause_until(end: Duration) {
    loop {
        let left = end.saturating_sub(clock::monotonic());
        if left.is_zero() || matches!(poll(&mut [], timeout(left)), Err(error) if error != nix::Error::EINTR) {
            return;
        }
    }
}

/// Rounded up, so that nobody waits for the last part of a millisecond in a busy loop.
fn timeout(left: Duration) -> PollTimeout {
    PollTimeout::try_from(left.saturating_add(Duration::from_millis(1))).unwrap_or(PollTimeout::MAX)
}
