//! The timers, each with its meaning.

use std::fmt;

use crate::api::ids::{CallId, Claim, ClientId, HolderId, ProcessId, PullId};

/// The timers of the end. Of two that expire at the same moment, the earlier one in this list is
/// handled first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndingTimer {
    /// The time of the present step of the shutdown ends.
    Step,
    /// Outcomes are sent although the last checkpoint of their job has no answer.
    WithoutCheckpoints,
    /// The last heartbeat is sent although an earlier one has no answer.
    FinalHeartbeat,
    /// The drain ends.
    Deadline,
    /// ojs-init tells the worker that the drain begins.
    DelayOver,
    /// The number of remaining jobs is logged.
    DrainLog,
    /// A preStop hook lapses because no SIGTERM followed.
    PrestopLapse,
    /// There has been no job for `worker.exit_when_idle`.
    Idle,
}

/// The timers of the link to the backend. Of two that expire at the same moment, the earlier one in
/// this list is handled first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkTimer {
    /// ojs-init gives up waiting for the answer to this request.
    Call(CallId),
    /// A request may hang from now on.
    Hanging,
    /// An outage is logged again.
    Outage,
    /// The next heartbeat is sent.
    Heartbeat,
    /// The next attempt to register.
    Register,
    /// The next poll: a FETCH that no event asked for.
    Fetch,
    /// FETCH may be sent again after a job was given back.
    FetchReturned,
    /// A failed FETCH is retried.
    FetchAgain,
    /// The memory gate may open again.
    MemoryGate,
    /// ojs-init asks for the stream of events with this number.
    Listen(usize),
}

/// The timers of the worker. Of two that expire at the same moment, the earlier one in this list is
/// handled first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkerTimer {
    /// The descendants of a worker that ended get SIGKILL.
    KillDescendants,
    /// ojs-init gives up waiting for descendants that SIGKILL did not end.
    GiveUpOnDescendants,
    /// ojs-init looks for newly adopted descendants.
    Rescan,
    /// The worker is started again.
    Start,
    /// The next worker is started although reports of the last one are not accepted yet.
    StartAnyway,
    /// The worker's time to send ready ends.
    Ready,
    /// The worker reaches its longest age.
    MaxAge,
    /// The time of a worker that is being recycled ends: for its jobs, then for its exit handlers.
    Recycle,
    /// A change of the holders' capacity is logged.
    Capacity,
    /// All holders have probably connected.
    Settled,
    /// The time of a process to end by itself ends after it closed a connection with jobs.
    HungUp(ProcessId),
    /// A process that ojs-init ends gets SIGKILL.
    KillProcess(ProcessId),
    /// This holder gets a ping.
    Ping(HolderId),
    /// The time of this holder to read its messages ends.
    Stalled(HolderId),
    /// The process of this holder gets its next SIGURG, unless its cancelled jobs are answered.
    CancelSignal(HolderId),
    /// A holder's request for jobs is answered without a job.
    Pull(PullId),
}

/// The timers of the jobs. Of two that expire at the same moment, the earlier one in this list is
/// handled first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobTimer {
    /// The job's timeout expires.
    JobTimeout(Claim),
    /// The handler's time to answer the cancel ends.
    JobGrace(Claim),
    /// The time of a handler whose job is lost ends.
    LostGrace(Claim),
    /// The holder of this job has sent nothing for too long.
    Silence(Claim),
    /// ojs-init gives up waiting for a holder that accepts this job.
    NoHandler(Claim),
    /// The time of the job that its process is reserved for ends.
    Suspect,
    /// The ACK is sent without its result.
    WithoutResult(Claim),
    /// The holder that waits for the answer to this outcome gets it, although the backend has not
    /// accepted the outcome.
    AnswerBy(Claim),
    /// This report is sent again.
    Report(Claim),
    /// ojs-init checks again a job that arrived while an earlier outcome of it was in flight.
    LookAgain(Claim),
    /// The next progress may be sent.
    Progress(Claim),
    /// The checkpoint is saved again.
    Checkpoint(Claim),
}

/// The timers. Of two timers of one owner that expire at the same moment, the earlier one in this
/// list is handled first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// A timer of the end.
    Ending(EndingTimer),
    /// A timer of the link to the backend.
    Link(LinkTimer),
    /// A timer of the worker.
    Worker(WorkerTimer),
    /// A timer of the jobs.
    Job(JobTimer),
    /// The time of a program on the control socket to send a request, or to wait, ends.
    Client(ClientId),
}

impl Timer {
    /// The order of timers of different owners that expire at the same moment. The lowest number is
    /// handled first.
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

/// The name of the timer.
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
