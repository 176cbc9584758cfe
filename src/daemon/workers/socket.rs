//! The worker socket: every connection on it.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::time::Duration;

use log::{debug, warn};
use mio::unix::SourceFd;
use mio::{Interest, Registry};

use crate::daemon::acceptor::Acceptor;
use crate::daemon::log::remedy::remedy;
use crate::daemon::log::throttle::Throttle;
use crate::daemon::runtime::admission::{Allowed, may_connect};
use crate::daemon::tokens::TokenOwner;
use crate::daemon::workers::link::{LinkState, READ_BYTES, ReadBudget, WorkerLink};
use crate::daemon::workers::processes::Processes;
use ojs_lifecycle::api::ids::HolderId;
use ojs_lifecycle::api::{Event, Manners, ToWorker, Trace};
use ojs_os::clock;
use ojs_os::open_files::open_files_limit;
use ojs_os::socket::{Accepted, Listener};
use ojs_wire::worker::HelloContext;

/// Most connections at the same time; the next ones wait in the socket's queue.
const MAX_CONNECTIONS: usize = 1024;

/// Connections that may be there in any case, however few descriptors there are.
const MIN_CONNECTIONS: usize = 16;

/// Descriptors that are not for connections: the backend's and its name resolution's, the health
/// endpoints, the control socket, the log, the inherited ones.
const OTHER_DESCRIPTORS: usize = 256;

/// Connections accepted in one turn, because existing ones need their turn.
const ACCEPTS_PER_TURN: usize = 64;

/// How long a connection may be silent before it has declared itself ready. If all places are in
/// use, the oldest silent one is closed after that for the next one.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// The listening socket and the connections to it.
#[derive(Debug)]
pub struct WorkerSocket {
    acceptor: Acceptor<Listener>,
    allowed: Allowed,
    hello: HelloContext,
    most: usize,
    /// A silent connection was closed or looked at again in this turn: there may be more of them.
    has_made_room: bool,
    links: BTreeMap<HolderId, WorkerLink>,
    next_connection: u64,
    /// The one that was read last: the next turn begins behind it.
    last_read: HolderId,
    buffer: Vec<u8>,
    /// The memory of large jobs that were written.
    free: Vec<Vec<u8>>,
    /// By why connections are closed: a program may connect again at once, time and again.
    closed: BTreeMap<&'static str, Throttle>,
}

impl WorkerSocket {
    /// Begins to accept connections from this listener.
    ///
    /// # Errors
    ///
    /// The error of epoll.
    pub fn new(listener: Listener, allowed: Allowed, hello: HelloContext, registry: &Registry) -> io::Result<Self> {
        Ok(Self {
            acceptor: Acceptor::new(
                listener,
                TokenOwner::Interface,
                ACCEPTS_PER_TURN,
                "worker socket",
                registry,
            )?,
            allowed,
            hello,
            most: most_connections(open_files_limit()),
            has_made_room: false,
            links: BTreeMap::new(),
            next_connection: 0,
            last_read: HolderId(0),
            buffer: vec![0; READ_BYTES],
            free: Vec::new(),
            closed: BTreeMap::new(),
        })
    }

    /// The memory of large jobs that were written since the last time.
    pub fn take_free(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.free)
    }

    /// The kernel reported that a client wants to connect.
    pub fn is_acceptable(&mut self) {
        self.acceptor.is_acceptable();
    }

    /// The kernel reported an event on this connection.
    pub fn is_ready(&mut self, id: HolderId, event: &mio::event::Event, events: &mut VecDeque<Event>) {
        if let Some(link) = self.links.get_mut(&id) {
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                link.is_readable(event.is_read_closed() || event.is_error() || event.is_priority());
            }
            if event.is_writable() {
                link.flush(events);
                self.free.append(&mut link.take_free());
            }
        }
    }

    /// Accepts and reads, each connection its share, all together no more than belongs into one
    /// turn.
    pub fn turn(&mut self, processes: &mut Processes, registry: &Registry, events: &mut VecDeque<Event>) {
        self.accept(clock::monotonic(), processes, registry, events);
        let readable = self.readable();
        let mut budget = ReadBudget::of_a_turn(readable.len());
        for id in readable {
            if budget.is_spent() {
                return;
            }
            let Some(link) = self.links.get_mut(&id) else { continue };
            if !link.is_ending() {
                self.last_read = id;
            }
            if link.read(&mut budget, &mut self.buffer, events) == LinkState::Closed {
                self.hang_up(id, processes, registry, events);
            }
        }
    }

    /// The connections in the order in which they are read. Those of dead processes are first,
    /// because their bytes have an end and others wait for it.
    fn readable(&self) -> Vec<HolderId> {
        let reads = |(id, link): (&HolderId, &WorkerLink)| link.wants_read().then_some((!link.is_ending(), *id));
        let mut readable: Vec<_> = self.links.iter().filter_map(reads).collect();
        readable.sort_by_key(|(is_last, id)| (*is_last, *id <= self.last_read, *id));
        readable.into_iter().map(|(_, id)| id).collect()
    }

    /// True if another turn has work at once.
    pub fn has_more(&self) -> bool {
        let can_accept = self.acceptor.has_more() && (self.has_room() || self.has_made_room);
        can_accept || self.links.values().any(WorkerLink::wants_read)
    }

    fn has_room(&self) -> bool {
        self.links.len() < self.most
    }

    /// Writes a word to a connection. `context` is that of a job's span, if it has one.
    pub fn tell(
        &mut self,
        id: HolderId,
        word: ToWorker,
        context: Option<&Trace>,
        processes: &mut Processes,
        registry: &Registry,
        events: &mut VecDeque<Event>,
    ) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if matches!(word, ToWorker::Job(_)) {
            processes.got_job(link.process);
        }
        let is_open = link.tell(word, context, &self.hello, events) == LinkState::Open;
        self.free.append(&mut link.take_free());
        if !is_open || !watch_for_room(link, id, registry) {
            self.hang_up(id, processes, registry, events);
        }
    }

    /// Reads the rest of this connection, whose process is gone, in the next turns, and then closes
    /// it.
    pub fn read_to_end(&mut self, id: HolderId) {
        if let Some(link) = self.links.get_mut(&id) {
            link.end();
        }
    }

    /// Warns that a connection is closed for this reason, unless that was done a moment ago.
    pub fn say_why(&mut self, id: HolderId, why: &'static str) {
        let throttle = self.closed.entry(why).or_default();
        throttle.warn(format_args!("connection {id}: closed by ojs-init: {why}"));
    }

    /// Closes a connection.
    pub fn hang_up(
        &mut self,
        id: HolderId,
        processes: &mut Processes,
        registry: &Registry,
        events: &mut VecDeque<Event>,
    ) {
        let Some(link) = self.links.remove(&id) else { return };
        let _ = registry.deregister(&mut SourceFd(&link.stream.as_raw_fd()));
        events.push_back(Event::HungUp(id));
        self.acceptor.try_again();
        processes.disconnected(link.process);
    }

    /// Accepts connections. Without room, the rest waits for a later turn.
    fn accept(&mut self, now: Duration, processes: &mut Processes, registry: &Registry, events: &mut VecDeque<Event>) {
        self.acceptor.try_again();
        self.acceptor.begin_turn();
        self.has_made_room = false;
        while self.acceptor.can_take() {
            if !self.has_room() && !self.close_silent(now, processes, registry, events) {
                return;
            }
            if !self.make_room(processes) {
                return self.acceptor.is_short_of(format_args!(
                    "{} processes that have been given jobs and have no connection left keep all descriptors that there are \
                     for workers; raise the limit on open files (ulimit -n), or let them end",
                    processes.len().saturating_sub(self.links.len())
                ));
            }
            let Some(accepted) = self.acceptor.next() else { return };
            self.admit(accepted, processes, registry, events);
        }
    }

    /// Closes the connection that has been silent for longest without ever being ready, if that is
    /// long enough. A connection that was ready may hold jobs and is never closed for another one.
    fn close_silent(
        &mut self,
        now: Duration,
        processes: &mut Processes,
        registry: &Registry,
        events: &mut VecDeque<Event>,
    ) -> bool {
        let silent = self
            .links
            .iter_mut()
            .filter_map(|(id, link)| Some((link.silent_since()?, *id, link)));
        let oldest = silent.min_by_key(|(since, id, _)| (*since, *id));
        let Some((_, id, link)) = oldest.filter(|(since, ..)| since.saturating_add(LONGEST_SILENCE) <= now) else {
            return false;
        };
        self.has_made_room = true;
        // Bytes may have arrived that the kernel has not reported yet.
        if link.stream.readable().is_ok_and(|count| count > 0) {
            link.is_readable(false);
            return false;
        }
        let (most, seconds) = (self.most, LONGEST_SILENCE.as_secs());
        self.acceptor.warn(format_args!(
            "all {most} connections of the worker socket are taken, so the oldest of those are closed that were silent for {seconds} s and \
             never ready: a program of the worker opens connections that it does not use"
        ));
        self.hang_up(id, processes, registry, events);
        true
    }

    /// Sees to it that there are descriptors for one more connection and its process.
    fn make_room(&self, processes: &mut Processes) -> bool {
        let most = self.most.saturating_mul(2);
        let needed = (self.links.len() + processes.len() + 2).saturating_sub(most);
        needed == 0 || processes.let_go(needed)
    }

    fn admit(
        &mut self,
        accepted: Accepted,
        processes: &mut Processes,
        registry: &Registry,
        events: &mut VecDeque<Event>,
    ) {
        let Accepted { stream, peer, process } = accepted;
        if let Err(refusal) = may_connect(&peer, &self.allowed) {
            let message = format_args!("a connection to the worker socket was refused: {refusal}");
            return self.acceptor.refuse(message);
        }
        // Refused above when it has no pid.
        let Some(watch) = process else { return };
        let process = processes.id_of(Rc::new(watch), registry);
        self.next_connection += 1;
        let id = HolderId(self.next_connection);
        let (token, interest) = (TokenOwner::Connection(id.0).token(), what_to_read());
        if let Err(error) = registry.register(&mut SourceFd(&stream.as_raw_fd()), token, interest) {
            return self.acceptor.cannot_watch(&error);
        }
        processes.connected(process);
        debug!("connection {id} from process {process}");
        self.links
            .insert(id, WorkerLink::new(id, process, stream, self.hello.max_frame));
        events.push_back(Event::HolderCame {
            holder: id,
            process: Some(process),
            manners: manners(self.hello.max_frame),
        });
        processes.tell_if_old(process, events);
        processes.look_at_new(process, events);
    }
}

/// The events that epoll reports on each connection. Urgent data is one, because a read ends at it,
/// so a short read proves nothing then.
fn what_to_read() -> Interest {
    Interest::READABLE | Interest::PRIORITY
}

/// Has the kernel report room on a connection only while bytes wait for it, because it would report
/// each time that the worker reads. Returns false on failure.
fn watch_for_room(link: &mut WorkerLink, id: HolderId, registry: &Registry) -> bool {
    let needs_room = link.needs_room();
    if std::mem::replace(&mut link.is_watched_for_room, needs_room) == needs_room {
        return true;
    }
    let interest = if needs_room {
        what_to_read().add(Interest::WRITABLE)
    } else {
        what_to_read()
    };
    let result = registry.reregister(
        &mut SourceFd(&link.stream.as_raw_fd()),
        TokenOwner::Connection(id.0).token(),
        interest,
    );
    if let Err(error) = &result {
        warn!(
            "connection {id}: closed: it cannot be watched: {error}; {}",
            remedy(error)
        );
    }
    result.is_ok()
}

/// The rules for holders that use the protocol of the worker socket.
const fn manners(max_frame: usize) -> Manners {
    Manners {
        hears: true,
        answers_pings: true,
        frame_limit: Some(max_frame),
        answer_within: None,
    }
}

/// Each connection may use two descriptors: its own and its process's.
fn most_connections(open_files: usize) -> usize {
    let room = open_files.saturating_sub(OTHER_DESCRIPTORS) / 2;
    room.clamp(MIN_CONNECTIONS, MAX_CONNECTIONS)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its socket has failed")]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;
    use ojs_os::process::Pid;
    use ojs_os::socket::BoundSocket;

    #[test]
    fn where_all_connections_are_taken_the_oldest_silent_one_that_was_never_ready_makes_room() {
        let path = std::env::temp_dir().join(format!("ojs-worker-socket-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = BoundSocket::bind(&path).unwrap().listen().unwrap();
        let poll = mio::Poll::new().unwrap();
        let hello = HelloContext {
            concurrency: 1,
            queues: Vec::new(),
            max_frame: 1 << 20,
        };
        let mut socket = WorkerSocket::new(listener, Allowed::new(None, &[]), hello, poll.registry()).unwrap();
        socket.most = 3;
        let (mut processes, mut events) = (Processes::default(), VecDeque::new());
        let [mut ready, mut silent, mut speaks, _next, _last] = [(); 5].map(|()| UnixStream::connect(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        ready
            .write_all(b"{\"type\":\"ready\",\"protocol\":1,\"concurrency\":1}\n")
            .unwrap();
        socket.turn(&mut processes, poll.registry(), &mut events);
        speaks.write_all(b"{").unwrap();
        let now = clock::monotonic();
        let mut at = |socket: &mut WorkerSocket, now| {
            socket.accept(now, &mut processes, poll.registry(), &mut events);
            socket.links.keys().map(|id| id.0).collect::<Vec<_>>()
        };
        assert_eq!(at(&mut socket, now), [1, 2, 3], "nobody was silent for long");
        assert!(!socket.has_more());
        assert_eq!(at(&mut socket, now + LONGEST_SILENCE), [1, 3, 4]);
        // Now all is read, and the one that was ready has been silent for longest.
        socket.turn(&mut processes, poll.registry(), &mut events);
        socket.accept(now + 2 * LONGEST_SILENCE, &mut processes, poll.registry(), &mut events);
        let are_there = [1, 5].map(|id| socket.links.contains_key(&HolderId(id)));
        assert_eq!(are_there, [true, true]);
        assert_eq!(silent.read(&mut [0]).unwrap(), 0);
        assert!(events.iter().any(|event| matches!(event, Event::HungUp(HolderId(2)))));
    }

    #[test]
    fn the_limit_on_open_files_bounds_the_connections() {
        let bounds = [0, 256, 1024, 1 << 20].map(most_connections);
        assert_eq!(bounds, [16, 16, 384, 1024]);
    }

    #[test]
    fn a_worker_that_could_not_be_watched_at_its_start_has_its_name_when_it_connects() {
        let path = std::env::temp_dir().join(format!("ojs-links-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = BoundSocket::bind(&path).unwrap().listen().unwrap();
        let hello = HelloContext {
            concurrency: 1,
            queues: Vec::new(),
            max_frame: 1024,
        };
        let poll = mio::Poll::new().unwrap();
        let mut socket = WorkerSocket::new(listener, Allowed::new(None, &[]), hello, poll.registry()).unwrap();
        let mut processes = Processes::default();
        let worker = processes.name(Pid::own(), true);
        let _connection = UnixStream::connect(&path).unwrap();
        let mut events = VecDeque::new();
        socket.turn(&mut processes, poll.registry(), &mut events);
        std::fs::remove_file(&path).unwrap();
        let connected = Event::HolderCame {
            holder: HolderId(1),
            process: Some(worker),
            manners: Manners {
                hears: true,
                answers_pings: true,
                frame_limit: Some(1024),
                answer_within: None,
            },
        };
        assert_eq!(events, [connected]);
    }
}
