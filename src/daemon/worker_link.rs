//! One connection of a worker: bytes in, events out; words in, bytes out. Nothing here waits, and everything is bounded.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};

use log::{debug, warn};

use crate::daemon::outbound::{Outbound, Written};
use crate::lifecycle::effect::Word;
use crate::lifecycle::event::Event;
use crate::lifecycle::ids::{ConnectionId, ProcessId};
use crate::os::socket::Stream;
use crate::wire::frame::{Frame, FrameReader};
use crate::wire::worker::{HelloContext, decode, encode, too_long};

/// Bytes read from one connection in one turn; then the others get theirs.
const READ_PER_TURN: usize = 256 << 10;

/// Bytes read at a time.
pub const READ_BYTES: usize = 64 << 10;

/// Most bytes that a dead process can have left: far more than a socket's buffer holds, and still an end.
const READ_TO_END: usize = 64 << 20;

/// With more than this waiting to be read by the worker we read nothing from it: its questions make our answers.
const HIGH_WATER: usize = 64 << 10;

/// Bytes of small frames that may wait behind a job.
const CONTROL_BYTES: usize = 4 << 20;

/// One connection.
#[derive(Debug)]
pub struct WorkerLink {
    id: ConnectionId,
    /// Who opened it.
    pub process: ProcessId,
    /// The socket.
    pub stream: Stream,
    reader: FrameReader,
    max_frame: usize,
    outbound: Outbound,
    /// The kernel may have something to read: it tells only once.
    may_read: bool,
    is_broken: bool,
}

/// Whether a connection is still worth having.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// There may be more.
    Open,
    /// It is over.
    Closed,
}

impl WorkerLink {
    /// A connection that was just accepted.
    pub fn new(id: ConnectionId, process: ProcessId, stream: Stream, max_frame: usize) -> Self {
        Self {
            id,
            process,
            stream,
            reader: FrameReader::new(max_frame),
            max_frame,
            outbound: Outbound::new(max_frame.saturating_add(CONTROL_BYTES)),
            may_read: true,
            is_broken: false,
        }
    }

    /// The kernel says that there is something to read.
    pub fn is_readable(&mut self) {
        self.may_read = true;
    }

    /// Whether to read from it in this turn.
    pub fn wants_read(&self) -> bool {
        self.may_read && self.outbound.len() <= HIGH_WATER
    }

    /// Reads its share of this turn.
    pub fn read(&mut self, buffer: &mut [u8], events: &mut VecDeque<Event>) -> Link {
        self.read_up_to(READ_PER_TURN, buffer, events)
    }

    /// Reads what its process has left: that process is gone, so what is not there now will never come.
    pub fn read_to_end(&mut self, buffer: &mut [u8], events: &mut VecDeque<Event>) {
        let _ = self.read_up_to(READ_TO_END, buffer, events);
        if let Some(rest) = self.reader.unfinished() {
            debug!(
                "connection {}: {} bytes of an unfinished frame are dropped",
                self.id,
                rest.len()
            );
        }
    }

    fn read_up_to(&mut self, most: usize, buffer: &mut [u8], events: &mut VecDeque<Event>) -> Link {
        let mut count = 0;
        while count < most {
            match self.stream.read(buffer) {
                Ok(0) => return Link::Closed,
                Ok(more) => {
                    count += more;
                    self.take_frames(buffer.get(..more).unwrap_or_default(), events);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.may_read = false;
                    return Link::Open;
                }
                // A worker that went with words of ours unread resets the connection after all that it had said.
                Err(error) => {
                    debug!("connection {}: {error}", self.id);
                    return Link::Closed;
                }
            }
        }
        Link::Open
    }

    fn take_frames(&mut self, mut bytes: &[u8], events: &mut VecDeque<Event>) {
        while let Some(frame) = self.reader.next_frame(&mut bytes) {
            let said = match frame {
                Frame::Line(line) => decode(line),
                Frame::TooLong => too_long(self.max_frame),
            };
            events.push_back(Event::Said(self.id, said));
        }
    }

    /// Writes a word, or as much of it as the worker's buffer takes.
    pub fn tell(&mut self, word: &Word, hello: &HelloContext, events: &mut VecDeque<Event>) -> Link {
        if self.is_broken {
            return Link::Open;
        }
        let is_job = matches!(word, Word::Job { .. });
        let was_waiting = self.outbound.len() > 0;
        match self.outbound.send(&encode(word, hello), &mut self.stream) {
            Written::All if is_job => events.push_back(Event::OutboundEmptied(self.id)),
            Written::All => {}
            Written::Some if was_waiting => {}
            Written::Some => events.push_back(Event::OutboundFilled(self.id)),
            Written::Overflow => {
                warn!(
                    "connection {}: closed: the worker does not read, and more than {CONTROL_BYTES} bytes wait for it",
                    self.id
                );
                return Link::Closed;
            }
            Written::Closed => self.broke(),
        }
        Link::Open
    }

    /// The worker's buffer has room again.
    pub fn flush(&mut self, events: &mut VecDeque<Event>) {
        if self.outbound.len() == 0 || self.is_broken {
            return;
        }
        match self.outbound.flush(&mut self.stream) {
            Written::All => events.push_back(Event::OutboundEmptied(self.id)),
            Written::Some | Written::Overflow => {}
            Written::Closed => self.broke(),
        }
    }

    /// Nothing can be written any more; what the worker had said before is still there to be read.
    fn broke(&mut self) {
        self.is_broken = true;
        self.may_read = true;
        self.outbound = Outbound::new(0);
    }
}
