//! The status for an operator: the phase, the time that it may last, jobs, worker and backend.

use std::sync::Arc;
use std::time::Duration;

use crate::api::frames::Progress;
use crate::api::ids::{HolderId, ProcessId, Text, WorkerId};
use crate::api::job::Subject;
use crate::api::snapshot::Snapshot;
use crate::api::trouble::Trouble;
use crate::api::words::Reason;
use ojs_values::exit::Ended;

/// Everything at one moment. Times are relative to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Status {
    /// Where we are, and how many there are of everything.
    pub snapshot: Snapshot,
    /// Why we are not running. In quiet there may be several, and each has to be taken back.
    pub causes: Vec<NotRunningBecause>,
    /// Since when terminate; none before it.
    pub terminating_for: Option<Duration>,
    /// The rest of the drain, or of the stop phase. None before terminate, unless the
    /// orchestrator's clock runs.
    pub left: Option<Duration>,
    /// The whole time of which `left` is left: for a bar.
    pub left_of: Option<Duration>,
    /// The oldest jobs, at most `MOST_JOBS_SHOWN`.
    pub jobs: Vec<JobStatus>,
    /// Jobs that are not among these: with those that go straight back, which do not count as
    /// active.
    pub not_shown: usize,
    /// The types whose jobs are given back again and again, at most `MOST_TYPES_SHOWN`, with the
    /// number of returns.
    pub given_back: Vec<(Text, u32)>,
    /// The queues that jobs are taken from, where holders say that; none: those that are
    /// configured.
    pub queues: Option<Vec<Text>>,
    /// Queues that holders asked for, and that the configuration does not have.
    pub refused_queues: Vec<Text>,
    /// Nobody has set a concurrency: that of the snapshot is the most that was asked for until now,
    /// and limits nothing.
    pub is_uncapped: bool,
    /// The most jobs that the worker had and asked for at one time; none before its first request,
    /// and where holders do not ask for jobs.
    pub most_asked: Option<u32>,
    /// The next step, if that is the end.
    pub ending: Option<FinalStep>,
    pub worker: WorkerStatus,
    pub backend: BackendStatus,
}

/// Why we are not running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotRunningBecause {
    /// Quiet: a signal, or somebody on the control socket.
    Operator,
    /// Quiet: the backend.
    Server,
    /// Quiet: a preStop hook.
    Prestop,
    /// Terminate.
    End(Reason),
}

/// The next step of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FinalStep {
    /// SIGKILL to everybody; for PID 1 that is everything in its namespace.
    Kill,
    /// The exit, with this status.
    Exit(u8),
}

/// One job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobStatus {
    pub subject: Arc<Subject>,
    /// Since it was claimed.
    pub age: Duration,
    pub place: JobPlace,
    /// The job was told to stop, or its reservation is lost.
    pub is_cancelled: bool,
    /// Its timeout is over, and its process is ended in this time unless it answers.
    pub ends_in: Option<Duration>,
    /// The last progress that its handler told.
    pub progress: Option<Progress>,
}

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobPlace {
    /// In our buffer.
    Waiting,
    /// With the worker on this holder.
    Held(HolderId),
    /// Its outcome is on its way to the backend.
    Reporting,
    /// The job was given back, and is held here before it goes.
    GoesBack,
}

/// The worker's process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WorkerStatus {
    /// The process; none while there is none.
    pub process: Option<ProcessId>,
    /// For how long it has run, or was to be started.
    pub up: Duration,
    /// How the last one ended.
    pub ended: Option<Ended>,
    /// Starts again within the last 10 minutes.
    pub restarts: usize,
    /// Until the next start, where one is due.
    pub starts_in: Option<Duration>,
    /// All holders.
    pub holders: usize,
    /// Those that have most jobs, at most `MOST_HOLDERS_SHOWN`, the one with the most first.
    pub most_loaded: Vec<HolderStatus>,
}

/// One holder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HolderStatus {
    pub holder: HolderId,
    /// Its process; none if it is not known which of the worker's processes that is.
    pub process: Option<ProcessId>,
    /// Jobs that it has, with those that were cancelled or lost and that it has not answered yet.
    pub jobs: usize,
    /// Most jobs that it takes at a time; none if it has not sent ready, as a holder that sends
    /// requests for jobs.
    pub concurrency: Option<u32>,
    pub state: HolderState,
}

/// Whether a holder takes jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HolderState {
    /// The holder has not sent ready, and no request for jobs.
    NotReady,
    /// The holder takes jobs, or sends requests for jobs.
    Ready,
    /// Its request for jobs waits for the answer.
    Asking,
    /// The holder sent ready with a concurrency of 0.
    Paused,
    /// Its process is kept for one job that may have crashed the process before: it gets no other
    /// job.
    Alone,
    /// The holder gets no more jobs, and is closed or its process is ended.
    GivenUp,
    /// The holder is closed, and its jobs wait for the end of its process.
    Closed,
}

/// The conversation with the backend.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BackendStatus {
    /// Our name there.
    pub worker: Option<WorkerId>,
    /// Since it last accepted a heartbeat.
    pub heartbeat_age: Option<Duration>,
    /// The last answer was none.
    pub is_unreachable: bool,
    /// Why it does not work, if so.
    pub trouble: Option<Trouble>,
    /// Requests that are on their way.
    pub requests: usize,
}
