//! The timers, each with the question that it answers.

use std::fmt;

use crate::api::ids::{CallId, Claim, ClientId, HolderId, ProcessId, PullId};

/// The timers of the end. The one that comes first here goes first when two are due at the same
/// moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndingTimer {
    /// When has this step of the shutdown had its time?
    Step,
    /// When do outcomes go out although the last checkpoint of their job has no answer?
    WithoutCheckpoints,
    /// When is the last heartbeat sent although an earlier one has no answer?
    FinalHeartbeat,
    /// When have the jobs had theirs?
    Deadline,
    /// When is the worker told that the drain begins?
    DelayOver,
    /// When is it time to log how many jobs are left?
    DrainLog,
    /// When has a preStop hook come to nothing?
    PrestopLapse,
    /// When has there been no job for `worker.exit_when_idle`?
    Idle,
}

/// The timers of the link to the backend. The one that comes first here goes first when two are due
/// at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkTimer {
    /// When do we stop waiting for an answer that should have come?
    Call(CallId),
    /// When may a request be said to hang?
    Hanging,
    /// When is a person told of an outage again?
    Outage,
    /// When is the next heartbeat?
    Heartbeat,
    /// When is the next registration attempt?
    Register,
    /// When may the next FETCH be that nobody asks for?
    Fetch,
    /// When may the next FETCH be after something was given back?
    FetchReturned,
    /// When is a FETCH that failed tried again?
    FetchAgain,
    /// When may the memory gate open again?
    MemoryGate,
    /// When is this stream of events asked for, by its number?
    Listen(usize),
}

/// The timers of the worker. The one that comes first here goes first when two are due at the same
/// moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkerTimer {
    /// When have the descendants of a worker that ended had their time?
    KillDescendants,
    /// When do we stop waiting for descendants that SIGKILL did not end?
    GiveUpOnDescendants,
    /// When is it time to look for descendants that became ours since the last look?
    Rescan,
    /// When is the worker started again?
    Start,
    /// Until when do the reports of the last worker hold up the next one?
    StartAnyway,
    /// When has the worker had its time to say ready?
    Ready,
    /// When is it told that the holders take more or fewer jobs than before?
    Capacity,
    /// When are all holders there, as far as can be told?
    Settled,
    /// When has a process that closed a connection with jobs had its time to end by itself?
    HungUp(ProcessId),
    /// When has a process that is being ended had its time?
    KillProcess(ProcessId),
    /// When is this holder asked whether it is there?
    Ping(HolderId),
    /// When has this holder had its time to read?
    Stalled(HolderId),
    /// When does the process of this holder get its next SIGURG, unless its cancelled jobs are
    /// answered?
    CancelSignal(HolderId),
    /// When is a holder that wants jobs told that there are none?
    Pull(PullId),
}

/// The timers of the jobs. The one that comes first here goes first when two are due at the same
/// moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobTimer {
    /// When has this job had its time?
    JobTimeout(Claim),
    /// When has the handler had its time to answer the cancel?
    JobGrace(Claim),
    /// The grace of a handler whose job is lost.
    LostGrace(Claim),
    /// When has whoever has this job said nothing for too long?
    Silence(Claim),
    /// When do we stop waiting for somebody who takes this job?
    NoHandler(Claim),
    /// When has the job that its process is kept for had its time?
    Suspect,
    /// When is the ACK sent without its result?
    WithoutResult(Claim),
    /// When is whoever waits for the answer to this outcome told that it is ours?
    AnswerBy(Claim),
    /// When is this report sent again?
    Report(Claim),
    /// When is this job looked at again that came while an earlier outcome of it was on its way?
    LookAgain(Claim),
    /// When may the next progress be sent?
    Progress(Claim),
    /// When is the checkpoint saved again?
    Checkpoint(Claim),
}

/// The timers. If two of one owner are due at the same moment, the one that comes first here goes
/// first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// One of the end.
    Ending(EndingTimer),
    /// One of the link to the backend.
    Link(LinkTimer),
    /// One of the worker.
    Worker(WorkerTimer),
    /// One of the jobs.
    Job(JobTimer),
    /// When has a program on the control socket had its time to ask, or to wait?
    Client(ClientId),
}

impl Timer {
    /// Which goes first of two that are due at the same moment and have different owners: the one
    /// with the lower number.
    #[must_use]
    pub fn turn(self) -> u8 {
        match self {
            Self::Ending(EndingTimer::Idle) => 5,
            Self::Ending(_) => 0,
            Self::Link(LinkTimer::Call(_) | LinkTimer::Hanging) => 1,
            Self::Link(LinkTimer::Outage | LinkTimer::Heartbeat | LinkTimer::Register) => 4,
            Self::Link(_) => 6,
            Self::Worker(WorkerTimer::Pull(_)) => 7,
            Self::Worker(_) => 2,
            Self::Client(_) => 8,
            Self::Job(_) => 3,
        }
    }
}

/// The name of the question, whoever asks it.
impl fmt::Display for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ending(timer) => write!(f, "{timer:?}"),
            Self::Link(timer) => write!(f, "{timer:?}"),
            Self::Worker(timer) => write!(f, "{timer:?}"),
            Self::Job(timer) => write!(f, "{timer:?}"),
            Self::Client(_) => write!(f, "{self:?}"),
        }
    }
}
