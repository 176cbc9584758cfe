//! One connection of a client that probes: one request, one response, closed. Nothing here blocks,
//! and everything is bounded.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

use mio::net::TcpStream;

use ojs_wire::http::probe::{MOST_HEAD_BYTES, ProbeRequest, read};

/// Bytes read at a time.
const READ_BYTES: usize = 1 << 10;

/// Reads and writes in one turn, because other connections need theirs.
const STEPS_PER_TURN: usize = 8;

/// Bytes that are read and dropped behind a request: closed with bytes unread, a connection is
/// reset, and the client may not get to see the response.
const MOST_DROPPED: usize = 256 << 10;

/// How far a connection is.
#[derive(Debug)]
enum Stage {
    /// The head of the request is being received; never more than [`MOST_HEAD_BYTES`].
    Reading(Vec<u8>),
    /// The response is being written; so many bytes are sent. Several connections may share it.
    Writing(Arc<[u8]>, usize),
    /// The client closes; so many bytes are still dropped until then.
    Closing(usize),
}

/// The next step of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkProgress {
    /// The client may send more, or there is more to do.
    Open,
    /// The response is sent, and the connection is closed soon.
    Answered,
    Over,
}

/// The origin of a client, as far as clients can be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    V4([u8; 4]),
    V6([u16; 4]),
}

/// The connection of one probe.
#[derive(Debug)]
pub struct ProbeLink {
    pub stream: TcpStream,
    pub origin: Origin,
    stage: Stage,
    /// There may be work: the kernel reports only once.
    pub is_ready: bool,
}

impl ProbeLink {
    /// A connection that was just accepted.
    pub fn new(stream: TcpStream, origin: Origin) -> Self {
        Self {
            stream,
            origin,
            stage: Stage::Reading(Vec::new()),
            is_ready: true,
        }
    }

    /// Advances the connection as far as one turn allows. `answer` returns the response to a
    /// request.
    pub fn proceed(&mut self, mut answer: impl FnMut(ProbeRequest) -> Arc<[u8]>) -> LinkProgress {
        let was_closing = matches!(self.stage, Stage::Closing(_));
        for _ in 0..STEPS_PER_TURN {
            match self.step(&mut answer) {
                Ok(true) => {}
                Ok(false) => return LinkProgress::Over,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_ready = false;
                    break;
                }
                // The client is gone, and needs no response.
                Err(_) => return LinkProgress::Over,
            }
        }
        if !was_closing && matches!(self.stage, Stage::Closing(_)) {
            LinkProgress::Answered
        } else {
            LinkProgress::Open
        }
    }

    /// One read or write. Returns false if the connection has ended.
    fn step(&mut self, answer: &mut impl FnMut(ProbeRequest) -> Arc<[u8]>) -> std::io::Result<bool> {
        match &mut self.stage {
            Stage::Reading(head) => {
                let mut buffer = [0; READ_BYTES];
                let room = READ_BYTES.min(MOST_HEAD_BYTES.saturating_sub(head.len()));
                let count = self.stream.read(buffer.get_mut(..room).unwrap_or_default())?;
                head.extend(buffer.iter().take(count));
                if let Some(request) = read(head) {
                    self.stage = Stage::Writing(answer(request), 0);
                } else if count == 0 {
                    return Ok(false);
                }
            }
            Stage::Writing(response, sent) => {
                *sent += self.stream.write(response.get(*sent..).unwrap_or_default())?;
                if *sent >= response.len() {
                    self.stream.shutdown(Shutdown::Write)?;
                    self.stage = Stage::Closing(MOST_DROPPED);
                }
            }
            Stage::Closing(left) => {
                let mut buffer = [0; READ_BYTES];
                let count = self.stream.read(&mut buffer)?;
                *left = left.saturating_sub(count);
                return Ok(count > 0 && *left > 0);
            }
        }
        Ok(true)
    }
}
