//! The runner's end of the worker socket.

use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;

use ojs_os::socket::{Stream, read_piece};
use ojs_wire::frame::{Frame, FrameReader};

/// Most bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// Room in a frame beyond `worker.max_frame`, in bytes: PID 1 may send a little more than it
/// accepts.
const SPARE_FRAME_BYTES: usize = 64 << 10;

/// When so many bytes wait to be written, only outcomes are added: their number is bounded by that
/// of the jobs.
const CROWDED_BYTES: usize = 256 << 10;

/// Room that is kept after all was written, in bytes.
const KEPT_BYTES: usize = 64 << 10;

/// The connection to PID 1.
#[derive(Debug)]
pub struct InitConnection {
    stream: Stream,
    reader: FrameReader,
    buffer: Vec<u8>,
    outbound: Vec<u8>,
    written: usize,
    most_frame_bytes: usize,
    /// PID 1 has closed its end. Epoll reports that only once, with the last bytes, so the runner
    /// reads until it finds the end.
    is_closed: bool,
}

/// The result of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadState {
    /// There may be more.
    More,
    /// There are no bytes to read.
    Empty,
    /// PID 1 has closed it.
    Closed,
}

impl InitConnection {
    /// Connects to PID 1.
    ///
    /// # Errors
    ///
    /// As of `connect`.
    pub fn open(path: &Path, max_frame: u64) -> io::Result<Self> {
        let most_frame_bytes = usize::try_from(max_frame).unwrap_or(usize::MAX);
        Ok(Self {
            stream: Stream::connect(path)?,
            reader: FrameReader::new(most_frame_bytes.saturating_add(SPARE_FRAME_BYTES)),
            buffer: vec![0; READ_BYTES],
            outbound: Vec::new(),
            written: 0,
            most_frame_bytes,
            is_closed: false,
        })
    }

    /// The descriptor, for the poll.
    pub fn descriptor(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// From here on a short read does not count as the last one.
    pub fn read_to_the_end(&mut self) {
        self.is_closed = true;
    }

    /// Reads once, and hands each whole frame on.
    pub fn read(&mut self, take: &mut dyn FnMut(&[u8])) -> ReadState {
        let count = match read_piece(&self.stream, &mut self.buffer) {
            Ok(piece) if piece.length == 0 => return ReadState::Closed,
            Ok(piece) => piece.length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return ReadState::Empty,
            Err(error) if error.kind() == ErrorKind::Interrupted => return ReadState::More,
            Err(_) => return ReadState::Closed,
        };
        let mut read = self.buffer.get(..count).unwrap_or_default();
        while let Some(frame) = self.reader.next_frame(&mut read) {
            match frame {
                Frame::Line(line) => take(line),
                // PID 1 keeps to its own limit.
                Frame::TooLong(_) => {}
            }
        }
        if count < self.buffer.len() && !self.is_closed {
            ReadState::Empty
        } else {
            ReadState::More
        }
    }

    /// Whether a frame, its `\n` included, is short enough for PID 1.
    pub fn takes(&self, frame: &[u8]) -> bool {
        frame.len() <= self.most_frame_bytes.saturating_add(1)
    }

    /// Whether so much waits to be written that whatever can wait should.
    pub fn is_crowded(&self) -> bool {
        self.outbound.len() - self.written > CROWDED_BYTES
    }

    /// A frame, to be written with the next [`flush`](Self::flush).
    pub fn send(&mut self, frame: &[u8]) {
        self.outbound.extend_from_slice(frame);
    }

    /// True if bytes wait for PID 1 to read.
    pub fn needs_room(&self) -> bool {
        self.written < self.outbound.len()
    }

    /// Writes waiting bytes, as far as that does not block. While some are left the caller has to
    /// watch for room: [`needs_room`](Self::needs_room).
    ///
    /// # Errors
    ///
    /// PID 1 has closed the connection.
    pub fn flush(&mut self) -> io::Result<()> {
        while let Some(left) = self.outbound.get(self.written..).filter(|left| !left.is_empty()) {
            match (&self.stream).write(left) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.forget_written();
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        self.written = 0;
        self.outbound.clear();
        self.outbound.shrink_to(KEPT_BYTES);
        Ok(())
    }

    fn forget_written(&mut self) {
        self.outbound.drain(..self.written);
        self.written = 0;
    }
}
