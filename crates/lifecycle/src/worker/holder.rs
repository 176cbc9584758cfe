//! One holder of jobs: the conditions on which it accepts them, its credit, and the process behind
//! it.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use crate::api::ids::{HolderId, ProcessId};
use crate::api::{EndCause, Manners, Moment, Ready};
use crate::worker::asks::Asks;
use crate::worker::offers::{HolderRank, OfferNumber};

/// One holder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The process behind the holder.
    pub process: ProcessId,
    /// The holder's own process is unknown, so `process` stands for any of the worker's.
    pub is_of_unknown_process: bool,
    /// When the holder last sent a message, if only its messages show that it is there.
    pub last_said: Option<Moment>,
    /// The manners of the holder.
    pub manners: Manners,
    /// The conditions of the holder. None before it has sent ready.
    pub ready: Option<Ready>,
    /// The queues of the holder's own requests for jobs. A holder that sends requests needs no
    /// conditions.
    pub asked_queues: Asks,
    /// How often the holder has asked for jobs from more queues than one FETCH names.
    pub queue_turns: usize,
    /// The holder has not read all that ojs-init wrote.
    pub has_unread_output: bool,
    /// The unread output contains the holder's last job.
    pub has_unread_job: bool,
    /// ojs-init reads nothing from the holder until the holder has read its output.
    pub is_reading_paused: bool,
    /// The holder will send nothing more.
    pub is_closed: bool,
    /// The holder's process is kept for one job and gets no other.
    pub is_kept: bool,
    /// The holder gets no more jobs, because its connection closes, or because it is silent or does
    /// not read.
    pub is_given_up: bool,
    /// Malformed frames in a row.
    pub malformed: u8,
    /// Pings without an answer.
    pub pings: u8,
    /// How long after the last SIGURG its process gets the next one, while cancelled jobs are
    /// unanswered.
    pub signal_pause: Duration,
    /// The number of the holder's last job, in a count of all jobs given out.
    pub last_job_number: u64,
    /// The offer of the holder, once it has sent ready.
    pub(super) offer: Option<OfferNumber>,
    /// How many jobs the holder has. The ledger knows which.
    pub held: usize,
    /// How many of the holder's jobs are overdue: lost, and not answered in time.
    pub(super) overdue: usize,
}

impl Holder {
    /// A holder that has just connected.
    pub fn new(process: ProcessId, manners: Manners) -> Self {
        Self {
            process,
            manners,
            ..Self::default()
        }
    }

    /// How many more jobs the holder may get.
    pub fn free(&self) -> usize {
        match &self.ready {
            Some(ready) if !self.is_given_up && !self.is_closed => {
                usize::try_from(ready.concurrency).map_or(0, |most| most.saturating_sub(self.held))
            }
            Some(_) | None => 0,
        }
    }

    /// Whether only its heartbeats show that the holder still has its jobs. This requires an
    /// unknown process, and a holder that waits for replies as clients of the gateway do.
    pub fn is_known_by_words_alone(&self) -> bool {
        self.is_of_unknown_process && self.manners.answer_within.is_some()
    }

    /// Whether ojs-init can send messages to the holder.
    pub fn is_there(&self) -> bool {
        !self.is_closed && !self.is_given_up
    }

    /// Whether the holder is ready or has asked for jobs, and can receive messages. True also for a
    /// holder that pauses with a concurrency of 0.
    pub fn takes_jobs(&self) -> bool {
        (self.ready.is_some() || self.asked_queues.has_asked()) && self.is_there()
    }

    /// Whether the holder has to answer a ping with the jobs that it has: it has no job, or
    /// declared that it always answers.
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
    /// Why ojs-init ends the process, if it does.
    pub ending: Option<EndCause>,
    /// The process has ended.
    pub is_gone: bool,
    /// The process was there before the next worker process, while two of them run.
    pub(super) is_old: bool,
    /// How many jobs were unanswered when the first of them was decided after the process's end.
    pub(super) left_unanswered: Option<usize>,
    /// Its holders.
    pub(super) holders: BTreeSet<HolderId>,
    /// Holders whose connection is closed.
    pub(super) closed: BTreeSet<HolderId>,
    /// Open holders with overdue jobs.
    pub(super) overdue: BTreeSet<HolderId>,
    /// Jobs that the holders have.
    pub(super) held: usize,
    /// Jobs of open holders that are not overdue.
    pub(super) works: usize,
    /// How many more jobs the holders that receive cancels may get.
    pub(super) room: usize,
}
