//! What a person wants to know of an end: who began it, how it went, what became of the jobs from then on.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::exit::Ended;
use crate::lifecycle::api::effect::{Effect, Outcome, Reason, Remark};
use crate::lifecycle::api::ids::{Claim, JobId, Text};
use crate::lifecycle::api::time::Moment;
use crate::lifecycle::jobs::ledger::Place;
use crate::lifecycle::machine::Lifecycle;
use crate::lifecycle::worker::end_cause::EndCause;
use crate::signal::Signal;

/// How a worker ended, and what is known of the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WorkerEnd {
    /// What `waitpid` told.
    pub ended: Ended,
    /// How many processes of this container the kernel had killed since the worker's start because memory ran out, where
    /// the worker may be one of them.
    pub oom_kills: u64,
}

impl WorkerEnd {
    /// Whether it looks like the work of the kernel's out-of-memory killer: a SIGKILL, or what a shell makes of one.
    #[must_use]
    pub fn is_like_oom(ended: Ended) -> bool {
        ended.status() == Ended::Signalled(Signal::KILL).status()
    }

    /// ` (out of memory: ...)`, or nothing where that is not known.
    #[must_use]
    pub fn out_of_memory(self) -> String {
        match self.oom_kills {
            0 => String::new(),
            kills => format!(" (out of memory: oom_kill of the cgroup rose by {kills})"),
        }
    }
}

impl From<Ended> for WorkerEnd {
    fn from(ended: Ended) -> Self {
        Self { ended, oom_kills: 0 }
    }
}

impl fmt::Display for WorkerEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.ended, self.out_of_memory())
    }
}

/// How an end of the worker fits what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Manner {
    /// The end was asked for, and came as it should; or was forced.
    Orderly,
    /// The end was asked for, and the worker ended in another way than it was asked to.
    Disorderly,
    /// Nobody had asked. Its status counts as success.
    Unasked,
    /// Nobody had asked, and its status is that of a failure.
    Failed,
}

/// Why nobody waits any longer for processes that got SIGKILL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StillThere {
    /// They had time enough to be gone: the kernel holds them.
    Held,
    /// The SIGKILL went out only so long ago, and there is no time to see what comes of it.
    NoTime(Duration),
    /// There was none to begin with: the time of the shutdown was over so long ago when we came to it.
    Overdue(Duration),
}

impl StillThere {
    /// Why their jobs are left alone.
    pub(in crate::lifecycle) fn why_left(self) -> &'static str {
        match self {
            Self::Held => "the kernel holds the process that has it",
            Self::NoTime(_) | Self::Overdue(_) => "no time was left to see the end of the process that has it",
        }
    }
}

/// What the termination log tells. How it is spelled is the business of `wire::termination_log`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Account {
    /// What began the end.
    pub cause: Cause,
    /// How the last worker ended, once it has.
    pub worker: Option<WorkerEnd>,
    /// How long that one had run by then.
    pub ran: Option<Duration>,
    /// Since the end began.
    pub took: Duration,
    /// How it ended; none while the stop phase begins.
    pub status: Option<u8>,
    /// A signal ended it at once: the exit status says which.
    pub is_abandoned: bool,
    /// Finished jobs whose ACK the backend never took.
    pub unreported: usize,
    /// How many jobs are cut off; as the stop phase begins, how many are about to be.
    pub cut_off: usize,
    /// The rest, with the names of the jobs that are cut off.
    pub tally: Tally,
}

impl Account {
    /// Whether somebody did not want to wait for the end of the drain.
    #[must_use]
    pub fn is_forced(&self) -> bool {
        self.tally.stop.is_some_and(|(_, is_forced)| is_forced)
    }
}

/// What began an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Somebody asked for it.
    Asked(Reason),
    /// The worker ended by itself, and is not started again.
    WorkerEnded,
    /// We ended the worker, and do not start it again.
    WorkerWasEnded,
    /// The worker could not be started, which is this exit status.
    NotStarted(u8),
    /// A signal that ends at once, out of normal operation.
    AtOnce,
}

/// Most names of jobs that are left to their visibility timeout: more than the text has room for.
pub const MOST_LEFT_NAMES: usize = 512;

/// What is counted from the moment on at which the end began; or, where we ended a process of the worker and the end
/// followed from that, from then on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Tally {
    /// Jobs whose ACK the backend has.
    pub done: usize,
    /// Jobs whose FAIL it has, without those that were cut off.
    pub failed: usize,
    /// Jobs that were given back, without those that were cut off.
    pub handed_back: usize,
    /// Jobs that were cut off and whose FAIL it has.
    pub cut_off_failed: usize,
    /// Jobs that were cut off and given back.
    pub cut_off_handed_back: usize,
    /// Jobs that the backend heard nothing more of, whatever they were: they wait for their visibility timeout.
    pub left: usize,
    /// A FETCH was given up: the same is true for what it claimed.
    pub is_fetch_abandoned: bool,
    /// When the stop phase began, after so much time, and whether somebody forced it.
    pub stop: Option<(Duration, bool)>,
    /// Names of the jobs that were cut off, with their types. One that was delivered twice has one.
    pub names: BTreeMap<JobId, Text>,
    /// The same of the jobs in `left`, of at most [`MOST_LEFT_NAMES`] of them.
    pub left_names: BTreeMap<JobId, Text>,
    /// The worker is not started again because it ended too often.
    pub has_ended_too_often: bool,
    /// Why we ended a process of the worker, the last one that we ended.
    pub ended_for: Option<EndCause>,
}

impl Tally {
    fn settled(&mut self, job: &JobId, outcome: Outcome) {
        match outcome {
            Outcome::Acked => self.done += 1,
            Outcome::Failed if self.names.contains_key(job) => self.cut_off_failed += 1,
            Outcome::Requeued if self.names.contains_key(job) => self.cut_off_handed_back += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Requeued => self.handed_back += 1,
        }
    }
}

impl Lifecycle {
    /// Counts what is said to the log: nothing becomes of a job in silence.
    pub(in crate::lifecycle) fn keep_account(&mut self, remark: &Remark) {
        if *remark == Remark::TooManyRestarts {
            self.tally.has_ended_too_often = true;
        }
        if let Remark::EndingProcess { cause, .. } = remark
            && *cause != EndCause::Orphaned
        {
            self.account_for_ended_process(cause);
        }
        if !self.phase.is_terminating() && self.tally.ended_for.is_none() {
            return;
        }
        if let Remark::Settled(job, outcome) = remark {
            self.tally.settled(&job.id, *outcome);
        }
        if let Remark::Abandoned(job, _) = remark {
            self.tally.left += 1;
            if self.tally.left_names.len() < MOST_LEFT_NAMES {
                self.tally.left_names.insert(job.id.clone(), job.kind.clone());
            }
        }
        self.tally.is_fetch_abandoned |= *remark == Remark::FetchAbandoned;
    }

    /// What becomes of the jobs of such a process belongs to the account of an end that follows from its own.
    fn account_for_ended_process(&mut self, cause: &EndCause) {
        if !self.phase.is_terminating() {
            self.tally = Tally::default();
        }
        self.tally.ended_for = Some(cause.clone());
    }

    /// The end begins. What was counted before counts only where we ended a process of the worker a moment ago; and where
    /// somebody asked for the end, nothing but what is left of that.
    pub(in crate::lifecycle) fn begin_account(&mut self, now: Moment) {
        let before = std::mem::take(&mut self.tally);
        if self.worker.has_just_ended_for(now).is_none() {
            self.tally.has_ended_too_often = before.has_ended_too_often;
        } else if self.shutdown.is_asked {
            self.tally = Tally {
                left: before.left,
                left_names: before.left_names,
                ended_for: before.ended_for,
                ..Tally::default()
            };
        } else {
            self.tally = before;
        }
    }

    /// A shutdown cut this job off.
    pub(in crate::lifecycle) fn count_cut_off(&mut self, claim: Claim) {
        self.shutdown.cut_off += 1;
        if let Some(job) = self.jobs.get(claim) {
            let subject = job.subject();
            self.tally.names.insert(subject.id.clone(), subject.kind.clone());
        }
    }

    /// The stop phase begins: should somebody kill us before its end, this is what is known.
    pub(in crate::lifecycle) fn account_for_stop(&mut self, now: Moment) {
        self.tally.stop = Some((self.shutdown.took(now), self.shutdown.forced.is_some()));
        let mut account = self.account(now);
        let held = self
            .jobs
            .iter()
            .filter(|(_, job)| job.holder().is_some() && !job.is_lost);
        let held: Vec<_> = held.map(|(_, job)| job.subject()).collect();
        account.cut_off = held.len();
        let named = held.iter().map(|subject| (subject.id.clone(), subject.kind.clone()));
        account.tally.names = named.collect();
        self.order(Effect::WriteTerminationLog(Box::new(account)));
    }

    /// A third signal: nothing more is heard of anything.
    pub(in crate::lifecycle) fn account_for_abandoning(&mut self) {
        let claims: Vec<Claim> = self.jobs.iter().map(|(claim, _)| claim).collect();
        self.tally.left += claims.len();
        for claim in claims {
            if self
                .jobs
                .get(claim)
                .is_some_and(|job| matches!(job.place, Place::Held(_)) && !job.is_lost)
            {
                self.count_cut_off(claim);
            }
        }
        if self.is_fetching() {
            self.say(Remark::FetchAbandoned);
        }
    }

    /// The last words, for whoever reads the log and for whoever reads the termination log.
    pub(in crate::lifecycle) fn account_for_exit(&mut self, status: u8, now: Moment) {
        let mut account = self.account(now);
        account.status = Some(status);
        self.say(Remark::Summary(Box::new(account.clone())));
        self.order(Effect::WriteTerminationLog(Box::new(account)));
    }

    /// How this end of the worker fits what was asked for.
    pub(in crate::lifecycle) fn manner(&self, ended: Ended) -> Manner {
        let is_success = self.options.remap_exit.apply(ended) == 0;
        if !self.phase.is_terminating() {
            return if is_success { Manner::Unasked } else { Manner::Failed };
        }
        let is_as_asked = match ended {
            Ended::Exited(status) => [Signal::TERM, Signal::INT]
                .into_iter()
                .any(|signal| Ended::Signalled(signal).status() == status),
            Ended::Signalled(Signal::TERM | Signal::INT) => true,
            Ended::Signalled(Signal::KILL) => self.shutdown.is_killing(),
            Ended::Signalled(_) => false,
        };
        if is_success || is_as_asked {
            Manner::Orderly
        } else {
            Manner::Disorderly
        }
    }

    fn account(&self, now: Moment) -> Account {
        let is_abandoned = self.shutdown.abandoned_with.is_some();
        let cause = match (self.shutdown.is_asked, self.worker.refused_with()) {
            (true, _) => Cause::Asked(self.shutdown.reason),
            (false, _) if is_abandoned => Cause::AtOnce,
            (false, Some(status)) => Cause::NotStarted(status),
            (false, None) if self.worker.ended_for().is_some() => Cause::WorkerWasEnded,
            (false, None) => Cause::WorkerEnded,
        };
        Account {
            cause,
            worker: self.worker.ended(),
            ran: self.worker.ran(),
            took: self.shutdown.took(now),
            status: None,
            is_abandoned,
            unreported: self.shutdown.unreported,
            cut_off: self.shutdown.cut_off,
            tally: self.tally.clone(),
        }
    }
}
