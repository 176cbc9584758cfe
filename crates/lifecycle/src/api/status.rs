//! The status for an operator: the phase and its remaining time, jobs, worker and backend.

use std::sync::Arc;
use std::time::Duration;

use crate::api::frames::Progress;
use crate::api::ids::{HolderId, ProcessId, Text, WorkerId};
use crate::api::job::Subject;
use crate::api::outcome::JobEnd;
use crate::api::recycle::RecycleReason;
use crate::api::snapshot::Snapshot;
use crate::api::trouble::Trouble;
use crate::api::words::{CancelReason, Reason};
use ojs_values::exit::Ended;

/// The status at one moment. Times are relative to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Status {
    /// The phase and all counts.
    pub snapshot: Snapshot,
    /// Why the phase is not running. In quiet there may be several causes, and each has to be
    /// lifted.
    pub causes: Vec<NotRunningBecause>,
    /// Time since terminate; none before it.
    pub terminating_for: Option<Duration>,
    /// The remaining time of the drain, or of the stop phase. None before terminate, unless the
    /// orchestrator's clock runs.
    pub left: Option<Duration>,
    /// The whole time that `left` is a part of, for a progress bar.
    pub left_of: Option<Duration>,
    /// The oldest jobs, at most `MOST_JOBS_SHOWN`.
    pub jobs: Vec<JobStatus>,
    /// Jobs that are not in `jobs`, with those that are returned at once and do not count as
    /// active.
    pub not_shown: usize,
    /// The types whose jobs are given back again and again, at most `MOST_TYPES_SHOWN`, with the
    /// number of returns.
    pub given_back: Vec<(Text, u32)>,
    /// The queues of the jobs, if holders name them; none: the configured queues.
    pub queues: Option<Vec<Text>>,
    /// Queues that holders asked for but that are not configured.
    pub refused_queues: Vec<Text>,
    /// No concurrency is configured. The snapshot's concurrency is the most that holders asked for
    /// so far, and limits nothing.
    pub is_uncapped: bool,
    /// The most jobs that the worker had and asked for at one time. None before its first request,
    /// and if holders do not ask for jobs.
    pub most_asked: Option<u32>,
    /// The next step, if that is the end.
    pub ending: Option<FinalStep>,
    pub worker: WorkerStatus,
    pub backend: BackendStatus,
}

/// Why the phase is not running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotRunningBecause {
    /// Quiet: a signal, or a request on the control socket.
    Operator,
    /// Quiet: a directive of the backend.
    Server,
    /// Quiet: a preStop hook.
    Prestop,
    /// Terminate.
    End(Reason),
}

/// The next step of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FinalStep {
    /// SIGKILL to all processes; for PID 1 these are all in its namespace.
    Kill,
    /// The exit, with this status.
    Exit(u8),
}

/// One job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobStatus {
    pub subject: Arc<Subject>,
    /// Time since the job was claimed.
    pub age: Duration,
    pub place: JobPlace,
    /// The job was cancelled, or its reservation is lost.
    pub is_cancelled: bool,
    /// Time until ojs-init ends the job's process, unless the handler answers. Set if the job's
    /// timeout expired, or if an operator cancelled it.
    pub ends_in: Option<Duration>,
    /// The last progress from the job's handler, and how long ago that was.
    pub progress: Option<(Progress, Duration)>,
    pub activity: JobActivity,
    /// The process of the holder; none if it is unknown, or if no holder has the job.
    pub process: Option<ProcessId>,
    /// Time since a holder got the job.
    pub held_for: Option<Duration>,
    /// Time until the job's own timeout.
    pub times_out_in: Option<Duration>,
}

/// The activity of a job, or what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobActivity {
    /// Waits in the buffer of ojs-init for a handler.
    WaitsForHandler,
    /// Was delivered again. Waits until the backend shows what an earlier outcome did.
    WaitsForLook,
    /// May have crashed its process before. Waits until it can run alone.
    WaitsForTurn,
    Runs,
    /// Its timeout is over, and ojs-init ends no process for that.
    RunsPastTimeout,
    /// Its handler is told to stop.
    Stops(CancelReason),
    /// No heartbeat of the worker names it.
    IsDropped,
    /// Its outcome is on its way to the backend.
    Reports(JobEnd),
    /// Was given back, and is held before the requeue is sent.
    GoesBack,
}

/// The jobs for an operator.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobList {
    /// The oldest jobs, at most `MOST_JOBS_LISTED`.
    pub jobs: Vec<JobStatus>,
    /// Jobs that are not in `jobs`.
    pub not_shown: usize,
}

/// The place of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobPlace {
    /// In the buffer of ojs-init.
    Waiting,
    /// Held by the worker, on this holder.
    Held(HolderId),
    /// The job's outcome is in flight, or waits to be sent.
    Reporting,
    /// The job was given back. ojs-init holds it before the requeue is sent.
    GoesBack,
}

/// The worker's process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WorkerStatus {
    /// The process; none while the worker does not run.
    pub process: Option<ProcessId>,
    /// Time since the process started, or since its start was due.
    pub up: Duration,
    /// How the last process ended.
    pub ended: Option<Ended>,
    /// Restarts within the last 10 minutes.
    pub restarts: usize,
    /// Why the worker is being recycled, and since when. None otherwise.
    pub recycling: Option<(RecycleReason, Duration)>,
    /// Time until the next start, if one is due.
    pub starts_in: Option<Duration>,
    /// Number of holders.
    pub holders: usize,
    /// The holders with the most jobs, at most `MOST_HOLDERS_SHOWN`, the most loaded first.
    pub most_loaded: Vec<HolderStatus>,
}

/// One holder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HolderStatus {
    pub holder: HolderId,
    /// The holder's process; none if it is unknown which of the worker's processes that is.
    pub process: Option<ProcessId>,
    /// Jobs of the holder, with cancelled and lost ones that it has not answered yet.
    pub jobs: usize,
    /// Most jobs that the holder accepts at a time. None if it has not sent ready: a holder that
    /// sends requests for jobs does not.
    pub concurrency: Option<u32>,
    pub state: HolderState,
}

/// Whether a holder accepts jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HolderState {
    /// The holder has sent neither ready nor a request for jobs.
    NotReady,
    /// The holder accepts jobs, or sends requests for jobs.
    Ready,
    /// The holder's request for jobs waits for the answer.
    Asking,
    /// The holder sent ready with a concurrency of 0.
    Paused,
    /// The holder's process is reserved for one job that may have crashed a process before. It gets
    /// no other job.
    Alone,
    /// The holder gets no more jobs. ojs-init closes it or ends its process.
    GivenUp,
    /// The holder is closed, and its jobs wait for the end of its process.
    Closed,
}

/// The state of the link to the backend.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BackendStatus {
    /// The worker's name at the backend.
    pub worker: Option<WorkerId>,
    /// Time since the backend last accepted a heartbeat.
    pub heartbeat_age: Option<Duration>,
    /// The last request got no answer.
    pub is_unreachable: bool,
    /// Why the backend does not work, if so.
    pub trouble: Option<Trouble>,
    /// Requests in flight.
    pub requests: usize,
}
