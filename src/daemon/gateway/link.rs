//! One connection of a worker that uses HTTP: bytes in and out, and the progress of its request.
//! Nothing here blocks, and everything is bounded.
//!
//! A link carries one request at a time. The next head is parsed after the last answer was written,
//! so answers keep the order of their requests. If a client reads slowly, ojs-init reads from it
//! slowly.
//!
//! A link ends in steps. Each of these is a fact of its own:
//!
//! | fact | it follows from | what it changes |
//! |---|---|---|
//! | `is_refused` | the caller is not the worker | it takes no room of the worker's, and has 5 s for its 403 |
//! | `is_leaving` | its client or the answer says `Connection: close` | it is not counted among those that stay |
//! | `is_ended` | the end behind the client's last byte was read | nothing more is read |
//! | `is_reset` | the client has reset it | a request that passes through ends at once |
//! | `is_deaf` | nobody reads the answers | nothing more is written |
//! | `is_left_behind` | its process is gone | its last bytes have 100 ms, then its holder ends |

use std::io::{ErrorKind, Read};
use std::net::Shutdown;
use std::time::Duration;

use mio::net::TcpStream;
use socket2::SockRef;

use crate::daemon::backend::tunnel::TunnelId;
use crate::daemon::gateway::body_permits::BodyPermit;
use ojs_lifecycle::api::{HolderId, JobId, Moment, ProcessId, PullId};
use ojs_os::tcp;
use ojs_wire::gateway::{AnswerForm, RequestKind};
use ojs_wire::http::message::MessageHead;
use ojs_wire::http::request_reader::RequestReader;

/// How far a connection is.
#[derive(Debug)]
pub(super) enum LinkStage {
    /// The head of the next request is awaited.
    Head,
    /// The body of a request to ojs-init itself is being received.
    Gathering(Request),
    /// The lifecycle has it.
    Asked(Asked),
    /// The request passes through.
    Relaying(Relay),
    /// Its answer is being written. If the answer to a request for jobs does not arrive, the jobs
    /// go back.
    Answering(Option<Pulling>),
    /// The client was informed that the connection ends here. The client closes it, and all it
    /// sends until then is dropped: see `closing`.
    Closing,
}

/// A request for jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pulling {
    pub(super) holder: HolderId,
    pub(super) pull: PullId,
}

/// A request that ojs-init answers itself.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) route: RequestKind,
    pub(super) head: MessageHead,
    /// The received part of it.
    pub(super) body: Vec<u8>,
    /// A large body needs one.
    pub(super) permit: Option<BodyPermit>,
    /// The body is large, and there is no permit for it yet.
    pub(super) waits_for_permit: bool,
    /// Since when it has a permit, if it had to wait for one.
    pub(super) has_permit_since: Option<Moment>,
}

/// The open question to the lifecycle.
#[derive(Debug)]
pub(super) enum Asked {
    /// Jobs.
    Jobs(Pulling),
    /// The answer to the outcome of this job.
    Outcome(JobId),
    /// The answer to a heartbeat.
    Beat,
}

/// A request that passes through.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) tunnel: TunnelId,
    /// A body that was gathered before.
    pub(super) gathered: Option<Gathered>,
    /// The tunnel has all of the request's body.
    pub(super) is_body_done: bool,
    /// How the body of the answer is written; none: there was no head yet.
    pub(super) answer: Option<BodyCoding>,
    /// The tunnel has all of the answer.
    pub(super) is_done: bool,
    /// By its method the request changes nothing. Without a client no program needs it.
    pub(super) changes_nothing: bool,
    /// The delay behind the next look, until the kernel is asked again whether the client, which
    /// sends no more, is still there.
    pub(super) looks_again_after: Duration,
    /// The answer is a stream of events: it has no end by itself.
    pub(super) is_event_stream: bool,
}

/// A body that was received whole and is passed to the backend.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) body: Vec<u8>,
    /// The tunnel has accepted so much of it.
    pub(super) taken: usize,
    #[expect(dead_code, reason = "it is held, not read")]
    pub(super) permit: BodyPermit,
}

/// How the body of an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyCoding {
    /// Unchanged: its length was announced, or the end of the connection is its end.
    Plain,
    Chunked,
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filled {
    /// So many bytes.
    Bytes(usize),
    /// There are none now, or there is no room for any.
    Nothing,
    /// The client sends no more.
    End,
}

/// One connection.
#[derive(Debug)]
pub(super) struct GatewayLink {
    pub(super) stream: TcpStream,
    /// The process at the other end; none if it cannot be known.
    pub(super) process: Option<ProcessId>,
    /// Each request has to show the worker's bearer, or none.
    pub(super) needs_bearer: bool,
    /// The caller is refused, and is about to get the answer.
    pub(super) is_refused: bool,
    pub(super) stage: LinkStage,
    /// How the answer to the request that is on it is given.
    pub(super) form: AnswerForm,
    pub(super) reader: RequestReader,
    /// The answer with jobs that went out last, until the next request is here.
    pub(super) last_given: Option<Pulling>,
    /// Since when it is there.
    pub(super) since: Moment,
    /// When the last byte of its client arrived.
    pub(super) heard_at: Moment,
    /// In the stage [`LinkStage::Closing`]: when it ends, whatever the client sends.
    pub(super) closes_by: Moment,
    /// Bytes have arrived whose time is not noted yet.
    pub(super) has_news: bool,
    /// A whole request was received on it.
    pub(super) has_asked: bool,
    /// Bytes that wait for the client, from `sent` on.
    outbound: Vec<u8>,
    sent: usize,
    /// The kernel may hold unread bytes. The kernel reports them only once.
    may_read: bool,
    /// The kernel has reported that the client sends no more. Then the end can be read behind the
    /// last byte.
    may_end: bool,
    /// The kernel has reported room to write.
    may_write: bool,
    /// The kernel reports room to write as well.
    pub(super) is_told_of_room: bool,
    /// The end behind the client's last byte was read.
    pub(super) is_ended: bool,
    /// The client has reset it: its process can neither read nor write on it any more.
    pub(super) is_reset: bool,
    /// No process reads the answers. Bytes that were sent before are still read.
    pub(super) is_deaf: bool,
    /// The process at the other end is gone.
    pub(super) is_left_behind: bool,
    /// The connection has its turn soon.
    pub(super) is_queued: bool,
}

impl GatewayLink {
    /// A connection that was just accepted.
    pub(super) fn new(stream: TcpStream, now: Moment) -> Self {
        Self {
            stream,
            process: None,
            needs_bearer: false,
            is_refused: false,
            stage: LinkStage::Head,
            form: AnswerForm {
                wants_body: true,
                is_kept: false,
                is_kept_by_itself: true,
            },
            reader: RequestReader::default(),
            last_given: None,
            since: now,
            heard_at: now,
            closes_by: now,
            has_asked: false,
            has_news: false,
            outbound: Vec::new(),
            sent: 0,
            may_read: true,
            may_end: false,
            may_write: true,
            is_told_of_room: false,
            is_ended: false,
            is_reset: false,
            is_deaf: false,
            is_left_behind: false,
            is_queued: false,
        }
    }

    /// Answers a refused caller, and accepts nothing of it.
    pub(super) fn refuse(&mut self, answer: &[u8]) {
        self.say(answer);
        self.stage = LinkStage::Answering(None);
    }

    /// Remembers an event of the kernel.
    pub(super) fn is_ready(&mut self, event: &mio::event::Event) {
        self.may_end |= event.is_read_closed() || event.is_error();
        // The client has closed both directions, before ojs-init has closed its own.
        let is_open = !matches!(self.stage, LinkStage::Answering(_) | LinkStage::Closing);
        if event.is_error() || (is_open && event.is_write_closed()) {
            self.reset();
        }
        self.may_read |= event.is_readable() || self.may_end;
        self.has_news |= event.is_readable();
        self.may_write |= event.is_writable() || event.is_write_closed() || event.is_error();
    }

    /// The process at the other end is gone: nothing is written any more, and the rest of its bytes
    /// is read. The kernel may still be delivering them.
    pub(super) fn leave_behind(&mut self) {
        self.is_left_behind = true;
        self.is_deaf = true;
        self.may_read = true;
    }

    /// Nothing more is read, even if bytes arrive.
    pub(super) fn end(&mut self) {
        self.is_ended = true;
        self.is_deaf = true;
    }

    /// The kernel may know more than it has reported.
    pub(super) fn look_again(&mut self) {
        self.may_read = true;
    }

    /// True if the client is known to send no more, even if some of its bytes are still unread.
    pub(super) fn says_no_more(&self) -> bool {
        self.is_ended || self.may_end
    }

    /// True if one side has announced that the connection ends behind its present request.
    pub(super) fn is_leaving(&self) -> bool {
        // A new connection is not kept by any answer yet.
        !self.form.is_kept && !matches!(self.stage, LinkStage::Head)
    }

    /// Since when it is open without a whole request. `None`: it has had one, or is not to blame
    /// for the delay.
    pub(super) fn silent_since(&self) -> Option<Moment> {
        let since = match &self.stage {
            LinkStage::Head => Some(self.since),
            LinkStage::Gathering(request) if !request.waits_for_permit => Some(self.heard_at),
            LinkStage::Gathering(_)
            | LinkStage::Asked(_)
            | LinkStage::Relaying(_)
            | LinkStage::Answering(_)
            | LinkStage::Closing => None,
        };
        since.filter(|_| !self.has_asked && !self.is_refused)
    }

    /// Bytes that wait for the client.
    pub(super) fn waiting(&self) -> usize {
        self.outbound.len() - self.sent
    }

    /// True if it waits for room to write, and the kernel does not report that yet.
    pub(super) fn lacks_news_of_room(&self) -> bool {
        !self.may_write && !self.is_deaf && !self.is_told_of_room
    }

    /// Adds bytes for the client.
    pub(super) fn say(&mut self, bytes: &[u8]) {
        if self.is_deaf {
            return;
        }
        if self.sent > 0 {
            self.outbound.drain(..self.sent);
            self.sent = 0;
        }
        self.outbound.extend_from_slice(bytes);
    }

    /// Writes waiting bytes, as far as the client's buffer has room. Nothing is written to a client
    /// that is gone.
    ///
    /// The end follows the last answer at once: both leave in one segment, which wakes the client
    /// once.
    pub(super) fn flush(&mut self) {
        let is_end_next = matches!(self.stage, LinkStage::Answering(_)) && !self.form.is_kept;
        while self.may_write && !self.is_deaf && self.waiting() > 0 {
            let bytes = self.outbound.get(self.sent..).unwrap_or_default();
            match tcp::send(&self.stream, bytes, is_end_next) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.may_write = false,
                Err(_) => self.reset(),
            }
        }
        if self.is_deaf || self.waiting() == 0 {
            self.outbound = Vec::new();
            self.sent = 0;
        }
    }

    /// Reads as much as there is room for.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> Filled {
        if self.is_ended {
            return Filled::End;
        }
        let room = buffer.len().min(self.reader.room());
        while self.may_read && room > 0 {
            match self.stream.read(buffer.get_mut(..room).unwrap_or_default()) {
                Ok(0) => return self.ended(),
                Ok(count) => {
                    self.reader.add(buffer.get(..count).unwrap_or_default());
                    // A read that did not fill the room has emptied the socket; the kernel reports
                    // later bytes.
                    self.may_read = count == room || self.may_end || self.is_left_behind;
                    return Filled::Bytes(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.may_read = false,
                Err(_) => {
                    self.reset();
                    return self.ended();
                }
            }
        }
        Filled::Nothing
    }

    /// The last answer with jobs, if the client had closed the connection before that answer
    /// arrived. Such a client has reset the connection behind its own end, which Linux reports as
    /// EPIPE. A reset without an end before it proves nothing, because a client with `SO_LINGER` 0
    /// sends one after it has read the answer.
    pub(super) fn take_unread(&mut self) -> Option<Pulling> {
        let given = self.last_given.take()?;
        let error = self.stream.take_error().ok()??;
        (error.kind() == ErrorKind::BrokenPipe).then_some(given)
    }

    fn reset(&mut self) {
        self.is_reset = true;
        self.is_deaf = true;
    }

    fn ended(&mut self) -> Filled {
        self.is_ended = true;
        Filled::End
    }

    /// Reads and drops what the client still sends.
    pub(super) fn drop_rest(&mut self, buffer: &mut [u8]) -> Filled {
        if self.is_ended {
            return Filled::End;
        }
        while self.may_read {
            match self.stream.read(buffer) {
                Ok(0) => return self.ended(),
                Ok(count) => return Filled::Bytes(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.may_read = false,
                Err(_) => return self.ended(),
            }
        }
        Filled::Nothing
    }

    /// Nothing more will be written.
    pub(super) fn finish_writing(&self) {
        // A client that is gone needs no end.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Makes the close a reset, because the client must notice that its answer is incomplete.
    pub(super) fn reset_at_close(&self) {
        // Without it the client sees an end that may look right.
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its sockets has failed")]
mod tests {
    use std::net::{TcpListener, TcpStream as Client};

    use super::*;

    const ANSWER: &[u8] = b"an answer with jobs";

    /// Returns an answer with jobs if it is known to be unread at the end of its connection. The
    /// client does `before` it and `after` it, and then closes.
    fn unread(before: impl FnOnce(Client) -> Option<Client>, after: impl FnOnce(&Client)) -> Option<Pulling> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut link = GatewayLink::new(TcpStream::from_std(stream), Moment::default());
        assert_eq!(link.fill(&mut [0; 9]), Filled::Nothing);
        let client = before(client);
        link.say(ANSWER);
        link.flush();
        link.last_given = Some(Pulling {
            holder: HolderId(1),
            pull: PullId(2),
        });
        if let Some(client) = &client {
            after(client);
        }
        drop(client);
        let mut ended = Filled::Nothing;
        while ended == Filled::Nothing {
            link.look_again();
            ended = link.fill(&mut [0; 9]);
        }
        assert_eq!(ended, Filled::End);
        link.take_unread()
    }

    #[test]
    fn an_answer_is_known_to_be_unread_where_the_client_had_closed_before_it_and_nowhere_else() {
        let reads = |mut client: &Client| client.read_exact(&mut [0; ANSWER.len()]).unwrap();
        let lingers_not = |client: &Client| SockRef::from(client).set_linger(Some(Duration::ZERO)).unwrap();
        assert!(unread(|_closes| None, |_| {}).is_some());
        assert_eq!(unread(Some, reads), None);
        assert_eq!(unread(Some, |client| (reads(client), lingers_not(client)).1), None);
        assert_eq!(unread(Some, |_| {}), None, "this looks like the one before");
    }
}
