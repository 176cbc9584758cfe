//! One connection of a worker: bytes in and events out, messages in and bytes out. Nothing here
//! blocks, and everything is bounded.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::time::Duration;

use log::{debug, warn};

use crate::daemon::workers::outbound::{Kind, Outbound, Written};
use ojs_lifecycle::api::ids::{HolderId, ProcessId};
use ojs_lifecycle::api::{Event, FromWorker, ToWorker, Trace};
use ojs_os::clock;
use ojs_os::socket::{Piece, Stream, read_piece};
use ojs_wire::backend::split::LARGE_JOB;
use ojs_wire::frame::{Frame, FrameReader};
use ojs_wire::traces::traceparent;
use ojs_wire::worker::{HelloContext, decode, encode, encode_around, too_long};

/// Bytes read from all connections together in one turn; then signals, timers and the backend get
/// theirs.
const BYTES_PER_TURN: usize = 256 << 10;

/// Frames read from all connections together in one turn. One read may exceed it, by at most as
/// many frames as it has bytes.
const FRAMES_PER_TURN: usize = 1024;

/// Least and most bytes read from one connection in one turn. The more connections have bytes to
/// read, the shorter is the turn of each, and the sooner is its next one.
const SHARE: RangeInclusive<usize> = 1 << 10..=64 << 10;

/// Bytes read at a time.
pub const READ_BYTES: usize = 16 << 10;

/// Bytes that are read at the end if the kernel does not report how many are there: more than a
/// socket's buffer holds.
const MOST_LEFT: usize = 16 << 20;

/// With more than this waiting for the worker, ojs-init reads nothing from it, because its
/// questions cause more answers. The rest of a job does not count: a worker may have to send a
/// result before it reads on.
const HIGH_WATER: usize = 64 << 10;

/// Bytes of small frames that may wait behind a job.
const CONTROL_BYTES: usize = 4 << 20;

/// The bytes that may still be read in this turn.
#[derive(Debug)]
pub struct ReadBudget {
    bytes: usize,
    frames: usize,
    share: usize,
}

impl ReadBudget {
    /// The budget of a turn with so many readable connections.
    pub fn of_a_turn(connections: usize) -> Self {
        let share = BYTES_PER_TURN / connections.max(1);
        Self {
            share: share.clamp(*SHARE.start(), *SHARE.end()),
            bytes: BYTES_PER_TURN,
            frames: FRAMES_PER_TURN,
        }
    }

    /// True if nothing more is to be read in this turn.
    pub fn is_spent(&self) -> bool {
        self.bytes == 0 || self.frames == 0
    }
}

/// One connection of the worker.
#[derive(Debug)]
pub struct WorkerLink {
    id: HolderId,
    pub process: ProcessId,
    pub stream: Stream,
    reader: FrameReader,
    outbound: Outbound,
    /// The kernel may hold unread bytes. The kernel reports them only once.
    may_read: bool,
    /// A short read proves nothing about further bytes, because the peer has closed or has sent
    /// urgent data.
    reads_until_nothing: bool,
    /// When bytes arrived last, by the monotonic clock; at first, when it was accepted. `None`: the
    /// worker has declared itself ready on it.
    heard_at: Option<Duration>,
    /// The connection ends after so many more bytes, and nothing is written to it any more.
    last_bytes: Option<usize>,
    /// The machine was informed that nothing is read from it.
    is_reading_paused: bool,
    /// The kernel reports when there is room for waiting bytes.
    pub is_watched_for_room: bool,
}

/// Whether a connection is still worth having.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// There may be more.
    Open,
    Closed,
}

impl WorkerLink {
    /// A connection that was just accepted.
    pub fn new(id: HolderId, process: ProcessId, stream: Stream, max_frame: usize) -> Self {
        Self {
            id,
            process,
            stream,
            reader: FrameReader::new(max_frame),
            outbound: Outbound::new(max_frame.saturating_add(CONTROL_BYTES)),
            may_read: true,
            reads_until_nothing: false,
            heard_at: Some(clock::monotonic()),
            last_bytes: None,
            is_reading_paused: false,
            is_watched_for_room: false,
        }
    }

    /// The kernel reported bytes to read. `may_break_off`: a read may end before all of them.
    pub fn is_readable(&mut self, may_break_off: bool) {
        self.may_read = true;
        self.reads_until_nothing |= may_break_off;
    }

    /// Whether to read from it in this turn.
    pub fn wants_read(&self) -> bool {
        self.is_ending() || self.may_read && self.outbound.control() <= HIGH_WATER
    }

    /// Since when no byte has arrived on a connection that was never ready. `None`: it was ready,
    /// or there are bytes to read.
    pub fn silent_since(&self) -> Option<Duration> {
        self.heard_at.filter(|_| !self.may_read && !self.is_ending())
    }

    /// The memory of large jobs that were written since the last time.
    pub fn take_free(&mut self) -> Vec<Vec<u8>> {
        self.outbound.take_free()
    }

    /// True if bytes wait to be written.
    pub fn needs_room(&self) -> bool {
        self.outbound.len() > 0
    }

    /// True if it closes after its available bytes were read.
    pub fn is_ending(&self) -> bool {
        self.last_bytes.is_some()
    }

    /// Nothing is written any more, and only the available bytes are read: all that the gone
    /// process has written. A process that inherited the socket may write on, so ojs-init does not
    /// wait for the end of the stream.
    pub fn end(&mut self) {
        self.last_bytes = Some(self.stream.readable().unwrap_or(MOST_LEFT));
        self.outbound = Outbound::new(0);
    }

    /// Reads its share of this turn.
    pub fn read(&mut self, budget: &mut ReadBudget, buffer: &mut [u8], events: &mut VecDeque<Event>) -> LinkState {
        let mut share = budget.share;
        while share > 0 && !budget.is_spent() {
            let most = share.min(budget.bytes).min(self.last_bytes.unwrap_or(usize::MAX));
            let room = buffer.len().min(most);
            match read_piece(&self.stream, buffer.get_mut(..room).unwrap_or_default()) {
                Ok(Piece { length: 0, .. }) => return self.closed(),
                Ok(Piece { length: count, is_cut }) => {
                    self.heard_at = self.heard_at.map(|_| clock::monotonic());
                    share -= count;
                    budget.bytes -= count;
                    self.last_bytes = self.last_bytes.map(|last| last - count);
                    let frames = self.take_frames(buffer.get(..count).unwrap_or_default(), events);
                    budget.frames = budget.frames.saturating_sub(frames);
                    // All bytes are read. The kernel reports further ones.
                    if count < room && !is_cut && !self.reads_until_nothing && !self.is_ending() {
                        self.may_read = false;
                        return LinkState::Open;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.may_read = false;
                    return if self.is_ending() {
                        self.closed()
                    } else {
                        LinkState::Open
                    };
                }
                // A worker that ended with unread messages resets the connection behind its last
                // bytes.
                Err(error) => {
                    debug!("connection {}: {error}", self.id);
                    return self.closed();
                }
            }
        }
        if self.last_bytes == Some(0) {
            self.closed()
        } else {
            LinkState::Open
        }
    }

    fn closed(&self) -> LinkState {
        if let Some(rest) = self.reader.unfinished() {
            debug!(
                "connection {}: {} bytes of an unfinished frame are dropped",
                self.id,
                rest.len()
            );
        }
        LinkState::Closed
    }

    /// Returns how many there were.
    fn take_frames(&mut self, mut bytes: &[u8], events: &mut VecDeque<Event>) -> usize {
        let mut count = 0;
        while let Some(frame) = self.reader.next_frame(&mut bytes) {
            let said = match frame {
                Frame::Line(line) => decode(line),
                Frame::TooLong(beginning) => too_long(beginning),
            };
            if matches!(said, FromWorker::Ready(_)) {
                self.heard_at = None;
            }
            events.push_back(Event::Said(self.id, said));
            count += 1;
        }
        let is_known = matches!(events.back(), Some(Event::HeardPart(id)) if *id == self.id);
        if count == 0 && !is_known {
            events.push_back(Event::HeardPart(self.id));
        }
        count
    }

    /// Writes a message, or as much of it as the worker's buffer accepts.
    /// `context` is that of a job's span, if it has one.
    pub fn tell(
        &mut self,
        word: ToWorker,
        context: Option<&Trace>,
        hello: &HelloContext,
        events: &mut VecDeque<Event>,
    ) -> LinkState {
        if self.is_ending() {
            return LinkState::Open;
        }
        let is_job = matches!(word, ToWorker::Job(_));
        let kind = if is_job { Kind::Job } else { Kind::Control };
        let was_waiting = self.outbound.len() > 0;
        match self.write(word, context, kind, hello) {
            Written::All if is_job => events.push_back(Event::OutboundEmptied(self.id)),
            Written::All => {}
            Written::Some if was_waiting => {}
            Written::Some => events.push_back(Event::OutboundFilled(self.id)),
            Written::Overflow => {
                warn!(
                    "connection {}: closed: the worker does not read, and more than {CONTROL_BYTES} bytes wait for it; \
                     read in a thread of its own",
                    self.id
                );
                return LinkState::Closed;
            }
            // Earlier frames of the worker can still be read.
            Written::Closed => self.end(),
        }
        self.tell_whether_heard(events);
        LinkState::Open
    }

    fn write(&mut self, word: ToWorker, context: Option<&Trace>, kind: Kind, hello: &HelloContext) -> Written {
        if let ToWorker::Job(job) = &word
            && (job.envelope.len() >= LARGE_JOB || context.is_some())
        {
            let (head, tail) = encode_around(job, context.map(traceparent).as_deref(), hello.max_frame);
            if job.envelope.len() < LARGE_JOB {
                let frame = [&head, job.envelope.as_bytes(), &tail].concat();
                return self.outbound.send(&frame, kind, &mut &self.stream);
            }
            let frame = (head, job.envelope.clone(), tail);
            // The memory of the envelope is free once the only clone is written.
            drop(word);
            return self.outbound.send_large(frame, &mut &self.stream);
        }
        self.outbound.send(&encode(&word, hello), kind, &mut &self.stream)
    }

    /// The worker's buffer has room again.
    pub fn flush(&mut self, events: &mut VecDeque<Event>) {
        if self.outbound.len() == 0 || self.is_ending() {
            return;
        }
        match self.outbound.flush(&mut &self.stream) {
            Written::All => events.push_back(Event::OutboundEmptied(self.id)),
            Written::Some | Written::Overflow => {}
            // Earlier frames of the worker can still be read.
            Written::Closed => self.end(),
        }
        self.tell_whether_heard(events);
    }

    fn tell_whether_heard(&mut self, events: &mut VecDeque<Event>) {
        let is_reading_paused = self.outbound.control() > HIGH_WATER;
        if std::mem::replace(&mut self.is_reading_paused, is_reading_paused) != is_reading_paused {
            events.push_back(if is_reading_paused {
                Event::ReadingStopped(self.id)
            } else {
                Event::ReadingResumed(self.id)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use ojs_os::socket::BoundSocket;

    #[test]
    fn a_part_of_a_frame_is_a_sign_of_life_once_a_turn() {
        let path = std::env::temp_dir().join(format!("ojs-link-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = BoundSocket::bind(&path).unwrap().listen().unwrap();
        let worker = Stream::connect(&path).unwrap();
        let stream = listener.accept().unwrap().unwrap().stream;
        std::fs::remove_file(&path).unwrap();
        let mut link = WorkerLink::new(HolderId(1), ProcessId(1), stream, 1 << 20);
        let mut heard = |bytes: &[u8]| {
            (&worker).write_all(bytes).unwrap();
            link.is_readable(false);
            let mut events = VecDeque::new();
            let mut buffer = [0; 1024];
            let open = link.read(&mut ReadBudget::of_a_turn(1), &mut buffer, &mut events);
            assert_eq!(open, LinkState::Open);
            let is_part = |event: &Event| matches!(event, Event::HeardPart(HolderId(1)));
            let is_frame = |event: &Event| matches!(event, Event::Said(HolderId(1), _));
            assert!(
                events.iter().all(|event| is_part(event) || is_frame(event)),
                "{events:?}"
            );
            let names = events.iter().map(|event| if is_part(event) { "part" } else { "frame" });
            names.collect::<Vec<_>>()
        };
        assert_eq!(heard(br#"{"type":"pong","id":"#), ["part"]);
        assert_eq!(heard(&[b' '; 10_000]), ["part"]);
        assert_eq!(heard(b"1}\n"), ["frame"]);
        assert_eq!(heard(b"{\"type\":\"pong\",\"id\":2}\n{"), ["frame"]);
    }
}
