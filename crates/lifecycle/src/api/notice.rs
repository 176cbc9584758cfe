//! Notices for the log, for metrics and for tests. No decision depends on them.

use std::sync::Arc;
use std::time::Duration;

use crate::api::call::Failure;
use crate::api::capacity::CapacityNews;
use crate::api::death::Death;
use crate::api::end_cause::EndCause;
use crate::api::end_report::EndReport;
use crate::api::endpoint::Endpoint;
use crate::api::force::Force;
use crate::api::forms::{FetchForm, HeartbeatForm};
use crate::api::ids::{HolderId, ProcessId, Text, WorkerId};
use crate::api::job::Subject;
use crate::api::outcome::{JobEnd, Outcome};
use crate::api::recycle::RecycleReason;
use crate::api::trouble::Trouble;
use crate::api::words::{CancelReason, DropCause, Reason, WorkerState};
use crate::api::worker_end::{Manner, StillThere, WorkerEnd};

/// The replacement of deaf event streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InPlaceOfDeaf {
    /// ojs-init tries the stream of all queues together.
    OtherKind,
    /// The streams of other queues report jobs and stay open. ojs-init polls the queues of the deaf
    /// ones.
    OtherQueues,
    /// ojs-init polls all queues.
    Polls,
}

/// The notices of all parts. The shell has the texts of those that are log lines.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Notice {
    /// A notice of the end.
    Ending(EndingNotice),
    /// A notice of the link to the backend.
    Link(LinkNotice),
    /// A notice of the worker.
    Worker(WorkerNotice),
    /// A notice of the jobs.
    Job(JobNotice),
    /// A request to the backend failed, about a job or not.
    CallFailed {
        /// The kind of the request.
        what: &'static str,
        /// The job of the request, if it is about one.
        job: Option<Arc<Subject>>,
        failure: Failure,
        /// The pause until the retry, if there is one.
        retry_in: Option<Duration>,
    },
}

/// The states, the stop signals and the course of the end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EndingNotice {
    /// The state changed.
    StateChanged { state: WorkerState, reason: Reason },
    /// A signal or request changes nothing, for this reason.
    Stayed { what: Reason, why: &'static str },
    /// A signal arrived so soon after a stop signal that both count as one request.
    SameRequest(Reason, Duration),
    DrainBegan {
        active: usize,
        /// Jobs that no handler works on any more. Their outcomes wait for the backend.
        reporting: usize,
        /// The longest drain.
        left: Duration,
    },
    /// Still draining (GS-R003).
    Draining {
        active: usize,
        /// Jobs that no handler works on any more. Their outcomes wait for the backend.
        reporting: usize,
        /// The longest remaining drain.
        left: Duration,
    },
    /// All jobs are done. ojs-init asks the worker to end.
    Drained,
    /// The stop phase began.
    StopBegan {
        /// Jobs that workers have not answered.
        held: usize,
        /// The request that forced the stop phase. None: the deadline passed.
        forced: Option<Force>,
    },
    /// In the stop phase: handlers get no further cancel grace.
    GraceEnded {
        by: Force,
        /// Jobs that are not finished.
        active: usize,
    },
    /// A third stop signal, or one that is configured as `exit`.
    EndingAtOnce {
        by: Force,
        /// Jobs that are not finished.
        active: usize,
    },
    /// ojs-init stops waiting for processes that got SIGKILL and have not ended.
    KillGaveUp {
        why: StillThere,
        /// Jobs that these processes may still work on.
        held: usize,
    },
    /// A preStop hook ran: the orchestrator's clock runs.
    PrestopRan {
        /// The time to the orchestrator's SIGKILL, if the limit is known.
        left: Option<Duration>,
    },
    /// A preStop hook ran, and no SIGTERM followed within the limit. The clock that it started does
    /// not count any more.
    PrestopLapsed {
        /// The time to the SIGKILL by the clock of a later hook, which counts from now on. None if
        /// there is no such clock or the limit is unknown.
        later: Option<Duration>,
    },
    /// The report about the whole end.
    Summary(Box<EndReport>),
}

/// The link to the backend, and whether ojs-init fetches jobs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LinkNotice {
    /// A request of this kind hangs. ojs-init sends it again on another connection.
    Hedged(Endpoint),
    /// The backend accepted the registration.
    Registered(WorkerId),
    /// The backend has no registration. The first heartbeat introduces the worker.
    NotRegistered,
    /// The backend accepts heartbeats in this form, and not in the previous one.
    HeartbeatForm(HeartbeatForm),
    /// An operator has resumed the worker, but the backend still asks for quiet. The worker stays
    /// quiet.
    QuietStays,
    /// The backend refuses heartbeats in every form. Not repeated until it has accepted one.
    HeartbeatsRefused,
    /// The backend accepts FETCHes in this form, and not in the previous one.
    FetchForm(FetchForm),
    /// The backend reports new jobs on event streams.
    Listening,
    /// No event stream is available, so ojs-init only polls. Not repeated until a stream was open.
    NotListening(Failure),
    /// Polls found new jobs that the open streams did not report. ojs-init closes these streams.
    StreamsAreDeaf(InPlaceOfDeaf),
    /// A stream reported a job. The next FETCH is sent before the poll would have sent it.
    WokenUp,
    /// The configured heartbeat interval is too long for the backend.
    HeartbeatIntervalCut {
        configured: Duration,
        used: Duration,
    },
    /// The backend is unreachable, answers with server errors, or another server answers in its
    /// place. The first request that shows this has just failed.
    BackendIsAway(Trouble),
    /// The outage continues. Repeated once a minute.
    BackendIsStillAway(Trouble),
    BackendIsBack(Trouble),
    /// The backend was unreachable several times within a minute, and not each time was logged.
    BackendIsUnsteady {
        /// Requests that failed.
        failed: u32,
    },
    /// The container uses so much of its memory that ojs-init asks for no more jobs. All values are
    /// in percent of the limit.
    MemoryGateClosed {
        taken: u8,
        /// The gate closes above this value.
        most: u8,
        reopens_at: u8,
    },
    /// ojs-init asks for jobs again.
    MemoryGateOpened {
        taken: u8,
    },
    /// ojs-init gave up a FETCH that was in flight at the end. Jobs that it may have claimed wait
    /// for their visibility timeout.
    FetchAbandoned,
}

/// The processes of the worker, and the holders in them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WorkerNotice {
    /// ojs-init sends SIGKILL to every process that is left.
    Killing {
        /// Jobs that these processes hold.
        held: usize,
    },
    /// The worker ended by itself, or because ojs-init asked it to.
    WorkerEnded(WorkerEnd, Manner),
    /// ojs-init ended the worker. Either it ended the worker's own process, or the worker ended
    /// after ojs-init had ended another of its processes.
    WorkerWasEnded { end: WorkerEnd, cause: EndCause },
    /// The worker left processes behind, which have this long to end.
    DescendantsLeft(Duration),
    /// ojs-init recycles the worker, for this reason. New jobs go to the next one.
    Recycling {
        reason: RecycleReason,
        /// Jobs that the worker has.
        held: usize,
        /// The longest time for these jobs.
        grace: Duration,
    },
    /// The next worker process ended before it was ready. The old one goes on, and ojs-init tries
    /// again after this pause.
    NextNotReady(Duration),
    /// The next worker is ready, so long after the recycling began.
    Recycled { reason: RecycleReason, took: Duration },
    /// ojs-init will restart the worker after this pause.
    RestartIn(Duration),
    /// The worker ended too often. ojs-init does not restart it.
    TooManyRestarts,
    /// The system could not create a process. ojs-init will try again.
    StartPostponed,
    /// No holder has sent ready in time.
    NotReady,
    /// No holder has asked for jobs, although all holders have to.
    NothingAskedFor,
    /// A holder accepts jobs from now on.
    HolderReady {
        holder: HolderId,
        concurrency: u32,
        /// Its client library.
        client: Option<Text>,
    },
    /// A change in how many jobs the holders accept at a time.
    Capacity(CapacityNews),
    /// Holders ask for jobs of these queues, which are not configured.
    QueuesRefused(Vec<Text>),
    /// ojs-init ends a process, for this reason.
    EndingProcess {
        process: ProcessId,
        cause: EndCause,
        /// Jobs that the process holds.
        jobs: usize,
    },
}

/// The jobs. Most of these log lines begin with the job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum JobNotice {
    /// A process ended while it held these jobs. Each of them fails.
    JobsDied { death: Death, jobs: Vec<Arc<Subject>> },
    /// A FETCH returned a job.
    Claimed(Arc<Subject>),
    /// The job's process crashed the last time. ojs-init gives the job to a process of the worker,
    /// and that process gets no other job.
    RunsAlone(Arc<Subject>),
    /// ojs-init gave the job to a worker.
    HandedOver(Arc<Subject>, HolderId),
    /// The job's outcome is sent to the backend for the first time.
    OutcomeSent {
        job: Arc<Subject>,
        end: JobEnd,
        /// Time since the job was given to the worker.
        took: Duration,
    },
    /// The backend accepted the job's outcome.
    Settled {
        job: Arc<Subject>,
        /// The accepted outcome.
        outcome: Outcome,
        /// Time since the job was given to a worker; none if it never was.
        took: Option<Duration>,
    },
    /// The job was given back, as one return too many within a minute. Counted are either the
    /// returns of jobs of its type or the returns of this job.
    GivenBackAgain {
        job: Arc<Subject>,
        /// The number of returns.
        times: u32,
        /// Whether the returns of jobs of the type are counted.
        is_of_type: bool,
        /// Whether ojs-init holds such jobs from now on before it returns them.
        is_held: bool,
    },
    /// The backend accepted no report about the job, as far as ojs-init knows. The job waits for
    /// its visibility timeout, unless a report without an answer was carried out.
    Abandoned(Arc<Subject>, &'static str),
    /// A delivery of a job was void, for this reason: it arrived while the outcome of the delivery
    /// before it was in flight. The backend needs no further report.
    Void(Arc<Subject>, &'static str),
    /// A job that a worker holds was delivered again. The handler continues with the new
    /// reservation.
    Adopted(Arc<Subject>),
    /// A job in the buffer of ojs-init was delivered again. The new delivery replaces it.
    Replaced(Arc<Subject>),
    /// The job's reservation is lost, or the job was cancelled, which ends the reservation too.
    ReservationLost(Arc<Subject>, CancelReason),
    /// The job was cancelled or lost, for this reason, and its handler has not answered within the
    /// grace. The handler occupies a slot of its holder.
    Unanswered(Arc<Subject>, CancelReason),
    /// The backend answered the only ACK that the job was completed already. Another worker did the
    /// job as well.
    DoneTwice(Arc<Subject>),
    /// An operator cancelled the job. Its handler, if it has one, is told to stop.
    CancelledByOperator { job: Arc<Subject>, has_handler: bool },
    /// The job's own timeout expired, this long after the job was given to a worker.
    TimedOut(Arc<Subject>, Option<Duration>),
    /// The job's timeout expired, but ojs-init ends no process for it. The job continues.
    TimeoutPassed(Arc<Subject>, Option<Duration>),
    /// No sign shows that the holder still has the job. The job waits for its visibility timeout.
    Dropped(Arc<Subject>, DropCause),
    /// A heartbeat of the worker names a dropped job again. Its holder has it as before.
    NamedAgain(Arc<Subject>),
    /// The worker's answer cannot be read as a whole, for this reason. It counts without the
    /// unreadable rest.
    AnswerMended(Arc<Subject>, Text),
    /// The backend does not accept the result. ojs-init sends the ACK without it.
    ResultDropped(Arc<Subject>),
    /// A checkpoint of the job was not saved, or its request got no clear answer. If it was not
    /// saved, the next attempt begins at the one before. If the backend saves no checkpoints at
    /// all, such a notice covers those that ojs-init does not send for a while.
    CheckpointNotSaved(Arc<Subject>, Failure),
    /// The job with its checkpoint is longer than the longest frame. A new checkpoint is not saved.
    /// One that is saved is left out, and the worker gets the job without it.
    CheckpointTooLarge { job: Arc<Subject>, is_saved: bool },
    NoHandler {
        job: Arc<Subject>,
        /// How long the job waits for a holder that accepts its type. None if it holds the last
        /// free credit and fails at once.
        waits: Option<Duration>,
        /// Types that the worker accepts; some of them if there are many.
        taken: Vec<Text>,
    },
}

impl From<EndingNotice> for Notice {
    fn from(notice: EndingNotice) -> Self {
        Self::Ending(notice)
    }
}

impl From<LinkNotice> for Notice {
    fn from(notice: LinkNotice) -> Self {
        Self::Link(notice)
    }
}

impl From<WorkerNotice> for Notice {
    fn from(notice: WorkerNotice) -> Self {
        Self::Worker(notice)
    }
}

impl From<JobNotice> for Notice {
    fn from(notice: JobNotice) -> Self {
        Self::Job(notice)
    }
}
