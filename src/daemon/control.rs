//! The control socket: reads requests, writes answers. The lifecycle decides the effect of a
//! request, the time of its answer, and how long a client may stay.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::time::Duration;

use log::debug;
use mio::unix::SourceFd;
use mio::{Interest, Registry};
use ojs_values::small;

use crate::daemon::acceptor::Acceptor;
use crate::daemon::tokens::TokenOwner;
use crate::daemon::workers::outbound::{Kind, Outbound, Written};
use ojs_lifecycle::api::{ClientId, Event, Moment, OperatorAnswer, OperatorRequest};
use ojs_os::socket::{Accepted, Listener, Stream};
use ojs_wire::frame::{Frame, FrameReader};
use ojs_wire::operator::control::{self, MAX_LINE, NoRequest};
use ojs_wire::operator::status_line::MAX_ANSWER;

/// Most clients at the same time. The next one replaces the oldest that waits for no answer. There
/// is one, because the lifecycle lets only some of them wait.
const MAX_CLIENTS: usize = 16;

/// Connections accepted in one turn.
const ACCEPTS_PER_TURN: usize = 16;

/// Bytes read from one client at a time. Requests ahead of an answer wait in this buffer, and the
/// rest in the kernel.
const READ_BYTES: usize = 1024;

/// Requests that may arrive at once. Each may cost lines of the log, heartbeats and frames to every
/// connection.
const BURST: u32 = 32;

/// After the burst one more request in this time. So each client has its turn within the second
/// that it may be silent. The rest waits in the kernel.
const ONE_MORE_EVERY: Duration = Duration::from_millis(50);

/// Bytes of answers that may wait for a client that does not read: the longest answer.
const MOST_UNREAD: usize = MAX_ANSWER + 1;

/// All connected clients.
#[derive(Debug)]
pub struct Control {
    acceptor: Acceptor<Listener>,
    own: u32,
    clients: BTreeMap<ClientId, ControlClient>,
    next: u64,
    /// How many requests there were so far.
    asked: u64,
    pace: RateLimit,
}

/// One client.
#[derive(Debug)]
struct ControlClient {
    stream: Stream,
    reader: FrameReader,
    /// Bytes that were read, and not looked at yet.
    ahead: Vec<u8>,
    outbound: Outbound,
    /// The kernel may hold unread bytes. The kernel reports them only once.
    may_read: bool,
    /// The client has sent a request and has no answer yet.
    has_asked: bool,
    /// Nothing was read from the client yet.
    is_new: bool,
    /// The count of requests when the client asked last.
    served: u64,
    /// The client has closed its end altogether.
    is_gone: bool,
    /// The client sends no more requests, and still reads its answer.
    has_ended: bool,
}

/// How many requests may be read now.
#[derive(Debug)]
struct RateLimit {
    left: u32,
    /// When the allowance was counted last.
    since: Option<Moment>,
}

/// The input of a client.
enum ClientInput {
    Asked(OperatorRequest),
    Garbage(NoRequest),
    /// No whole request.
    Nothing,
    /// The end of the connection.
    End,
}

impl Control {
    /// Listens, for programs of ojs-init's own user and of root.
    ///
    /// # Errors
    ///
    /// The error of epoll.
    pub fn new(listener: Listener, own: u32, registry: &Registry) -> io::Result<Self> {
        let source = TokenOwner::ControlSocket;
        Ok(Self {
            acceptor: Acceptor::new(listener, source, ACCEPTS_PER_TURN, "control socket", registry)?,
            own,
            clients: BTreeMap::new(),
            next: 0,
            asked: 0,
            pace: RateLimit::new(),
        })
    }

    /// The kernel reported that a client wants to connect.
    pub fn is_acceptable(&mut self) {
        self.acceptor.is_acceptable();
    }

    /// The kernel reported an event on the connection of the client of this number.
    pub fn is_ready(&mut self, number: u64, event: &mio::event::Event) {
        if let Some(client) = self.clients.get_mut(&ClientId(number)) {
            client.may_read |= event.is_readable() || event.is_read_closed() || event.is_error();
            client.is_gone |= event.is_write_closed();
            if event.is_writable() && client.outbound.len() > 0 {
                // A client that accepts no more bytes is noticed by its end.
                let _ = client.outbound.flush(&mut &client.stream);
            }
        }
    }

    /// True if another turn has work at once.
    pub fn has_more(&self) -> bool {
        let can_accept = self.acceptor.has_more() && self.has_room();
        can_accept || self.pace.left > 0 && self.clients.values().any(ControlClient::wants_turn)
    }

    /// When a waiting request may be read.
    pub fn next_deadline(&self) -> Option<Moment> {
        let is_held_up = self.pace.left == 0 && self.clients.values().any(ControlClient::wants_turn);
        self.pace.next().filter(|_| is_held_up)
    }

    /// Accepts connections, and reads at most one request from each client.
    pub fn turn(&mut self, registry: &Registry, events: &mut VecDeque<Event>, now: Moment) {
        self.pace.go_on(now);
        self.acceptor.try_again();
        let gone = self.clients.iter().filter(|(_, client)| client.is_gone);
        for id in gone.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.hang_up(id, events);
        }
        self.accept(registry, events);
        let mut ready: Vec<(u64, ClientId)> = self
            .clients
            .iter()
            .filter(|(_, client)| client.wants_turn())
            .map(|(id, client)| (client.served, *id))
            .collect();
        // A client that asks for the first time is not held up by one that asks again and again.
        small::sort_by(&mut ready, |one, other| one < other);
        for (_, id) in ready {
            if self.pace.left == 0 {
                return;
            }
            let Some(client) = self.clients.get_mut(&id) else {
                continue;
            };
            match client.next() {
                ClientInput::Asked(request) => {
                    self.pace.left -= 1;
                    self.asked += 1;
                    client.served = self.asked;
                    debug!("control socket: client {id} asks: {request:?}");
                    events.push_back(Event::OperatorAsked(id, request));
                }
                // The client does not use this protocol.
                ClientInput::Garbage(garbage) => {
                    debug!("control socket: client {id}: {}", garbage.message);
                    client.write(&control::encode_refusal(&garbage));
                    self.hang_up(id, events);
                }
                ClientInput::Nothing => {}
                ClientInput::End => self.hang_up(id, events),
            }
        }
    }

    /// Answers a client, which may send its next request then.
    pub fn answer(&mut self, id: ClientId, answer: &OperatorAnswer, events: &mut VecDeque<Event>) {
        self.write(id, &control::encode_answer(answer), events);
    }

    /// Writes a line to a client, which may send its next request then.
    pub fn write(&mut self, id: ClientId, line: &[u8], events: &mut VecDeque<Event>) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.has_asked = false;
        // A client that has ended is closed by the next read.
        client.may_read |= client.has_ended;
        if client.write(line) == Written::Overflow {
            debug!("control socket: client {id} does not read");
            self.hang_up(id, events);
        }
    }

    /// Closes a client's connection, which the lifecycle knows.
    pub fn drop_client(&mut self, id: ClientId) {
        debug!("control socket: client {id} had its time");
        self.close(id);
    }

    fn hang_up(&mut self, id: ClientId, events: &mut VecDeque<Event>) {
        self.close(id);
        events.push_back(Event::OperatorLeft(id));
    }

    fn close(&mut self, id: ClientId) {
        // Closing the descriptor removes it from the poll as well.
        self.clients.remove(&id);
        self.acceptor.try_again();
    }

    fn has_room(&self) -> bool {
        self.clients.len() < MAX_CLIENTS || self.clients.values().any(ControlClient::may_go)
    }

    /// Closes a client if there is no room for another.
    fn make_room(&mut self, events: &mut VecDeque<Event>) {
        if self.clients.len() < MAX_CLIENTS {
            return;
        }
        let may_go = self.clients.iter().filter(|(_, client)| client.may_go());
        // A silent client is closed before one whose request is not read yet.
        let oldest = may_go.min_by_key(|(id, client)| (client.wants_turn(), **id));
        if let Some(id) = oldest.map(|(id, _)| *id) {
            debug!("control socket: client {id} has to go, for there are too many");
            self.hang_up(id, events);
        }
    }

    fn accept(&mut self, registry: &Registry, events: &mut VecDeque<Event>) {
        self.acceptor.begin_turn();
        while self.has_room()
            && let Some(accepted) = self.acceptor.next()
        {
            self.admit(accepted, registry, events);
        }
    }

    fn admit(&mut self, accepted: Accepted, registry: &Registry, events: &mut VecDeque<Event>) {
        let Accepted { stream, peer, .. } = accepted;
        if ![0, self.own].contains(&peer.uid) {
            let (uid, own) = (peer.uid, self.own);
            let message = format_args!("user {uid} may not use the control socket: only user {own} and root may");
            return self.acceptor.refuse(message);
        }
        self.make_room(events);
        if self.clients.len() >= MAX_CLIENTS {
            return;
        }
        let number = self.next + 1;
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = TokenOwner::Client(number).token();
        if let Err(error) = registry.register(&mut SourceFd(&stream.as_raw_fd()), token, interest) {
            return self.acceptor.cannot_watch(&error);
        }
        self.next = number;
        let id = ClientId(number);
        self.clients.insert(id, ControlClient::new(stream));
        events.push_back(Event::OperatorConnected(id));
    }
}

impl RateLimit {
    fn new() -> Self {
        Self {
            left: BURST,
            since: None,
        }
    }

    fn go_on(&mut self, now: Moment) {
        let mut since = self.since.unwrap_or(now);
        while self.left < BURST && since.after(ONE_MORE_EVERY) <= now {
            since = since.after(ONE_MORE_EVERY);
            self.left += 1;
        }
        self.since = Some(if self.left < BURST { since } else { now });
    }

    /// When one more request may be read.
    fn next(&self) -> Option<Moment> {
        self.since.map(|since| since.after(ONE_MORE_EVERY))
    }
}

impl ControlClient {
    fn new(stream: Stream) -> Self {
        Self {
            stream,
            reader: FrameReader::new(MAX_LINE),
            ahead: Vec::new(),
            outbound: Outbound::new(MOST_UNREAD),
            may_read: true,
            has_asked: false,
            is_new: true,
            served: 0,
            is_gone: false,
            has_ended: false,
        }
    }

    /// True if it may be closed for another: its bytes were read, and it waits for no answer.
    fn may_go(&self) -> bool {
        !self.has_asked && !self.is_new
    }

    /// True if it may have a request, or, while it waits for an answer, its end.
    fn wants_turn(&self) -> bool {
        if self.ahead.is_empty() {
            self.may_read
        } else {
            !self.has_asked
        }
    }

    fn next(&mut self) -> ClientInput {
        self.is_new = false;
        if self.ahead.is_empty() {
            let mut buffer = [0; READ_BYTES];
            match (&self.stream).read(&mut buffer) {
                // A client that has closed its writing side only waits for its answer.
                Ok(0) if self.has_asked && !self.stream.has_hung_up().unwrap_or(true) => {
                    self.has_ended = true;
                    self.may_read = false;
                }
                Ok(0) => return ClientInput::End,
                Ok(count) => self.ahead.extend_from_slice(buffer.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.may_read = false,
                Err(_) => return ClientInput::End,
            }
        }
        if self.has_asked {
            return ClientInput::Nothing;
        }
        let ahead = std::mem::take(&mut self.ahead);
        let mut rest = ahead.as_slice();
        let read = self.reader.next_frame(&mut rest).map(|frame| match frame {
            Frame::Line(line) => control::decode_request(line),
            Frame::TooLong(_) => Err(NoRequest::too_long()),
        });
        self.ahead = rest.to_vec();
        match read {
            // A gone client, which stopped waiting for example, needs no answer.
            Some(Ok(_)) if self.stream.has_hung_up().unwrap_or(false) => ClientInput::End,
            Some(Ok(request)) => {
                self.has_asked = true;
                ClientInput::Asked(request)
            }
            Some(Err(garbage)) => ClientInput::Garbage(garbage),
            None => ClientInput::Nothing,
        }
    }

    fn write(&mut self, line: &[u8]) -> Written {
        self.outbound.send(line, Kind::Control, &mut &self.stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_burst_twenty_requests_a_second_are_taken() {
        let at = |ms| Moment::new(Duration::from_millis(ms));
        let mut pace = RateLimit::new();
        pace.go_on(at(5_000));
        assert_eq!(pace.left, BURST);
        pace.left = 0;
        pace.go_on(at(5_049));
        assert_eq!((pace.left, pace.next()), (0, Some(at(5_050))));
        pace.go_on(at(5_120));
        assert_eq!((pace.left, pace.next()), (2, Some(at(5_150))));
        pace.go_on(at(60_000));
        assert_eq!((pace.left, pace.next()), (BURST, Some(at(60_050))));
    }
}
