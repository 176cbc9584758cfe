//! Whoever holds jobs, under which conditions, and with how much credit.

use std::collections::BTreeMap;

use crate::lifecycle::api::ids::{HolderId, ProcessId, Text};
use crate::lifecycle::api::{EndCause, Manners, Ready};
use crate::lifecycle::jobs::ledger::Ledger;

/// One holder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The process behind it.
    pub process: ProcessId,
    /// What can be expected of it.
    pub manners: Manners,
    /// Its conditions; none before it has said ready.
    pub ready: Option<Ready>,
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

impl Holder {
    /// How many more jobs it may get when it has so many.
    #[must_use]
    pub fn free(&self, held: usize) -> usize {
        match &self.ready {
            Some(ready) if !self.is_given_up && !self.is_closed => {
                usize::try_from(ready.concurrency).map_or(0, |most| most.saturating_sub(held))
            }
            Some(_) | None => 0,
        }
    }

    /// Whether it is ready and can be talked to. One that pauses, with a concurrency of 0, is.
    #[must_use]
    pub fn takes_jobs(&self) -> bool {
        self.ready.is_some() && !self.is_closed && !self.is_given_up
    }

    /// Whether it takes jobs of this kind in frames of so many bytes, if it takes any.
    #[must_use]
    pub fn takes(&self, kind: &Text, bytes: usize) -> bool {
        let is_short_enough = self.manners.frame_limit.is_none_or(|most| bytes <= most);
        is_short_enough
            && self
                .ready
                .as_ref()
                .is_some_and(|ready| ready.types.as_ref().is_none_or(|types| types.contains(kind)))
    }

    /// Whether it has to answer a ping while it has so many jobs: it has nothing else to do, or said that it answers anyway.
    #[must_use]
    pub fn answers_pings_with(&self, held: usize) -> bool {
        self.ready.as_ref().is_some_and(|ready| ready.ping || held == 0)
    }
}

/// A process behind holders.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Process {
    /// Why it is being ended, if it is.
    pub ending: Option<EndCause>,
    /// It can do nothing any more.
    pub is_gone: bool,
}

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Holders {
    all: BTreeMap<HolderId, Holder>,
    /// The processes behind them. An entry stays as long as one of its holders does; that of a process
    /// which is being ended until it is gone, or SIGKILL was sent.
    processes: BTreeMap<ProcessId, Process>,
    served: u64,
}

impl Holders {
    /// Somebody came.
    pub fn add(&mut self, id: HolderId, process: ProcessId, manners: Manners) {
        self.processes.entry(process).or_default();
        let holder = Holder {
            process,
            manners,
            ready: None,
            is_busy: false,
            has_unread_job: false,
            is_reading_paused: false,
            is_closed: false,
            is_given_up: false,
            malformed: 0,
            pings: 0,
            served: 0,
        };
        self.all.insert(id, holder);
    }

    /// Forgets a holder, and its process with the last of them, unless that is being ended.
    pub fn forget(&mut self, id: HolderId) {
        if let Some(holder) = self.all.remove(&id) {
            self.forget_unless_ending(holder.process);
        }
    }

    /// This process does the work of a holder from here on, in place of the one before.
    pub fn runs(&mut self, id: HolderId, process: ProcessId) {
        let Some(holder) = self.all.get_mut(&id) else { return };
        let before = std::mem::replace(&mut holder.process, process);
        self.processes.entry(process).or_default();
        self.forget_unless_ending(before);
    }

    fn forget_unless_ending(&mut self, id: ProcessId) {
        let is_idle = |process: &Process| process.ending.is_none() || process.is_gone;
        if self.processes.get(&id).is_some_and(is_idle) {
            self.forget_process(id);
        }
    }

    /// Forgets a process that has no holder.
    pub fn forget_process(&mut self, id: ProcessId) {
        if !self.all.values().any(|other| other.process == id) {
            self.processes.remove(&id);
        }
    }

    /// One holder.
    #[must_use]
    pub fn get(&self, id: HolderId) -> Option<&Holder> {
        self.all.get(&id)
    }

    /// One holder.
    pub fn get_mut(&mut self, id: HolderId) -> Option<&mut Holder> {
        self.all.get_mut(&id)
    }

    /// Whether it is open.
    #[must_use]
    pub fn is_open(&self, id: HolderId) -> bool {
        self.all.get(&id).is_some_and(|holder| !holder.is_closed)
    }

    /// Whether it hears what it is told unasked.
    #[must_use]
    pub fn hears(&self, id: HolderId) -> bool {
        self.all.get(&id).is_some_and(|holder| holder.manners.hears)
    }

    /// The longest frame that any of those who are there takes; none where one takes everything, or nobody is there.
    #[must_use]
    pub fn frame_limit(&self) -> Option<usize> {
        let limits = self
            .all
            .values()
            .filter(|holder| !holder.is_closed && !holder.is_given_up);
        let mut limits = limits.map(|holder| holder.manners.frame_limit);
        let first = limits.next()?;
        limits.fold(first, |widest, limit| Some(widest?.max(limit?)))
    }

    /// The holders that have jobs.
    pub fn with_jobs(&self, jobs: &Ledger) -> impl Iterator<Item = (HolderId, &Holder)> {
        jobs.holders().filter_map(|id| Some((id, self.all.get(&id)?)))
    }

    /// A process gets no more jobs, on none of its holders.
    pub fn give_up_on(&mut self, process: ProcessId) {
        let theirs = self.all.values_mut().filter(|holder| holder.process == process);
        theirs.for_each(|holder| holder.is_given_up = true);
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

    /// Every holder.
    pub fn iter(&self) -> impl Iterator<Item = (HolderId, &Holder)> {
        self.all.iter().map(|(id, holder)| (*id, holder))
    }

    /// The holders of one process.
    pub fn of(&self, process: ProcessId) -> impl Iterator<Item = (HolderId, &Holder)> {
        self.iter().filter(move |(_, holder)| holder.process == process)
    }

    /// Holders that have said ready and can be talked to. One that pauses, with a concurrency of 0, is one of them.
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
            .filter(|holder| holder.takes_jobs())
            .filter_map(|holder| holder.ready.as_ref())
    }

    /// How many more jobs all of them together may get.
    #[must_use]
    pub fn free(&self, jobs: &Ledger) -> usize {
        self.iter()
            .map(|(id, holder)| holder.free(jobs.held_by(id).len()))
            .sum()
    }

    /// Whether any holder takes jobs of this kind in frames of so many bytes.
    #[must_use]
    pub fn take(&self, kind: &Text, bytes: usize) -> bool {
        self.all
            .values()
            .any(|holder| !holder.is_closed && !holder.is_given_up && holder.takes(kind, bytes))
    }

    /// The holder to give such a job to now: the one with most room; between equals, whose turn it is.
    #[must_use]
    pub fn choose(&self, kind: &Text, bytes: usize, jobs: &Ledger) -> Option<HolderId> {
        self.iter()
            .filter(|(_, holder)| !holder.is_busy && holder.takes(kind, bytes))
            .map(|(id, holder)| {
                let least_recently = std::cmp::Reverse((holder.served, id));
                (holder.free(jobs.held_by(id).len()), least_recently, id)
            })
            .filter(|(free, ..)| *free > 0)
            .max()
            .map(|(_, _, id)| id)
    }

    /// A job was given to this holder.
    pub fn serve(&mut self, id: HolderId) {
        self.served += 1;
        if let Some(holder) = self.all.get_mut(&id) {
            holder.is_busy = true;
            holder.has_unread_job = true;
            holder.served = self.served;
        }
    }

    /// Whether the process of each holder is known.
    ///
    /// # Errors
    ///
    /// Whose is not.
    pub fn check(&self) -> Result<(), String> {
        let unknown = self
            .iter()
            .find(|(_, holder)| !self.processes.contains_key(&holder.process));
        unknown.map_or(Ok(()), |(id, holder)| {
            Err(format!("process {} of holder {id} is not known", holder.process))
        })
    }
}
