//! The whole state of the runner.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Poll, Token};

use crate::runner::connection::InitConnection;
use crate::runner::job::{JobNumber, RunningJob};
use crate::runner::memory::MemoryLimiter;
use crate::runner::start::Starter;
use crate::runner::streams::{JobStream, OutputReader};
use ojs_lifecycle::api::Moment;
use ojs_lifecycle::timers::Timers;
use ojs_os::clock;
use ojs_os::own_children::OwnChildren;
use ojs_os::process::Pid;
use ojs_os::signal_fd::SignalFd;
use ojs_values::exit::Exit;
use ojs_wire::runner::frames::JobOrder;

/// The token of the descriptor of signals.
pub const SIGNALS: Token = Token(0);

/// The token of the connection to PID 1.
pub const CONNECTION: Token = Token(1);

/// The first token of a job.
const FIRST_OF_JOBS: usize = 2;

/// Tokens that each job has: its end, and its streams.
const OF_A_JOB: usize = 4;

/// The state of the runner.
#[derive(Debug)]
pub struct Runner {
    pub poll: Poll,
    pub signals: SignalFd,
    pub connection: InitConnection,
    pub starter: Starter,
    pub reader: OutputReader,
    pub jobs: BTreeMap<JobNumber, RunningJob>,
    /// Jobs that wait because the system had no process for them.
    pub waiting: BTreeMap<JobNumber, PostponedJob>,
    pub by_id: BTreeMap<String, JobNumber>,
    /// The processes of jobs that were not reaped.
    pub leaders: BTreeSet<Pid>,
    pub next_number: JobNumber,
    pub timers: Timers<RunnerTimer>,
    /// Jobs with unread output.
    pub readable: BTreeSet<JobNumber>,
    /// Jobs whose process's end was reported in this turn.
    pub ended: BTreeSet<JobNumber>,
    /// The connection may have unread bytes, which epoll reports only once.
    pub hears: bool,
    /// The poll reports when the connection has room to write.
    pub is_watched_for_room: bool,
    pub has_signals: bool,
    /// Only SIGCHLD reports the end of some job.
    pub has_unwatched: bool,
    /// How often processes that no job is known to have left were looked for, without a job
    /// meanwhile.
    pub stray_looks: u32,
    /// Processes that belonged to a job and got their SIGKILL, until they are reaped. An ending one
    /// has no readable marks any more, and its children are not adopted yet.
    pub killed: BTreeMap<Pid, JobNumber>,
    /// Ending processes without readable marks that may belong to a job, each with the time of the
    /// first such look, until they are reaped.
    pub ending: BTreeMap<Pid, Moment>,
    pub children: OwnChildren,
    pub memory: MemoryLimiter,
    /// This turn has seen a list of the children, and reaped those that had ended. Without a list a
    /// job's process that is not reaped yet may hide others, so the turn looks again.
    pub has_looked: bool,
    /// The shutdown has cut off a job. The runner did not report that job's end to PID 1, which
    /// waits for the runner's end.
    pub has_cut_off: bool,
    /// The runner ends with this status.
    pub exit: Option<Exit>,
}

/// A job that waits because the system had no process for it.
#[derive(Debug)]
pub struct PostponedJob {
    pub order: JobOrder,
    pub id: String,
    pub kind: String,
    /// When its time ends (RFC 3339), counted from its delivery.
    pub deadline: Option<String>,
    pub since: Moment,
    pub pauses: u32,
}

/// Owners of deadlines. Those of a job end with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunnerTimer {
    /// A job that was asked to end gets its SIGKILL.
    Kill(JobNumber),
    /// The next look for the leftovers of a job.
    Pass(JobNumber),
    /// A job's news may be sent.
    News(JobNumber),
    /// A job's channel is read again.
    Channel(JobNumber),
    /// A process for a job is tried again.
    Start(JobNumber),
    /// The next look for processes that no job is known to have left.
    Strays,
    /// The next look at the jobs' memory.
    Memory,
}

/// Owners of tokens of epoll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunnerTokenOwner {
    Signals,
    Connection,
    /// The process of a job.
    End(JobNumber),
    Stream(JobNumber, JobStream),
}

impl RunnerTokenOwner {
    /// The owner of this token.
    pub fn of(token: Token) -> Self {
        match token {
            SIGNALS => Self::Signals,
            CONNECTION => Self::Connection,
            Token(number) => {
                let number = number - FIRST_OF_JOBS;
                let job = JobNumber::try_from(number / OF_A_JOB).unwrap_or(JobNumber::MAX);
                match number % OF_A_JOB {
                    0 => Self::End(job),
                    1 => Self::Stream(job, JobStream::Stdout),
                    2 => Self::Stream(job, JobStream::Stderr),
                    _ => Self::Stream(job, JobStream::Channel),
                }
            }
        }
    }

    /// Its token. A counter numbers jobs, so no token is used twice.
    pub fn token(self) -> Token {
        let of_job = |job: JobNumber, kind| {
            let job = usize::try_from(job).unwrap_or(usize::MAX);
            Token(job.saturating_mul(OF_A_JOB).saturating_add(FIRST_OF_JOBS + kind))
        };
        match self {
            Self::Signals => SIGNALS,
            Self::Connection => CONNECTION,
            Self::End(job) => of_job(job, 0),
            Self::Stream(job, JobStream::Stdout) => of_job(job, 1),
            Self::Stream(job, JobStream::Stderr) => of_job(job, 2),
            Self::Stream(job, JobStream::Channel) => of_job(job, 3),
        }
    }
}

impl Runner {
    /// Has the poll report when this descriptor is readable, until it is closed.
    pub fn watch(&self, descriptor: RawFd, owner: RunnerTokenOwner) -> io::Result<()> {
        let registry = self.poll.registry();
        registry.register(&mut SourceFd(&descriptor), owner.token(), Interest::READABLE)
    }

    /// Has the poll report when the connection to PID 1 has room, while bytes wait to be written.
    /// At other times it would report each read by PID 1.
    ///
    /// # Errors
    ///
    /// As of `epoll_ctl`; none is known.
    pub fn watch_for_room(&mut self) -> io::Result<()> {
        let needs_room = self.connection.needs_room();
        if std::mem::replace(&mut self.is_watched_for_room, needs_room) == needs_room {
            return Ok(());
        }
        let interest = if needs_room {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        let descriptor = self.connection.descriptor();
        let registry = self.poll.registry();
        registry.reregister(&mut SourceFd(&descriptor), CONNECTION, interest)
    }

    /// True if there is a job in any state.
    pub fn has_jobs(&self) -> bool {
        !self.by_id.is_empty()
    }

    /// How long the poll may wait.
    pub fn time_to_wait(&self, now: Moment) -> Option<Duration> {
        if !self.readable.is_empty() || !self.ended.is_empty() || self.hears {
            return Some(Duration::ZERO);
        }
        self.timers.next().map(|(due, _)| due.remaining(now))
    }

    /// Cancels the timers of a job.
    pub fn disarm(&mut self, number: JobNumber) {
        for timer in [
            RunnerTimer::Kill(number),
            RunnerTimer::Pass(number),
            RunnerTimer::News(number),
            RunnerTimer::Channel(number),
            RunnerTimer::Start(number),
        ] {
            self.timers.cancel(timer);
        }
        self.readable.remove(&number);
        self.ended.remove(&number);
    }
}

/// The time of the monotonic clock.
pub fn now() -> Moment {
    Moment::new(clock::monotonic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_leads_back_to_its_owner() {
        let mut owners = vec![RunnerTokenOwner::Signals, RunnerTokenOwner::Connection];
        for job in [0, 1, 7, 1 << 40] {
            owners.push(RunnerTokenOwner::End(job));
            owners.extend(JobStream::ALL.map(|stream| RunnerTokenOwner::Stream(job, stream)));
        }
        for owner in owners {
            assert_eq!(RunnerTokenOwner::of(owner.token()), owner);
        }
    }
}
