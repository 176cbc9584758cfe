//! One request of a gateway's client on its way to the backend, and the answer on its way back.
//! Neither is ever held whole: a sender that is faster than its receiver has to wait.

use crate::daemon::backend::answer::{AnswerReader, Received};
use crate::daemon::backend::connection::{BackendConnection, Buffers, Got, Sent};
use crate::daemon::backend::fault::Fault;
use ojs_lifecycle::api::Moment;
use ojs_wire::http::tunnel::{AROUND_CHUNK, LAST_CHUNK, OwnLines, TunnelBody, TunnelHead, TunnelRequest, push_chunk};

/// Most bytes of a request that wait for the backend to accept them.
const REQUEST_ROOM_BYTES: usize = 64 << 10;

/// With so many unread bytes of an answer, no more of it is received. At most one further buffer is
/// held.
const ANSWER_ROOM_BYTES: usize = 64 << 10;

/// Most buffers that are read of one connection in a turn, because other connections need theirs.
const READS_PER_TURN: usize = 4;

/// A request of a gateway's client. The gateway chooses the number when it opens a tunnel, and none
/// twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TunnelId(pub u64);

/// The news of a tunnel. `Done` and `Failed` are the last ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TunnelNews {
    /// The head of the answer. It is sent once, before all other news of the answer.
    Head(TunnelHead),
    /// There are bytes of the answer's body, after there were none.
    HasBytes,
    /// There is room again for the request's body, after an offer that was not accepted whole.
    HasRoom,
    /// Nothing of the answer is left to read. The rest of the request's body is not wanted.
    Done,
    /// There will be no answer, or no more of it.
    Failed(TunnelFailure),
}

/// Why a tunnel ends without its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelFailure {
    pub kind: TunnelFailureKind,
    /// The reason, for a person. No secret is in it.
    pub text: String,
}

/// The failure as the client has to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelFailureKind {
    /// There are too many tunnels, or too many streams of events.
    Overloaded,
    /// The backend could not be reached or asked; it has not got it.
    NotSent,
    /// The backend may have got it, and did not begin to answer.
    Unanswered,
    /// The backend may have received the request, and was silent for too long.
    TooLate,
    /// The answer began and broke off: its client must see that it is not whole.
    BrokenOff,
    /// The client's body is shorter than announced.
    NotWhole,
}

/// How far a tunnel is.
#[derive(Debug)]
pub(in crate::daemon) enum TunnelStage {
    /// Other tunnels have their turn first.
    Waiting,
    /// The tunnel is on its way to a connection.
    Reaching,
    /// The tunnel is on the connection in this slot.
    Open(usize),
    /// All of the answer was received.
    Answered,
}

/// The result of a step on a connection.
pub(in crate::daemon) enum TunnelStep {
    /// The tunnel waits for an event of the kernel, or for the gateway.
    Waits,
    /// There is more to do, and other tunnels have their turn first.
    Paused,
    /// The answer is all there.
    Over(Received),
    /// There is none, or it broke off.
    Broken(Fault),
}

/// The side that a tunnel waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::daemon) enum TunnelSilence {
    /// The backend, to accept or to answer.
    Backend,
    /// The backend, which sends events if there are some.
    Events,
    /// The client, to send or to read.
    Client,
}

/// A tunnel.
pub(in crate::daemon) struct Tunnel {
    request: TunnelRequest,
    /// The body of a request that the server may get twice; empty: the client sends it, or there is
    /// none.
    whole: Vec<u8>,
    /// How far it is.
    pub(in crate::daemon) stage: TunnelStage,
    /// The tunnel waits for its turn.
    pub(in crate::daemon) is_queued: bool,
    /// The tunnel counts as a stream of events, and occupies no place of the others.
    pub(in crate::daemon) is_counted_as_stream: bool,
    /// A kept connection was closed under it: it gets a fresh one.
    pub(in crate::daemon) is_second: bool,
    /// When the last byte moved in either direction.
    pub(in crate::daemon) moved_at: Moment,
    /// The client has sent or read something since.
    client_moved: bool,
    /// Bytes for the backend that wait, from `sent` on.
    outgoing: Vec<u8>,
    sent: usize,
    /// Whether the head is among them, or among those before them.
    has_head: bool,
    /// Bytes that the connection has accepted.
    written: u64,
    /// Bytes of a body of known length that are still missing.
    left: u64,
    is_body_done: bool,
    wants_room: bool,
    answer: Option<AnswerReader>,
    has_answer_head: bool,
    is_event_stream: bool,
    /// Unread bytes of the answer's body, from `taken` on.
    incoming: Vec<u8>,
    taken: usize,
    broken: Option<Fault>,
}

impl Tunnel {
    /// A tunnel for this request, with all of its body or without any byte of it yet.
    pub(in crate::daemon) fn new(request: TunnelRequest, whole: Vec<u8>, stage: TunnelStage, now: Moment) -> Self {
        let left = match request.body {
            TunnelBody::Length(length) if whole.is_empty() => length,
            TunnelBody::None | TunnelBody::Length(_) | TunnelBody::Chunked => 0,
        };
        Self {
            stage,
            is_queued: false,
            is_counted_as_stream: false,
            is_second: false,
            moved_at: now,
            client_moved: false,
            outgoing: Vec::new(),
            sent: 0,
            has_head: false,
            written: 0,
            left,
            is_body_done: left == 0 && request.body != TunnelBody::Chunked,
            wants_room: false,
            answer: None,
            has_answer_head: false,
            is_event_stream: false,
            incoming: Vec::new(),
            taken: 0,
            broken: None,
            request,
            whole,
        }
    }

    /// Whether the backend may get it twice.
    pub(in crate::daemon) fn may_come_twice(&self) -> bool {
        self.request.may_come_twice() || !self.whole.is_empty()
    }

    /// True if the method of its request changes nothing.
    pub(in crate::daemon) fn changes_nothing(&self) -> bool {
        self.request.changes_nothing()
    }

    /// Accepts as much of the request's body as there is room for, and returns the number of bytes.
    /// There is no room before its turn, because many may wait.
    pub(in crate::daemon) fn offer(&mut self, bytes: &[u8]) -> usize {
        if matches!(self.stage, TunnelStage::Answered) || self.is_body_done {
            return 0;
        }
        if matches!(self.stage, TunnelStage::Waiting) {
            self.wants_room |= !bytes.is_empty();
            return 0;
        }
        let room = REQUEST_ROOM_BYTES.saturating_sub(self.outgoing.len() - self.sent);
        let most = match self.request.body {
            TunnelBody::None => 0,
            TunnelBody::Length(_) => room.min(usize::try_from(self.left).unwrap_or(usize::MAX)),
            TunnelBody::Chunked => room.saturating_sub(AROUND_CHUNK),
        };
        let taken = bytes.get(..most.min(bytes.len())).unwrap_or_default();
        self.client_moved |= !taken.is_empty();
        self.forget_sent();
        if self.request.body == TunnelBody::Chunked {
            push_chunk(&mut self.outgoing, taken);
        } else {
            self.outgoing.extend_from_slice(taken);
            self.left -= taken.len() as u64;
            self.is_body_done = self.left == 0;
        }
        self.wants_room = taken.len() < bytes.len() && !self.is_body_done;
        taken.len()
    }

    /// Ends the request's body. Returns true if it has the announced length.
    pub(in crate::daemon) fn body_done(&mut self) -> bool {
        if !self.is_body_done && self.request.body == TunnelBody::Chunked {
            self.outgoing.extend_from_slice(LAST_CHUNK);
        }
        self.is_body_done = true;
        self.left == 0
    }

    /// The received part of the answer's body.
    pub(in crate::daemon) fn body(&self) -> &[u8] {
        self.incoming.get(self.taken..).unwrap_or_default()
    }

    /// The client has read so many bytes.
    pub(in crate::daemon) fn took(&mut self, count: usize) {
        self.client_moved = true;
        self.taken = self.taken.saturating_add(count).min(self.incoming.len());
        if self.taken == self.incoming.len() {
            self.incoming = Vec::new();
            self.taken = 0;
        }
    }

    /// Written bytes are removed, because the room is for waiting ones.
    fn forget_sent(&mut self) {
        self.outgoing.drain(..self.sent);
        self.sent = 0;
    }

    /// The tunnel has its connection: queues the head before the received part of the body.
    pub(in crate::daemon) fn begin(&mut self, slot: usize, own: &OwnLines, bearer: Option<&str>) {
        // A new attempt needs a new reader. `step` makes it when the request is on its way.
        self.answer = None;
        if !std::mem::replace(&mut self.has_head, true) {
            let mut bytes = self.request.head(own, bearer);
            bytes.extend_from_slice(&self.whole);
            bytes.append(&mut self.outgoing);
            self.outgoing = bytes;
        }
        self.stage = TunnelStage::Open(slot);
    }

    /// True if the request can be sent once more on another connection, after `fault` on one that
    /// had served others. Then the tunnel is reset to its state before the first attempt.
    pub(in crate::daemon) fn begin_again(&mut self, fault: &Fault) -> bool {
        let is_harmless = self.written == 0 || self.may_come_twice();
        if self.is_second || self.has_answer_head || !fault.is_hang_up() || !is_harmless {
            return false;
        }
        self.is_second = true;
        if self.written > 0 {
            self.outgoing.clear();
            self.sent = 0;
            self.written = 0;
            self.has_head = false;
        }
        self.broken = None;
        self.stage = TunnelStage::Reaching;
        true
    }

    /// The failure for a fault.
    pub(in crate::daemon) fn failure_kind(&self, fault: &Fault) -> TunnelFailureKind {
        if self.has_answer_head {
            TunnelFailureKind::BrokenOff
        } else if self.written == 0 {
            TunnelFailureKind::NotSent
        } else if matches!(fault, Fault::NoAnswerInTime) {
            TunnelFailureKind::TooLate
        } else {
            TunnelFailureKind::Unanswered
        }
    }

    /// The side that has to act next.
    pub(in crate::daemon) fn silence(&self) -> TunnelSilence {
        let waits_to_be_taken = !self.body().is_empty();
        let waits_for_body = !self.is_body_done && self.sent == self.outgoing.len() && !self.has_answer_head;
        if waits_to_be_taken || waits_for_body {
            TunnelSilence::Client
        } else if self.is_event_stream {
            TunnelSilence::Events
        } else {
            TunnelSilence::Backend
        }
    }

    /// Advances both directions as far as one turn allows.
    pub(in crate::daemon) fn step<O>(
        &mut self,
        connection: &mut BackendConnection<O>,
        buffers: &mut Buffers,
        now: Moment,
        news: &mut Vec<TunnelNews>,
    ) -> TunnelStep {
        if std::mem::take(&mut self.client_moved) {
            self.moved_at = now;
        }
        let is_paused = self.write(connection, now);
        if self.wants_room && self.outgoing.len() - self.sent <= REQUEST_ROOM_BYTES / 2 {
            self.wants_room = false;
            news.push(TunnelNews::HasRoom);
        }
        for _ in 0..READS_PER_TURN {
            if self.body().len() >= ANSWER_ROOM_BYTES {
                return TunnelStep::Waits;
            }
            let answer = match &mut self.answer {
                Some(answer) => answer,
                None => {
                    let answer = AnswerReader::of_tunnel(self.request.asks_for_head_alone());
                    self.answer.insert(answer)
                }
            };
            let is_over = match connection.receive(buffers) {
                Ok(Got::Nothing) => {
                    return match self.broken.take() {
                        Some(fault) => TunnelStep::Broken(fault),
                        None if is_paused => TunnelStep::Paused,
                        None => TunnelStep::Waits,
                    };
                }
                Ok(Got::Bytes(bytes)) => {
                    self.moved_at = now;
                    answer.push(bytes)
                }
                Ok(Got::End { is_clean }) => answer.end(is_clean).map(|()| true),
                Err(fault) => Err(fault),
            };
            if let Err(fault) = self.absorb(news) {
                return TunnelStep::Broken(fault);
            }
            match is_over {
                Ok(true) => return self.finish(),
                Ok(false) => {}
                Err(fault) => return TunnelStep::Broken(fault),
            }
        }
        TunnelStep::Paused
    }

    /// Writes waiting bytes. Returns true if there is room for more and other tunnels have their
    /// turn first.
    fn write<O>(&mut self, connection: &mut BackendConnection<O>, now: Moment) -> bool {
        if self.broken.is_some() {
            return false;
        }
        let before = self.sent;
        let result = connection.send(&self.outgoing, &mut self.sent);
        if self.sent > before {
            self.moved_at = now;
            self.written += (self.sent - before) as u64;
        }
        match result {
            Ok(Sent::All) => {
                self.outgoing = Vec::new();
                self.sent = 0;
                false
            }
            Ok(Sent::Some) => false,
            Ok(Sent::Paused) => true,
            Err(fault) => {
                // Earlier bytes of the peer may still be readable.
                self.broken = Some(fault);
                connection.look_again();
                false
            }
        }
    }

    /// Moves the received answer to the client's side.
    fn absorb(&mut self, news: &mut Vec<TunnelNews>) -> Result<(), Fault> {
        let Some(answer) = &mut self.answer else { return Ok(()) };
        if let Some(head) = answer.take_tunnel_head() {
            let head = head?;
            self.has_answer_head = true;
            self.is_event_stream = head.is_event_stream();
            news.push(TunnelNews::Head(head));
        }
        let body = answer.take_new_body();
        if body.is_empty() {
            return Ok(());
        }
        if self.incoming.is_empty() {
            self.incoming = body;
            news.push(TunnelNews::HasBytes);
        } else {
            self.incoming.drain(..self.taken);
            self.taken = 0;
            self.incoming.extend_from_slice(&body);
        }
        Ok(())
    }

    fn finish(&mut self) -> TunnelStep {
        let received = self.answer.take().and_then(AnswerReader::cut_off);
        match received {
            Some(received) if received.is_whole => TunnelStep::Over(Received {
                // A backend that answers early may not have read the request to its end.
                leaves_connection_open: received.leaves_connection_open
                    && self.is_body_done
                    && self.sent == self.outgoing.len(),
                ..received
            }),
            Some(_) => TunnelStep::Broken(Fault::Closed),
            None => TunnelStep::Broken(Fault::Internal),
        }
    }
}
