//! The worker's processes and the ways in which they come: today the worker socket. The loop has
//! one face of it all.

mod link;
pub(super) mod outbound;
pub(super) mod processes;
mod socket;

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use mio::Registry;

use crate::daemon::runtime::admission::Allowed;
use crate::daemon::workers::processes::Processes;
use crate::daemon::workers::socket::WorkerSocket;
use ojs_lifecycle::api::{Event, HolderId, Moment, ProcessId, ToWorker};
use ojs_os::pidfd::ProcessWatch;
use ojs_os::process::Pid;
use ojs_os::socket::Listener;
use ojs_values::signal::Signal;
use ojs_wire::worker::HelloContext;

/// How often processes are looked at that the kernel cannot watch for us (before Linux 5.3).
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The worker's processes and connections.
#[derive(Debug)]
pub struct Workers {
    processes: Processes,
    /// None: workers come in another way.
    socket: Option<WorkerSocket>,
}

impl Workers {
    /// Listens for those whom `allowed` lets connect, and greets them with `hello`.
    ///
    /// # Errors
    ///
    /// What epoll says.
    pub fn new(listener: Listener, allowed: Allowed, hello: HelloContext, registry: &Registry) -> io::Result<Self> {
        Ok(Self {
            processes: Processes::default(),
            socket: Some(WorkerSocket::new(listener, allowed, hello, registry)?),
        })
    }

    /// Nobody comes by way of a socket of ours.
    #[must_use]
    pub fn without_socket() -> Self {
        Self {
            processes: Processes::default(),
            socket: None,
        }
    }

    /// The worker was started with this pid: its name from here on.
    pub fn started(&mut self, pid: Pid, registry: &Registry) -> ProcessId {
        self.processes.worker_started(pid, registry)
    }

    /// Our hold on this process; none: there was no descriptor for it.
    pub fn watch_of(&self, id: ProcessId) -> Option<Rc<ProcessWatch>> {
        self.processes.watch_of(id)
    }

    /// The worker was reaped: its pid may be anybody's.
    pub fn reaped(&mut self, id: ProcessId) {
        self.processes.worker_reaped(id);
    }

    /// The table of processes, for other ways in which workers come.
    pub fn processes(&mut self) -> &mut Processes {
        &mut self.processes
    }

    /// The kernel says that somebody wants to connect.
    pub fn is_acceptable(&mut self) {
        self.socket.iter_mut().for_each(WorkerSocket::is_acceptable);
    }

    /// The kernel says that something happened on a connection.
    pub fn is_ready(&mut self, id: HolderId, event: &mio::event::Event, events: &mut VecDeque<Event>) {
        if let Some(socket) = &mut self.socket {
            socket.is_ready(id, event, events);
        }
    }

    /// The kernel says that something happened to the process with this number: it has ended.
    pub fn look_at(&mut self, number: u64, events: &mut VecDeque<Event>) {
        self.processes.look_at(number, events);
    }

    /// Looks who has ended, accepts and reads: no more than belongs into one turn.
    pub fn turn(&mut self, registry: &Registry, events: &mut VecDeque<Event>) {
        self.processes.look_at_unwatchable(events);
        if let Some(socket) = &mut self.socket {
            socket.turn(&mut self.processes, registry, events);
        }
    }

    /// Whether there is something to do for another turn at once.
    pub fn has_more(&self) -> bool {
        self.socket.as_ref().is_some_and(WorkerSocket::has_more)
    }

    /// When there is something to do for which the kernel wakes nobody.
    pub fn next_deadline(&self, now: Moment) -> Option<Moment> {
        self.processes.has_unwatchable().then(|| now.after(LOOK_EVERY))
    }

    /// Writes a word to a connection.
    pub fn tell(&mut self, id: HolderId, word: &ToWorker, registry: &Registry, events: &mut VecDeque<Event>) {
        if let Some(socket) = &mut self.socket {
            socket.tell(id, word, &mut self.processes, registry, events);
        }
    }

    /// Reads in the next turns what is there on this connection, whose process is gone, and then
    /// closes it.
    pub fn read_to_end(&mut self, id: HolderId) {
        if let Some(socket) = &mut self.socket {
            socket.read_to_end(id);
        }
    }

    /// Closes a connection.
    pub fn close(&mut self, id: HolderId, registry: &Registry, events: &mut VecDeque<Event>) {
        if let Some(socket) = &mut self.socket {
            socket.hang_up(id, &mut self.processes, registry, events);
        }
    }

    /// Signals a process of the worker, and nobody else: not even one that has its pid by now.
    pub fn signal(&mut self, id: ProcessId, signal: Signal) {
        self.processes.signal(id, signal);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its socket has failed")]
mod tests {
    use ojs_lifecycle::api::Manners;
    use std::os::unix::net::UnixStream;

    use super::*;
    use ojs_os::socket::BoundSocket;

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
        let mut workers = Workers::new(listener, Allowed::new(None, &[]), hello, poll.registry()).unwrap();
        let worker = workers.processes.name(Pid::own(), true);
        let _connection = UnixStream::connect(&path).unwrap();
        let mut events = VecDeque::new();
        workers.turn(poll.registry(), &mut events);
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
