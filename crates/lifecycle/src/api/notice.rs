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
use crate::api::outage::Outage;
use crate::api::outcome::{JobEnd, Outcome};
use crate::api::words::{CancelReason, DropCause, Reason, WorkerState};
use crate::api::worker_end::{Manner, StillThere, WorkerEnd};

/// The replacement of event streams that tell nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InPlaceOfDeaf {
    /// The stream of all queues together is tried.
    OtherKind,
    /// The streams of other queues tell of jobs and stay open; the queues of the deaf ones are
    /// polled.
    OtherQueues,
    /// All queues are polled.
    Polls,
}

/// The notices of all parts. The shell has the texts of those that are lines of the log.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Notice {
    /// One of the end.
    Ending(EndingNotice),
    /// One of the link to the backend.
    Link(LinkNotice),
    /// One of the worker.
    Worker(WorkerNotice),
    /// One of the jobs.
    Job(JobNotice),
    /// A request failed: one of the link to the backend, or one about a job.
    CallFailed {
        /// Which kind.
        what: &'static str,
        /// About which job, if it is about one.
        job: Option<Arc<Subject>>,
        failure: Failure,
        /// When it is tried again, if it is.
        retry_in: Option<Duration>,
    },
}

/// The states, the stop signals and the way to the end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EndingNotice {
    /// The state changed.
    StateChanged { state: WorkerState, reason: Reason },
    /// A signal or request changes nothing here, for this reason.
    Stayed { what: Reason, why: &'static str },
    /// A signal that came so soon after a stop signal that it belongs to it.
    SameRequest(Reason, Duration),
    DrainBegan {
        active: usize,
        /// Those of them that nobody works on any more: their outcomes wait for the backend.
        reporting: usize,
        /// The longest that they get.
        left: Duration,
    },
    /// Still draining (GS-R003).
    Draining {
        active: usize,
        /// Those of them that nobody works on any more: their outcomes wait for the backend.
        reporting: usize,
        /// The longest that they get from now on.
        left: Duration,
    },
    /// All jobs are done: the worker is asked to end.
    Drained,
    /// The stop phase began.
    StopBegan {
        /// Jobs that workers have not answered.
        held: usize,
        /// The request that forced it. None: the deadline came.
        forced: Option<Force>,
    },
    /// In the stop phase: no handler gets a cancel grace any more.
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
    /// Processes are left that got SIGKILL, and nobody waits for them any longer.
    KillGaveUp {
        why: StillThere,
        /// Jobs that these processes may still work on.
        held: usize,
    },
    /// A preStop hook ran: the orchestrator's clock runs.
    PrestopRan {
        /// The time to its SIGKILL, where the limit is known.
        left: Option<Duration>,
    },
    /// A preStop hook ran, and no SIGTERM followed within the limit: what it started counts no
    /// more.
    PrestopLapsed {
        /// The time to the SIGKILL by the clock of a later hook, which counts from now on, where
        /// the limit is known.
        later: Option<Duration>,
    },
    /// How it all ended: the last words.
    Summary(Box<EndReport>),
}

/// The link to the backend, and whether jobs are fetched.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LinkNotice {
    /// A request of this kind hangs, and goes out once more on another connection.
    Hedged(Endpoint),
    /// The backend has the registration.
    Registered(WorkerId),
    /// The backend has no registration. The first heartbeat introduces the worker.
    NotRegistered,
    /// The backend takes heartbeats in this form, and not in the one before.
    HeartbeatForm(HeartbeatForm),
    /// An operator has resumed the worker, and the backend still asks for quiet: its word counts.
    QuietStays,
    /// The backend refuses heartbeats in every form. Not said again before it has taken one.
    HeartbeatsRefused,
    /// The backend takes FETCHes in this form, and not in the one of before.
    FetchForm(FetchForm),
    /// The backend tells of new jobs as they come.
    Listening,
    /// No event stream can be had, so ojs-init only polls. Not repeated until a stream was open.
    NotListening(Failure),
    /// Polls found new jobs that the open streams did not tell of. They are closed.
    StreamsAreDeaf(InPlaceOfDeaf),
    /// A stream told of a job: the next FETCH goes out before the poll would have sent it.
    WokenUp,
    /// The heartbeat interval that was configured is too long for the backend.
    HeartbeatIntervalCut {
        configured: Duration,
        used: Duration,
    },
    /// The backend cannot be reached, or does not answer as a backend: the first request that met
    /// this has just failed.
    BackendIsAway(Outage),
    /// So it still is. Said once a minute.
    BackendIsStillAway(Outage),
    BackendIsBack(Outage),
    /// The backend came and went within a minute, and the log has not told each time.
    BackendIsUnsteady {
        /// Requests that failed.
        failed: u32,
    },
    /// So much of the container's memory is taken that no more jobs are asked for. All in percent
    /// of its limit.
    MemoryGateClosed {
        taken: u8,
        /// Above which the gate closes.
        most: u8,
        reopens_at: u8,
    },
    /// Jobs are asked for again.
    MemoryGateOpened {
        taken: u8,
    },
    /// A FETCH that was in flight at the end was given up: jobs that it may have claimed wait for
    /// their visibility timeout.
    FetchAbandoned,
}

/// The processes of the worker, and the holders in them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WorkerNotice {
    /// SIGKILL to every process that is left.
    Killing {
        /// Jobs that these processes hold.
        held: usize,
    },
    /// The worker ended by itself, or because it was asked to.
    WorkerEnded(WorkerEnd, Manner),
    /// ojs-init ended the worker: its own process, or another one of its processes, after which the
    /// worker ended.
    WorkerWasEnded { end: WorkerEnd, cause: EndCause },
    /// The worker left processes behind, which get this long to end.
    DescendantsLeft(Duration),
    /// The worker will be started again after this pause.
    RestartIn(Duration),
    /// The worker ended too often to be started again.
    TooManyRestarts,
    /// No process could be had; trying again.
    StartPostponed,
    /// Nobody has said ready in time.
    NotReady,
    /// No holder has asked for jobs, where all holders ask for them.
    NothingAskedFor,
    /// A holder takes jobs from here on.
    HolderReady {
        holder: HolderId,
        concurrency: u32,
        /// Its client library.
        client: Option<Text>,
    },
    /// How many jobs the holders take at a time.
    Capacity(CapacityNews),
    /// Holders ask for jobs of these queues, which the configuration does not have.
    QueuesRefused(Vec<Text>),
    /// A process is ended, for this reason.
    EndingProcess {
        process: ProcessId,
        cause: EndCause,
        /// Jobs that it holds.
        jobs: usize,
    },
}

/// The jobs. Their first word is most often the job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum JobNotice {
    /// A process went away while it held these jobs: each of them fails.
    JobsDied { death: Death, jobs: Vec<Arc<Subject>> },
    /// A job was taken from the backend.
    Claimed(Arc<Subject>),
    /// Its process crashed the last time: it is given to a worker, and nothing else to that
    /// process.
    RunsAlone(Arc<Subject>),
    /// The job was given to a worker.
    HandedOver(Arc<Subject>, HolderId),
    /// Its outcome goes to the backend for the first time.
    OutcomeSent {
        job: Arc<Subject>,
        end: JobEnd,
        /// Since it was given to the worker.
        took: Duration,
    },
    /// Its outcome was accepted by the backend.
    Settled {
        job: Arc<Subject>,
        /// The outcome that the backend has.
        outcome: Outcome,
        /// Since it was given to a worker; none where it never was.
        took: Option<Duration>,
    },
    /// The job was given back, as one too many within a minute: of the jobs of its type, or of the
    /// returns of this job.
    GivenBackAgain {
        job: Arc<Subject>,
        /// How many there were.
        times: u32,
        /// Whether jobs of its type are counted.
        is_of_type: bool,
        /// Whether such jobs are held from now on before they go back.
        is_held: bool,
    },
    /// Nobody was told about it: it is left to its visibility timeout.
    Abandoned(Arc<Subject>, &'static str),
    /// A delivery of a job came to nothing, for this reason: the outcome of the one before it was
    /// on its way when it came. There is nothing more to tell the backend.
    Void(Arc<Subject>, &'static str),
    /// A job that a worker has was delivered again; the handler goes on with the new reservation.
    Adopted(Arc<Subject>),
    /// A job that waits in our buffer was delivered again: the new delivery waits in its place.
    Replaced(Arc<Subject>),
    /// Its reservation is lost; or it was cancelled, which ends the reservation too.
    ReservationLost(Arc<Subject>, CancelReason),
    /// The job was cancelled or lost, for this reason, and its handler has not answered within the
    /// grace. The handler holds a slot of its holder.
    Unanswered(Arc<Subject>, CancelReason),
    /// The only ACK that we sent found it completed: somebody else did the job as well.
    DoneTwice(Arc<Subject>),
    /// Its own timeout is over, so long after it was given to a worker.
    TimedOut(Arc<Subject>, Option<Duration>),
    /// The time of the job is over, and no process is ended for it. The job goes on.
    TimeoutPassed(Arc<Subject>, Option<Duration>),
    /// Nothing shows that the holder still has the job. The job is left to its visibility timeout.
    Dropped(Arc<Subject>, DropCause),
    /// A heartbeat of the worker names a dropped job again: its holder has it as before.
    NamedAgain(Arc<Subject>),
    /// The worker's answer cannot be read as a whole, for this reason. It counts without the rest.
    AnswerMended(Arc<Subject>, Text),
    /// The backend does not take the result; it is sent without.
    ResultDropped(Arc<Subject>),
    /// A checkpoint of it is lost: the next attempt begins at the one before. Where the backend
    /// saves none at all, that is said with the first one.
    CheckpointNotSaved(Arc<Subject>, Failure),
    NoHandler {
        job: Arc<Subject>,
        /// How long it waits for one that does; none where it holds the last free credit, and is
        /// failed at once.
        waits: Option<Duration>,
        /// Types that the worker takes; of many some.
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
