//! Every connection on the worker socket, and a hold on each process that has one.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use log::{debug, warn};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use crate::daemon::control;
use crate::daemon::log::throttle::Seldom;
use crate::daemon::workers::admission::{Allowed, may_connect};
use crate::daemon::workers::link::{Budget, Link, READ_BYTES, WorkerLink};
use crate::lifecycle::api::effect::Word;
use crate::lifecycle::api::event::Event;
use crate::lifecycle::api::ids::{ConnectionId, ProcessId};
use crate::os::pidfd::ProcessWatch;
use crate::os::process::{self, Pid};
use crate::os::socket::{AcceptError, Accepted, Listener};
use crate::signal::Signal;
use crate::wire::worker::HelloContext;

/// Most connections at the same time; the next ones wait in the socket's queue.
const MAX_CONNECTIONS: usize = 1024;

/// So many may be there in any case.
const MIN_CONNECTIONS: usize = 16;

/// Descriptors that are not for connections: the lanes and their name resolution, the health endpoints, the control socket, the log, what we
/// have inherited.
const OTHER_DESCRIPTORS: usize = 256;

/// Connections accepted in one turn; then the others get theirs.
const ACCEPTS_PER_TURN: usize = 64;

/// Tokens of connections are even from here on, those of processes odd. The lower ones are for everything else.
const FIRST_TOKEN: usize = control::TOKENS.end;

/// The connections and their processes.
#[derive(Debug)]
pub struct WorkerLinks {
    listener: Listener,
    allowed: Allowed,
    hello: HelloContext,
    most: usize,
    links: BTreeMap<ConnectionId, WorkerLink>,
    processes: BTreeMap<ProcessId, Watched>,
    next_connection: u64,
    /// The one that was read last: the next turn begins behind it.
    last_read: ConnectionId,
    next_process: u64,
    /// Somebody may be waiting to be accepted: the kernel tells only once.
    may_accept: bool,
    /// There were no descriptors or was no memory for the last one.
    is_short: bool,
    shortages: Seldom,
    refusals: Seldom,
    buffer: Vec<u8>,
}

/// A process that has connections, or is the worker itself.
#[derive(Debug)]
struct Watched {
    pid: Pid,
    /// None only for the worker, for want of a descriptor when it was started: its pid is its own until it is reaped.
    watch: Option<ProcessWatch>,
    connections: usize,
    is_worker: bool,
    /// It may hold jobs, or is being ended: whoever was given a job or a signal.
    is_needed: bool,
    /// It was said to be gone.
    is_gone: bool,
}

impl Watched {
    /// Whether nothing is lost when nobody notices its end.
    fn is_dispensable(&self) -> bool {
        self.connections == 0 && !self.is_worker && !self.is_needed
    }

    fn has_ended(&self) -> bool {
        self.watch.as_ref().is_some_and(ProcessWatch::has_ended)
    }

    /// Whether it has to be asked from time to time.
    fn is_unwatchable(&self) -> bool {
        !self.is_gone && self.watch.as_ref().is_some_and(|watch| watch.as_fd().is_none())
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        match &self.watch {
            Some(watch) => watch.signal(signal),
            None if self.is_gone => Ok(()),
            None => process::signal(self.pid, signal),
        }
    }
}

impl WorkerLinks {
    /// Listens; `token` is the listener's.
    ///
    /// # Errors
    ///
    /// What epoll says.
    pub fn new(
        listener: Listener,
        allowed: Allowed,
        hello: HelloContext,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Self> {
        registry.register(&mut SourceFd(&listener.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self {
            listener,
            allowed,
            hello,
            most: most_connections(process::open_files_limit()),
            links: BTreeMap::new(),
            processes: BTreeMap::new(),
            next_connection: 0,
            last_read: ConnectionId(0),
            next_process: 0,
            may_accept: true,
            is_short: false,
            shortages: Seldom::default(),
            refusals: Seldom::default(),
            buffer: vec![0; READ_BYTES],
        })
    }

    /// The worker was started with this pid: its name from here on.
    pub fn worker_started(&mut self, pid: Pid, registry: &Registry) -> ProcessId {
        let id = self.name_process(pid, true);
        match ProcessWatch::of(pid) {
            Ok(watch) => self.watch(id, watch, registry),
            // It is our child: its end is noticed in any case.
            Err(error) => warn!("cannot watch the worker's process {pid}: {error}"),
        }
        id
    }

    /// The worker was reaped: its pid may be anybody's.
    pub fn worker_reaped(&mut self, id: ProcessId) {
        if let Some(watched) = self.processes.get_mut(&id) {
            watched.is_worker = false;
            watched.is_gone = true;
        }
        self.forget_unused(id);
    }

    /// Somebody wants to connect.
    pub fn is_acceptable(&mut self) {
        self.may_accept = true;
    }

    /// The kernel says that something happened at this token.
    pub fn is_ready(&mut self, token: Token, event: &mio::event::Event, events: &mut VecDeque<Event>) {
        let Some(number) = token.0.checked_sub(FIRST_TOKEN) else {
            return;
        };
        // Half of a token always fits.
        let half = u64::try_from(number / 2).unwrap_or(u64::MAX);
        if number % 2 == 1 {
            self.look_at(half, events);
            return;
        }
        if let Some(link) = self.links.get_mut(&ConnectionId(half)) {
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                link.is_readable();
            }
            if event.is_writable() {
                link.flush(events);
            }
        }
    }

    /// Accepts and reads, each connection its share, all together no more than belongs into one turn.
    pub fn turn(&mut self, registry: &Registry, events: &mut VecDeque<Event>) {
        self.is_short = false;
        self.accept(registry, events);
        let readable = self.readable();
        let mut budget = Budget::of_a_turn(readable.len());
        for id in readable {
            if budget.is_spent() {
                return;
            }
            let Some(link) = self.links.get_mut(&id) else { continue };
            if !link.is_ending() {
                self.last_read = id;
            }
            if link.read(&mut budget, &mut self.buffer, events) == Link::Closed {
                self.hang_up(id, registry, events);
            }
        }
    }

    /// In the order in which they are read: what the dead have left has an end and others wait for it, so that is first.
    fn readable(&self) -> Vec<ConnectionId> {
        let reads = |(id, link): (&ConnectionId, &WorkerLink)| link.wants_read().then_some((!link.is_ending(), *id));
        let mut readable: Vec<_> = self.links.iter().filter_map(reads).collect();
        readable.sort_by_key(|(is_last, id)| (*is_last, *id <= self.last_read, *id));
        readable.into_iter().map(|(_, id)| id).collect()
    }

    /// Whether there is something to do for another turn at once.
    pub fn has_more(&self) -> bool {
        let can_accept = self.may_accept && !self.is_short && self.links.len() < self.most;
        can_accept || self.links.values().any(WorkerLink::wants_read)
    }

    /// Whether some process can only be watched by asking for it from time to time (before Linux 5.3).
    pub fn has_unwatchable(&self) -> bool {
        self.processes.values().any(Watched::is_unwatchable)
    }

    /// Asks for each process that can only be watched like that.
    pub fn look_at_unwatchable(&mut self, events: &mut VecDeque<Event>) {
        let unwatchable: Vec<u64> = self
            .processes
            .iter()
            .filter(|(_, watched)| watched.is_unwatchable())
            .map(|(id, _)| id.0 >> 32)
            .collect();
        for number in unwatchable {
            self.look_at(number, events);
        }
    }

    /// Writes a word to a connection.
    pub fn tell(&mut self, id: ConnectionId, word: &Word, registry: &Registry, events: &mut VecDeque<Event>) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if matches!(word, Word::Job { .. })
            && let Some(watched) = self.processes.get_mut(&link.process)
        {
            watched.is_needed = true;
        }
        if link.tell(word, &self.hello, events) == Link::Closed {
            self.hang_up(id, registry, events);
        }
    }

    /// Reads in the next turns what is there on this connection, whose process is gone, and then closes it.
    pub fn read_to_end(&mut self, id: ConnectionId) {
        if let Some(link) = self.links.get_mut(&id) {
            link.end();
        }
    }

    /// Closes a connection.
    pub fn hang_up(&mut self, id: ConnectionId, registry: &Registry, events: &mut VecDeque<Event>) {
        let Some(link) = self.links.remove(&id) else { return };
        let _ = registry.deregister(&mut SourceFd(&link.stream.as_raw_fd()));
        events.push_back(Event::HungUp(id));
        if let Some(watched) = self.processes.get_mut(&link.process) {
            watched.connections = watched.connections.saturating_sub(1);
        }
        // With one descriptor free there may be room for the next.
        self.may_accept = true;
        self.is_short = false;
        self.forget_unused(link.process);
    }

    /// Signals a process with connections, and nobody else: not even one that has its pid by now.
    pub fn signal(&mut self, id: ProcessId, signal: Signal) {
        let Some(watched) = self.processes.get_mut(&id) else {
            return;
        };
        watched.is_needed = true;
        match watched.signal(signal) {
            Ok(()) => debug!("{signal} to process {id}"),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                warn!("cannot send {signal} to process {id}: {error}");
            }
            Err(error) => debug!("{signal} to process {id}: {error}"),
        }
    }

    fn accept(&mut self, registry: &Registry, events: &mut VecDeque<Event>) {
        for _ in 0..ACCEPTS_PER_TURN {
            if !self.may_accept || self.links.len() >= self.most {
                return;
            }
            if !self.make_room() {
                self.shortages.warn(format_args!(
                    "{} processes that have been given jobs and have no connection left keep all descriptors that there are \
                     for workers; raise the limit on open files (ulimit -n), or let them end",
                    self.processes.len().saturating_sub(self.links.len())
                ));
                self.is_short = true;
                return;
            }
            match self.listener.accept() {
                Ok(Some(accepted)) => self.admit(accepted, registry, events),
                Ok(None) => self.may_accept = false,
                Err(AcceptError::Aborted) => {}
                // Whoever waits is tried again in a later turn: with descriptors short there is no point in haste.
                Err(error) => {
                    self.shortages.warn(format_args!("{error}"));
                    self.is_short = true;
                    return;
                }
            }
        }
    }

    /// Sees to it that there are descriptors for one more connection and its process. Processes that live on without a
    /// connection have one each: those that never had a job are let go, the oldest first.
    fn make_room(&mut self) -> bool {
        let most = self.most.saturating_mul(2);
        let needed = (self.links.len() + self.processes.len() + 2).saturating_sub(most);
        if needed == 0 {
            return true;
        }
        let dispensable = self.processes.iter().filter(|(_, watched)| watched.is_dispensable());
        let oldest: Vec<ProcessId> = dispensable.map(|(id, _)| *id).take(needed).collect();
        for id in &oldest {
            // Closing its descriptor takes it out of the poll as well.
            self.processes.remove(id);
        }
        oldest.len() == needed
    }

    fn admit(&mut self, accepted: Accepted, registry: &Registry, events: &mut VecDeque<Event>) {
        let Accepted { stream, peer, process } = accepted;
        if let Err(refusal) = may_connect(&peer, &self.allowed) {
            let message = format_args!("a connection to the worker socket was refused: {refusal}");
            return self.refusals.warn(message);
        }
        // Refused above when it has no pid.
        let Some(watch) = process else { return };
        let process = self.process_of(watch, registry);
        self.next_connection += 1;
        let id = ConnectionId(self.next_connection);
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = registry.register(&mut SourceFd(&stream.as_raw_fd()), token(id.0, 0), interest) {
            return self.shortages.warn(format_args!("cannot watch a connection: {error}"));
        }
        if let Some(watched) = self.processes.get_mut(&process) {
            watched.connections += 1;
        }
        debug!("connection {id} from process {process}");
        self.links
            .insert(id, WorkerLink::new(id, process, stream, self.hello.max_frame));
        events.push_back(Event::Connected {
            connection: id,
            process,
        });
        // A process whose descriptor is readable already would never make it readable again.
        self.look_at(process.0 >> 32, events);
    }

    /// The name of a process: the one that it has, unless that was somebody with the same pid.
    fn process_of(&mut self, watch: ProcessWatch, registry: &Registry) -> ProcessId {
        let pid = watch.pid();
        let known = self
            .processes
            .iter()
            .find(|(_, watched)| watched.pid == pid && !watched.is_gone && !watched.has_ended());
        if let Some((id, watched)) = known {
            let (id, is_watched) = (*id, watched.watch.is_some());
            if !is_watched {
                self.watch(id, watch, registry);
            }
            return id;
        }
        let id = self.name_process(pid, false);
        self.watch(id, watch, registry);
        id
    }

    fn name_process(&mut self, pid: Pid, is_worker: bool) -> ProcessId {
        self.next_process += 1;
        let id = ProcessId(self.next_process << 32 | u64::from(pid.number().unsigned_abs()));
        let watched = Watched {
            pid,
            watch: None,
            connections: 0,
            is_worker,
            is_needed: false,
            is_gone: false,
        };
        self.processes.insert(id, watched);
        id
    }

    fn watch(&mut self, id: ProcessId, watch: ProcessWatch, registry: &Registry) {
        if let Some(descriptor) = watch.as_fd() {
            let descriptor: RawFd = descriptor.as_raw_fd();
            if let Err(error) = registry.register(&mut SourceFd(&descriptor), token(id.0 >> 32, 1), Interest::READABLE)
            {
                warn!("cannot watch process {id}: {error}");
            }
        }
        if let Some(watched) = self.processes.get_mut(&id) {
            watched.watch = Some(watch);
        }
    }

    /// Says once that a process is gone.
    fn look_at(&mut self, number: u64, events: &mut VecDeque<Event>) {
        let range = ProcessId(number << 32)..=ProcessId(number << 32 | u64::from(u32::MAX));
        let found = self.processes.range_mut(range).next();
        if let Some((id, watched)) = found
            && !watched.is_gone
            && watched.has_ended()
        {
            let id = *id;
            watched.is_gone = true;
            events.push_back(Event::ProcessGone(id));
            self.forget_unused(id);
        }
    }

    /// Lets go of a process that is gone and has no connection. One that is alive may still hold jobs of a connection
    /// that was closed: it is watched until it is gone.
    fn forget_unused(&mut self, id: ProcessId) {
        let is_unused = |watched: &Watched| watched.connections == 0 && !watched.is_worker && watched.is_gone;
        if self.processes.get(&id).is_some_and(is_unused) {
            // Closing its descriptor takes it out of the poll as well.
            self.processes.remove(&id);
        }
    }
}

/// Each connection may take two descriptors: its own and its process's.
fn most_connections(open_files: usize) -> usize {
    let room = open_files.saturating_sub(OTHER_DESCRIPTORS) / 2;
    room.clamp(MIN_CONNECTIONS, MAX_CONNECTIONS)
}

fn token(number: u64, kind: usize) -> Token {
    // A counter that wraps after 2^63 connections.
    Token(FIRST_TOKEN + usize::try_from(number).unwrap_or(0) * 2 + kind)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its socket has failed")]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::os::socket::BoundSocket;

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
        let connect = || UnixStream::connect(&path).unwrap();
        let _first = connect();
        let ourselves = listener.accept().unwrap().unwrap().process.unwrap().pid();
        let hello = HelloContext {
            concurrency: 1,
            queues: Vec::new(),
            max_frame: 1024,
        };
        let poll = mio::Poll::new().unwrap();
        let mut links = WorkerLinks::new(listener, Allowed::new(None, &[]), hello, poll.registry(), Token(1)).unwrap();
        let worker = links.name_process(ourselves, true);
        let _second = connect();
        let mut events = VecDeque::new();
        links.turn(poll.registry(), &mut events);
        std::fs::remove_file(&path).unwrap();
        let connected = Event::Connected {
            connection: ConnectionId(1),
            process: worker,
        };
        assert_eq!(events, [connected]);
        assert!(links.processes.values().all(|watched| watched.watch.is_some()));
    }
}
