//! The connections of the worker's processes, their conditions and their credit.

use std::collections::{BTreeMap, BTreeSet};

use crate::lifecycle::api::end_cause::EndCause;
use crate::lifecycle::api::frames::Ready;
use crate::lifecycle::api::ids::{Claim, ConnectionId, ProcessId, Text};

/// One connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Connection {
    /// Who opened it.
    pub process: ProcessId,
    /// Its conditions; none before it has said ready.
    pub ready: Option<Ready>,
    /// The jobs that it has not answered.
    pub held: BTreeSet<Claim>,
    /// Something that we wrote was not taken yet.
    pub is_busy: bool,
    /// The job that it got last is among that.
    pub has_unread_job: bool,
    /// Nothing is read from it: it has to take what we wrote first.
    pub is_reading_paused: bool,
    /// Nothing more will come from it.
    pub is_closed: bool,
    /// It gets no more jobs: closing, silent, or not reading.
    pub is_given_up: bool,
    /// Malformed frames in a row.
    pub malformed: u8,
    /// Pings without an answer.
    pub pings: u8,
    /// When it got its last job, as a count of jobs.
    pub served: u64,
}

impl Connection {
    /// How many more jobs it may get.
    #[must_use]
    pub fn free(&self) -> usize {
        match &self.ready {
            Some(ready) if !self.is_given_up && !self.is_closed => {
                usize::try_from(ready.concurrency).map_or(0, |most| most.saturating_sub(self.held.len()))
            }
            Some(_) | None => 0,
        }
    }

    /// Whether it is ready and can be talked to. One that pauses, with a concurrency of 0, is.
    #[must_use]
    pub fn takes_jobs(&self) -> bool {
        self.ready.is_some() && !self.is_closed && !self.is_given_up
    }

    /// Whether it takes jobs of this kind, if it takes any.
    #[must_use]
    pub fn takes(&self, kind: &Text) -> bool {
        self.ready
            .as_ref()
            .is_some_and(|ready| ready.types.as_ref().is_none_or(|types| types.contains(kind)))
    }

    /// Whether it may be pinged: it has nothing else to do, or said that it answers anyway.
    #[must_use]
    pub fn answers_pings(&self) -> bool {
        self.ready
            .as_ref()
            .is_some_and(|ready| ready.ping || self.held.is_empty())
    }
}

/// A process with connections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Process {
    /// Why it is being ended, if it is.
    pub ending: Option<EndCause>,
    /// It can do nothing any more.
    pub is_gone: bool,
}

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Connections {
    all: BTreeMap<ConnectionId, Connection>,
    /// Who opened them. An entry stays as long as one of its connections does; that of a process
    /// which is being ended until it is gone, or SIGKILL was sent.
    processes: BTreeMap<ProcessId, Process>,
    served: u64,
}

impl Connections {
    /// A process opened a connection.
    pub fn open(&mut self, id: ConnectionId, process: ProcessId) {
        self.processes.entry(process).or_default();
        let connection = Connection {
            process,
            ready: None,
            held: BTreeSet::new(),
            is_busy: false,
            has_unread_job: false,
            is_reading_paused: false,
            is_closed: false,
            is_given_up: false,
            malformed: 0,
            pings: 0,
            served: 0,
        };
        self.all.insert(id, connection);
    }

    /// Forgets a connection, and its process with the last of them, unless that is being ended.
    pub fn forget(&mut self, id: ConnectionId) {
        let Some(connection) = self.all.remove(&id) else { return };
        if self
            .processes
            .get(&connection.process)
            .is_some_and(|process| process.ending.is_none() || process.is_gone)
        {
            self.forget_process(connection.process);
        }
    }

    /// Forgets a process that has no connection.
    pub fn forget_process(&mut self, id: ProcessId) {
        if !self.all.values().any(|other| other.process == id) {
            self.processes.remove(&id);
        }
    }

    /// One connection.
    #[must_use]
    pub fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.all.get(&id)
    }

    /// One connection.
    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.all.get_mut(&id)
    }

    /// Whether it is open.
    #[must_use]
    pub fn is_open(&self, id: ConnectionId) -> bool {
        self.all.get(&id).is_some_and(|connection| !connection.is_closed)
    }

    /// The connections whose processes hold jobs.
    pub fn holders(&self) -> impl Iterator<Item = &Connection> {
        self.all.values().filter(|connection| !connection.held.is_empty())
    }

    /// A process gets no more jobs, on none of its connections.
    pub fn give_up_on(&mut self, process: ProcessId) {
        let theirs = self.all.values_mut().filter(|connection| connection.process == process);
        theirs.for_each(|connection| connection.is_given_up = true);
    }

    /// Whether this process can do nothing any more.
    #[must_use]
    pub fn is_gone(&self, process: ProcessId) -> bool {
        self.processes.get(&process).is_some_and(|process| process.is_gone)
    }

    /// Why this process was told to end, if it was.
    #[must_use]
    pub fn ending(&self, process: ProcessId) -> Option<&EndCause> {
        self.processes.get(&process)?.ending.as_ref()
    }

    /// One process.
    pub fn process_mut(&mut self, id: ProcessId) -> Option<&mut Process> {
        self.processes.get_mut(&id)
    }

    /// One process.
    #[must_use]
    pub fn process(&self, id: ProcessId) -> Option<&Process> {
        self.processes.get(&id)
    }

    /// Every connection.
    pub fn iter(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        self.all.iter().map(|(id, connection)| (*id, connection))
    }

    /// The connections of one process.
    pub fn of(&self, process: ProcessId) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        self.iter().filter(move |(_, connection)| connection.process == process)
    }

    /// Connections that have said ready and can be talked to. One that pauses, with a concurrency of 0, is one of them.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.conditions().count()
    }

    /// How many jobs they take at a time, together.
    #[must_use]
    pub fn concurrency(&self) -> u64 {
        self.conditions().map(|ready| u64::from(ready.concurrency)).sum()
    }

    fn conditions(&self) -> impl Iterator<Item = &Ready> {
        self.all
            .values()
            .filter(|connection| connection.takes_jobs())
            .filter_map(|connection| connection.ready.as_ref())
    }

    /// How many more jobs all of them together may get.
    #[must_use]
    pub fn free(&self) -> usize {
        self.all.values().map(Connection::free).sum()
    }

    /// Whether any connection takes jobs of this kind.
    #[must_use]
    pub fn take(&self, kind: &Text) -> bool {
        self.all
            .values()
            .any(|connection| !connection.is_closed && !connection.is_given_up && connection.takes(kind))
    }

    /// The connection to give a job of this kind to now: the one with most room; between equals, whose turn it is.
    #[must_use]
    pub fn choose(&self, kind: &Text) -> Option<ConnectionId> {
        self.iter()
            .filter(|(_, connection)| connection.free() > 0 && !connection.is_busy && connection.takes(kind))
            .max_by_key(|(id, connection)| {
                let least_recently = std::cmp::Reverse((connection.served, *id));
                (connection.free(), least_recently)
            })
            .map(|(id, _)| id)
    }

    /// A job was given to this connection.
    pub fn serve(&mut self, id: ConnectionId, claim: Claim) {
        self.served += 1;
        if let Some(connection) = self.all.get_mut(&id) {
            connection.held.insert(claim);
            connection.is_busy = true;
            connection.has_unread_job = true;
            connection.served = self.served;
        }
    }
}
