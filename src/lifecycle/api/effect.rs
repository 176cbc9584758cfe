//! Orders, in the imperative. Everything that the machine can ask of the shell.

use std::sync::Arc;
use std::time::Duration;

use crate::lifecycle::api::answer::{Answer, Shown};
use crate::lifecycle::api::event::{ErrorCode, Failure, JobError, Progress, Subject};
pub use crate::lifecycle::api::forms::{Farewell, FetchForm, HeartbeatForm};
use crate::lifecycle::api::ids::{CallId, ClientId, ConnectionId, JobId, ProcessId, Text, WorkerId};
use crate::lifecycle::api::time::Moment;
use crate::lifecycle::backend::outage::Outage;
use crate::lifecycle::shutdown::end_report::{Account, Manner, StillThere, WorkerEnd};
use crate::lifecycle::shutdown::force::Force;
use crate::lifecycle::worker::capacity::CapacityNews;
use crate::lifecycle::worker::end_cause::EndCause;
use crate::signal::Signal;

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Start the worker; answer with `WorkerStarted` or `WorkerNotStarted`.
    StartWorker,
    /// Signal the worker, or its process group with `-g`. Only ever ordered between its start and its end.
    SignalWorker(Signal),
    /// Signal a process with connections.
    SignalProcess(ProcessId, Signal),
    /// SIGTERM and SIGCONT to each descendant that is our child by now and has not had them yet.
    TerminateDescendants,
    /// SIGKILL to each descendant that is our child by now.
    KillDescendants,
    /// SIGKILL to everything else that is ours: all of the namespace for PID 1, else the worker's group and our
    /// descendants.
    KillEverything,
    /// Write a frame to a connection, without waiting.
    Tell(ConnectionId, Word),
    /// The process at the other end is gone: read what it left, then `HungUp`.
    ReadToEnd(ConnectionId),
    /// Close this connection, unread, then `HungUp`; why is for the log. The two sides do not understand each other, or
    /// nobody is expected there.
    Close(ConnectionId, &'static str),
    /// Send a request to the backend, and answer with `BackendReplied` at `give_up` at the latest.
    CallBackend {
        /// Its number.
        id: CallId,
        /// What to ask.
        call: Call,
        /// When we stop waiting.
        give_up: Moment,
    },
    /// Answer a program on the control socket, without waiting.
    Answer(ClientId, Answer),
    /// Show such a program what it asked for, without waiting.
    Show(ClientId, Shown),
    /// Close the connection of such a program: it had its time. Nothing more is told of it.
    DropClient(ClientId),
    /// Tell the person who reads the log.
    Say(Remark),
    /// Write this to the termination log in place of what is there, if there is one.
    WriteTerminationLog(Box<Account>),
    /// End with this status. Nothing follows.
    Exit(u8),
}

/// Bytes of a `job` frame around its envelope and checkpoint; `wire::worker`, which spells it, is held to this number.
pub const JOB_FRAME_BYTES: usize = 35;

/// Longest id of a job that a worker can answer, in bytes; `wire::worker` takes no longer one.
pub const MOST_JOB_ID_BYTES: usize = 1024;

/// A frame to a worker. How it is spelled is the business of `wire::worker`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Word {
    /// The first frame on a connection.
    Hello {
        /// Our name towards the backend.
        worker: WorkerId,
        /// The state that we are in.
        state: WorkerState,
    },
    /// A job to process.
    Job {
        /// The envelope.
        envelope: Text,
        /// Where an earlier attempt wants this one to go on.
        checkpoint: Option<Text>,
    },
    /// The state changed.
    Lifecycle {
        /// To this.
        state: WorkerState,
        /// Because of this.
        reason: Reason,
        /// In terminate: the time until the stop phase.
        remaining: Option<Duration>,
    },
    /// Stop working on a job.
    Cancel {
        /// Which.
        job: JobId,
        /// Why.
        reason: CancelReason,
        /// Time to answer.
        grace: Duration,
    },
    /// The backend accepted it.
    Ok {
        /// The job.
        job: JobId,
        /// What about it.
        about: About,
    },
    /// A frame was refused, by us or by the backend.
    Error {
        /// Why.
        code: ErrorCode,
        /// The same for a person.
        message: Text,
        /// The job that it is about.
        job: Option<JobId>,
    },
    /// Are you there?
    Ping {
        /// Repeated in the pong.
        id: u64,
    },
}

/// The states of the worker protocol 2.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkerState {
    /// Fetching and processing.
    Running,
    /// Processing only.
    Quiet,
    /// Finishing, then gone.
    Terminate,
    /// Gone: said by the very last heartbeat, where `backend.final_state` asks for it (requirements C-04).
    Terminated,
}

/// What made the state change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// SIGTERM.
    Sigterm,
    /// SIGINT.
    Sigint,
    /// SIGQUIT.
    Sigquit,
    /// SIGTSTP.
    Sigtstp,
    /// SIGCONT.
    Sigcont,
    /// The backend said so.
    Server,
    /// The operator said so.
    Control,
    /// A preStop hook ran, or came to nothing.
    Prestop,
    /// The worker ended, or was ended by us, and is not started again.
    #[default]
    Worker,
}

impl Reason {
    /// Its name on the wire and in the log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sigterm => "sigterm",
            Self::Sigint => "sigint",
            Self::Sigquit => "sigquit",
            Self::Sigtstp => "sigtstp",
            Self::Sigcont => "sigcont",
            Self::Server => "server",
            Self::Control | Self::Prestop => "control",
            Self::Worker => "worker",
        }
    }
}

/// Why a job is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CancelReason {
    /// The stop phase began.
    Shutdown,
    /// The job's own timeout is over.
    Timeout,
    /// Somebody cancelled it at the backend.
    Cancelled,
    /// The reservation is lost.
    Lost,
}

/// Which frame of a worker an `ok` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum About {
    /// ack
    Ack,
    /// fail
    Fail,
    /// release
    Release,
    /// progress
    Progress,
    /// checkpoint
    Checkpoint,
}

/// A request to the backend. Each names the worker on whose behalf it is made.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Call {
    /// Worker protocol 3.1.
    Register {
        /// Who.
        worker: WorkerId,
    },
    /// Worker protocol 4.2.
    Heartbeat {
        /// Who.
        worker: WorkerId,
        /// In which state.
        state: WorkerState,
        /// The jobs whose reservations to extend.
        active: Vec<JobId>,
        /// By how much, from now.
        visibility: Duration,
        /// How to spell it.
        form: HeartbeatForm,
    },
    /// Worker protocol 6.2.
    Fetch {
        /// Who.
        worker: WorkerId,
        /// Most jobs to bring, at least 1.
        count: u32,
        /// How long they shall be reserved, from now.
        visibility: Duration,
        /// How to spell it.
        form: FetchForm,
    },
    /// The job is done.
    Ack {
        /// Who.
        worker: WorkerId,
        /// Which.
        job: JobId,
        /// With this result.
        result: Option<Text>,
        /// In the form of the bare schema: the backend refused the full one (requirements C-24).
        is_bare: bool,
    },
    /// The job failed.
    Fail {
        /// Who.
        worker: WorkerId,
        /// Which.
        job: JobId,
        /// How.
        error: JobError,
        /// In the form of the bare schema: the backend refused the full one (requirements C-05).
        is_bare: bool,
    },
    /// The job goes back, unprocessed.
    Requeue {
        /// Who.
        worker: WorkerId,
        /// Which.
        job: JobId,
        /// Why.
        reason: Text,
    },
    /// What is this job's state?
    Look {
        /// Which.
        job: JobId,
    },
    /// Progress extension 5.
    Progress {
        /// Which.
        job: JobId,
        /// How far.
        progress: Progress,
    },
    /// Durable execution extension 4.
    Checkpoint {
        /// Which.
        job: JobId,
        /// What to save.
        state: Text,
    },
    /// What kind of backend is it (HTTP binding 21)?
    Manifest,
    /// Worker protocol 3.4.
    Deregister {
        /// Who.
        worker: WorkerId,
        /// How.
        way: Farewell,
    },
}

/// What is worth a line in the log. The texts are the shell's.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Remark {
    /// The state changed.
    StateChanged {
        /// To this.
        state: WorkerState,
        /// Because of this.
        reason: Reason,
    },
    /// A signal or request changes nothing here, for this reason.
    Stayed {
        /// What it was.
        what: Reason,
        /// Why nothing happens.
        why: &'static str,
    },
    /// A signal that came so soon after a stop signal that it belongs to it.
    SameRequest(Reason, Duration),
    /// The drain began.
    DrainBegan {
        /// Jobs that are active.
        active: usize,
        /// The longest that they get.
        left: Duration,
    },
    /// Still draining (GS-R003).
    Draining {
        /// Jobs that are active.
        active: usize,
        /// The longest that they get from now on.
        left: Duration,
    },
    /// All jobs are done: the worker is asked to end.
    Drained,
    /// The stop phase began.
    StopBegan {
        /// Jobs that workers have not answered.
        held: usize,
        /// What somebody forced it with; else the deadline came.
        forced: Option<Force>,
    },
    /// In the stop phase: no handler gets a cancel grace any more.
    GraceEnded(Force),
    /// A third stop signal, or one that is configured as `exit`.
    EndingAtOnce(Force),
    /// SIGKILL.
    Killing,
    /// Processes are left that got SIGKILL, and nobody waits for them any longer.
    KillGaveUp(StillThere),
    /// The worker ended by itself, or because it was asked to.
    WorkerEnded(WorkerEnd, Manner),
    /// It was ended by us: its own process, or one of its processes with this consequence.
    WorkerWasEnded {
        /// How it ended.
        end: WorkerEnd,
        /// Why we did that.
        cause: EndCause,
    },
    /// It left processes behind: they get this long to end.
    DescendantsLeft(Duration),
    /// It will be started again after this pause.
    RestartIn(Duration),
    /// It ended too often to be started again.
    TooManyRestarts,
    /// No process could be had; trying again.
    StartPostponed,
    /// It has not said ready in time.
    NotReady,
    /// A connection takes jobs from here on.
    ConnectionReady {
        /// Which.
        connection: ConnectionId,
        /// At most this many.
        concurrency: u32,
        /// Its client library.
        client: Option<Text>,
    },
    /// How many jobs the connections take at a time.
    Capacity(CapacityNews),
    /// A process is ended, for this reason.
    EndingProcess {
        /// Which.
        process: ProcessId,
        /// Why.
        cause: EndCause,
        /// Jobs that it holds.
        jobs: usize,
    },
    /// A job was taken from the backend.
    Claimed(Arc<Subject>),
    /// It was given to a worker.
    HandedOver(Arc<Subject>, ConnectionId),
    /// Its outcome was accepted by the backend.
    Settled(Arc<Subject>, Outcome),
    /// Nobody was told about it: it is left to its visibility timeout.
    Abandoned(Arc<Subject>, &'static str),
    /// A delivery of a job came to nothing, for this reason: the outcome of the one before it was on its way when it came.
    /// There is nothing more to tell the backend.
    Void(Arc<Subject>, &'static str),
    /// A job that a worker has was delivered again; the handler goes on with the new reservation.
    Adopted(Arc<Subject>),
    /// A job that waits in our buffer was delivered again: the new delivery waits in its place.
    Replaced(Arc<Subject>),
    /// Its reservation is lost; or it was cancelled, which ends the reservation too.
    ReservationLost(Arc<Subject>, CancelReason),
    /// It was cancelled or lost, for this reason, and its handler has not answered within the grace: it holds a slot of its
    /// connection.
    Unanswered(Arc<Subject>, CancelReason),
    /// The only ACK that we sent found it completed: somebody else did the job as well.
    DoneTwice(Arc<Subject>),
    /// Its own timeout is over.
    TimedOut(Arc<Subject>),
    /// The backend does not take the result; it is sent without.
    ResultDropped(Arc<Subject>),
    /// No connection takes its type.
    NoHandler {
        /// The job.
        job: Arc<Subject>,
        /// How long it waits for one that does; none where it holds the last free credit, and is failed at once.
        waits: Option<Duration>,
    },
    /// A request to the backend failed.
    CallFailed {
        /// Which kind.
        what: &'static str,
        /// About which job, if it is about one.
        job: Option<Arc<Subject>>,
        /// How.
        failure: Failure,
        /// When it is tried again, if it is.
        retry_in: Option<Duration>,
    },
    /// The backend has the registration.
    Registered(WorkerId),
    /// It has no such operation: the first heartbeat introduces us.
    NotRegistered,
    /// The backend takes heartbeats in this form, and not in the one before.
    HeartbeatForm(HeartbeatForm),
    /// An operator has resumed the worker, and the backend still asks for quiet: its word counts.
    QuietStays,
    /// The backend refuses heartbeats in every form. Not said again before it has taken one.
    HeartbeatsRefused,
    /// The backend takes FETCHes in this form, and not in the one of before.
    FetchForm(FetchForm),
    /// The heartbeat interval that was configured is too long for the backend.
    HeartbeatIntervalCut {
        /// What was configured.
        configured: Duration,
        /// What is used.
        used: Duration,
    },
    /// The backend cannot be reached, or does not answer as a backend: the first request that met this has just failed.
    BackendIsAway(Outage),
    /// So it still is. Said once a minute.
    BackendIsStillAway(Outage),
    /// It is there again.
    BackendIsBack(Outage),
    /// It came and went within a minute, and nobody was told each time.
    BackendIsUnsteady {
        /// Requests that failed.
        failed: u32,
    },
    /// A FETCH that was in flight at the end was given up: jobs that it may have claimed wait for their visibility
    /// timeout.
    FetchAbandoned,
    /// A preStop hook ran: the orchestrator's clock runs.
    PrestopRan {
        /// The time to its SIGKILL, where the limit is known.
        left: Option<Duration>,
    },
    /// A preStop hook ran, and no SIGTERM followed within the limit: what it started counts no more.
    PrestopLapsed {
        /// The time to the SIGKILL by the clock of a later hook, which counts from now on, where the limit is known.
        later: Option<Duration>,
    },
    /// How it all ended: the last words.
    Summary(Box<Account>),
}

/// How a job ended, from our point of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// ACK.
    Acked,
    /// FAIL.
    Failed,
    /// Given back.
    Requeued,
}
