//! The subcommand's end of the control socket: one line sent, one line received, within a time
//! limit.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, poll};
use thiserror::Error;

use ojs_lifecycle::api::OperatorRequest;
use ojs_os::clock;
use ojs_os::socket::Stream;
use ojs_wire::frame::{Frame, FrameReader};
use ojs_wire::operator::control::{self, ControlReply};
use ojs_wire::operator::status_line::MAX_ANSWER;
use ojs_wire::text::seconds;

/// Bytes read at a time.
const READ_BYTES: usize = 4 << 10;

/// Why there is no answer. `Display` is for the user.
#[derive(Debug, Error)]
pub enum NoAnswer {
    /// No answer arrived in time.
    #[error("ojs-init did not answer within {}; what it has read by now may still be carried out", seconds(*.0))]
    TooLate(Duration),
    /// The instance is gone, or has closed the connection.
    #[error("ojs-init ended, or closed the connection, before it answered")]
    Gone,
    /// The received line is no answer.
    #[error("what ojs-init answered is not understood; is it another version?")]
    Strange,
    /// A system call failed.
    #[error("cannot talk to ojs-init: {0}")]
    Failed(io::Error),
}

/// The lines received from an instance.
#[derive(Debug)]
pub struct Incoming {
    reader: FrameReader,
}

impl Incoming {
    /// A reader without any received bytes.
    pub fn new() -> Self {
        Self {
            reader: FrameReader::new(MAX_ANSWER),
        }
    }

    /// The lines that are available without blocking, in their order, without their `\n`. Also
    /// returns why no more will arrive, if that is known.
    pub fn lines(&mut self, mut stream: &Stream) -> (Vec<Vec<u8>>, Option<NoAnswer>) {
        let mut lines = Vec::new();
        let mut buffer = [0; READ_BYTES];
        loop {
            let count = match stream.read(&mut buffer) {
                Ok(0) => return (lines, Some(NoAnswer::Gone)),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return (lines, None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return (lines, Some(NoAnswer::Gone)),
                Err(error) => return (lines, Some(NoAnswer::Failed(error))),
            };
            let mut read = buffer.get(..count).unwrap_or_default();
            while let Some(frame) = self.reader.next_frame(&mut read) {
                match frame {
                    Frame::Line(line) => lines.push(line.to_vec()),
                    Frame::TooLong(_) => return (lines, Some(NoAnswer::Strange)),
                }
            }
        }
    }
}

/// Sends a request, and waits for the answer, at most `limit`.
pub fn ask(stream: &Stream, request: &OperatorRequest, limit: Duration) -> Result<ControlReply, NoAnswer> {
    control::decode_answer(&exchange(stream, request, limit)?).ok_or(NoAnswer::Strange)
}

/// Like [`ask`], but returns the answer as it was received.
pub fn exchange(stream: &Stream, request: &OperatorRequest, limit: Duration) -> Result<Vec<u8>, NoAnswer> {
    let give_up = clock::monotonic().saturating_add(limit);
    send(stream, request)?;
    let mut incoming = Incoming::new();
    loop {
        let left = give_up.saturating_sub(clock::monotonic());
        if left.is_zero() {
            return Err(NoAnswer::TooLate(limit));
        }
        wait_readable(stream, left).map_err(NoAnswer::Failed)?;
        let (lines, over) = incoming.lines(stream);
        if let Some(line) = lines.into_iter().next() {
            return Ok(line);
        }
        over.map_or(Ok(()), Err)?;
    }
}

/// Sends a request.
pub fn send(mut stream: &Stream, request: &OperatorRequest) -> Result<(), NoAnswer> {
    // A request always fits into the buffer of a connection that holds no other.
    match stream.write(&control::encode_request(request)) {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => Err(NoAnswer::Gone),
        Err(error) => Err(NoAnswer::Failed(error)),
    }
}

/// Returns early if there are bytes to read, or a signal arrived.
fn wait_readable(stream: &Stream, limit: Duration) -> io::Result<()> {
    let mut waiting = [PollFd::new(stream.as_fd(), PollFlags::POLLIN)];
    match poll(&mut waiting, clock::poll_timeout(limit)) {
        Ok(_) | Err(nix::Error::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
