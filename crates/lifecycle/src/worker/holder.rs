//! One holder of jobs: under which conditions it takes them, and with how much credit; and the
//! process behind it.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use crate::api::ids::{HolderId, ProcessId};
use crate::api::{EndCause, Manners, Moment, Ready};
use crate::worker::asks::Asks;
use crate::worker::offers::{HolderRank, OfferNumber};

/// One holder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The process behind it.
    pub process: ProcessId,
    /// That process is not its own: it stands for whichever of the worker's it is.
    pub is_of_unknown_process: bool,
    /// When it last said something, where that is all that tells that it is there.
    pub last_said: Option<Moment>,
    /// The manners of the holder.
    pub manners: Manners,
    /// Its conditions; none before it has said ready.
    pub ready: Option<Ready>,
    /// Its own requests for jobs: a holder that makes them needs no conditions.
    pub asked_queues: Asks,
    /// How often it has asked for jobs from more queues than are asked for at once.
    pub queue_turns: usize,
    /// Something that we wrote was not taken yet.
    pub has_unread_output: bool,
    /// The job that it got last is among that.
    pub has_unread_job: bool,
    /// Nothing is read from it: it has to take what we wrote first.
    pub is_reading_paused: bool,
    /// Nothing more will come from it.
    pub is_closed: bool,
    /// Its process is kept for one job: it gets no other.
    pub is_kept: bool,
    /// The holder gets no more jobs: it closes, is silent, or does not read.
    pub is_given_up: bool,
    /// Malformed frames in a row.
    pub malformed: u8,
    /// Pings without an answer.
    pub pings: u8,
    /// How long after the last SIGURG its process gets the next one, while cancelled jobs are
    /// unanswered.
    pub signal_pause: Duration,
    /// When it got its last job, as a count of jobs.
    pub last_job_number: u64,
    /// The offer of the holder, once it has said ready.
    pub(super) offer: Option<OfferNumber>,
    /// How many jobs it has; which, the ledger knows.
    pub(super) held: usize,
    /// How many of them nobody waits for any more: lost, and not answered in time.
    pub(super) overdue: usize,
}

impl Holder {
    /// One that has just come.
    #[must_use]
    pub fn new(process: ProcessId, manners: Manners) -> Self {
        Self {
            process,
            is_of_unknown_process: false,
            last_said: None,
            manners,
            ready: None,
            asked_queues: Asks::default(),
            queue_turns: 0,
            has_unread_output: false,
            has_unread_job: false,
            is_reading_paused: false,
            is_closed: false,
            is_kept: false,
            is_given_up: false,
            malformed: 0,
            pings: 0,
            signal_pause: Duration::ZERO,
            last_job_number: 0,
            offer: None,
            held: 0,
            overdue: 0,
        }
    }

    /// How many more jobs it may get.
    #[must_use]
    pub fn free(&self) -> usize {
        match &self.ready {
            Some(ready) if !self.is_given_up && !self.is_closed => {
                usize::try_from(ready.concurrency).map_or(0, |most| most.saturating_sub(self.held))
            }
            Some(_) | None => 0,
        }
    }

    /// How many jobs it has.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Whether only its heartbeats show that the holder still has its jobs: its process is unknown,
    /// and it waits for replies as clients of the gateway do.
    #[must_use]
    pub fn is_known_by_words_alone(&self) -> bool {
        self.is_of_unknown_process && self.manners.answer_within.is_some()
    }

    /// Whether it can be talked to.
    #[must_use]
    pub fn is_there(&self) -> bool {
        !self.is_closed && !self.is_given_up
    }

    /// Whether it is ready, or has asked for jobs, and can be talked to. One that pauses, with a
    /// concurrency of 0, is.
    #[must_use]
    pub fn takes_jobs(&self) -> bool {
        (self.ready.is_some() || self.asked_queues.has_asked()) && self.is_there()
    }

    /// Whether it has to answer a ping with the jobs that it has: it has nothing else to do, or
    /// said that it answers anyway.
    #[must_use]
    pub fn answers_pings_now(&self) -> bool {
        self.ready.as_ref().is_some_and(|ready| ready.ping || self.held == 0)
    }

    pub(super) fn share(&self) -> Share {
        let (free, takes_jobs) = (self.free(), self.takes_jobs());
        let ready = self.ready.as_ref().filter(|_| takes_jobs);
        Share {
            is_ready: takes_jobs,
            pulls: self.asked_queues.has_asked() && takes_jobs,
            concurrency: ready.map_or(0, |ready| u64::from(ready.concurrency)),
            free,
            limit: self.is_there().then_some(self.manners.frame_limit),
            offer: self.offer.filter(|_| takes_jobs),
            idle_since: (free > 0 && !self.has_unread_output && !self.is_kept).then_some(self.last_job_number),
            is_closed: self.is_closed,
            held: self.held,
            works: if self.is_closed { 0 } else { self.held - self.overdue },
            room: if self.manners.hears { free } else { 0 },
            is_overdue: self.overdue > 0 && !self.is_closed,
        }
    }
}

/// The part of one holder in the sums of all holders and of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) is_ready: bool,
    pub(super) pulls: bool,
    pub(super) concurrency: u64,
    pub(super) free: usize,
    pub(super) limit: Option<Option<usize>>,
    pub(super) offer: Option<OfferNumber>,
    pub(super) idle_since: Option<u64>,
    pub(super) is_closed: bool,
    pub(super) held: usize,
    pub(super) works: usize,
    pub(super) room: usize,
    pub(super) is_overdue: bool,
}

impl Share {
    pub(super) fn rank(&self, holder: HolderId) -> Option<HolderRank> {
        let last_job_number = self.idle_since?;
        let free = Reverse(self.free);
        Some(HolderRank {
            free,
            served: last_job_number,
            holder,
        })
    }

    pub(super) fn is_at_work(&self, process_is_gone: bool) -> bool {
        self.held > 0 && !(self.is_closed && process_is_gone)
    }
}

/// A process behind holders.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Process {
    /// Why it is being ended, if it is.
    pub ending: Option<EndCause>,
    /// The process can do nothing any more.
    pub(super) is_gone: bool,
    /// How many jobs were unanswered when the first of them was decided after its end.
    pub(super) left_unanswered: Option<usize>,
    /// Its holders.
    pub(super) holders: BTreeSet<HolderId>,
    /// Those that are closed.
    pub(super) closed: BTreeSet<HolderId>,
    /// Those that are open and have jobs that nobody waits for any more.
    pub(super) overdue: BTreeSet<HolderId>,
    /// Jobs that they have.
    pub(super) held: usize,
    /// Those that somebody waits for, as far as their holders are open.
    pub(super) works: usize,
    /// How many more those may get that hear what they are told.
    pub(super) room: usize,
}

impl Process {
    /// Whether it can do nothing any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }
}
