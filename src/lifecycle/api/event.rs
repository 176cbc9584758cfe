//! Facts, in the past tense. Everything that the machine can be told.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::exit::Ended;
use crate::lifecycle::api::ids::{CallId, ClientId, ConnectionId, JobId, ProcessId, Text, WorkerId};
use crate::lifecycle::view::health::Probe;
use crate::signal::Signal;

/// Something happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// Somebody sent us this signal; never SIGCHLD.
    SignalArrived(Signal),
    /// A program has connected to the control socket.
    OperatorConnected(ClientId),
    /// It asked for something; it asks again only after its answer.
    OperatorAsked(ClientId, Request),
    /// It is gone, or has closed its connection: whether it ever asked for something does not matter any more.
    OperatorLeft(ClientId),
    /// The worker was started; `worker` is the new incarnation's name.
    WorkerStarted {
        /// Its process.
        process: ProcessId,
        /// Its name.
        worker: WorkerId,
    },
    /// There is no worker.
    WorkerNotStarted(NotStarted),
    /// Since the worker's start the kernel has killed so many processes of this container because memory ran out. Comes
    /// right before the end of a worker that may be one of them.
    MemoryRanOut(u64),
    /// The worker ended and was reaped.
    WorkerEnded(Ended),
    /// Everything that had ended was reaped.
    Reaped {
        /// Whether any child is left, adopted ones included.
        children_left: bool,
    },
    /// A process opened a connection.
    Connected {
        /// The new connection.
        connection: ConnectionId,
        /// Who opened it.
        process: ProcessId,
    },
    /// A frame came in.
    Said(ConnectionId, Said),
    /// Not everything that we wrote to this connection was taken at once; the rest waits in a buffer.
    OutboundFilled(ConnectionId),
    /// Everything that we wrote to this connection was taken. Follows each `OutboundFilled` and each job.
    OutboundEmptied(ConnectionId),
    /// So much waits to be taken from us that nothing is read from this connection. Comes after `OutboundFilled`.
    ReadingStopped(ConnectionId),
    /// It is read from again. Comes before `OutboundEmptied` or right after it.
    ReadingResumed(ConnectionId),
    /// The connection was read to its end, or to the last byte that a process which is gone had written; nothing more
    /// will come, and the shell has closed it.
    HungUp(ConnectionId),
    /// A process with connections is gone: it can do nothing any more, zombie or not.
    ProcessGone(ProcessId),
    /// A request was answered, or will never be.
    BackendReplied(CallId, Reply),
    /// The file with our credentials changed, or may have.
    CredentialsChanged,
}

/// What an operator can ask for. The first four are signals, too, but for the difference that only signals start the
/// orchestrator's clock. Each is answered once, with `Effect::Answer`, or, where it changes nothing, with `Effect::Show`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Request {
    /// As SIGTSTP.
    Quiet,
    /// As SIGCONT.
    Resume,
    /// As SIGTERM, but the orchestrator's clock does not run yet.
    Terminate,
    /// As a second SIGTERM.
    Stop,
    /// The orchestrator's preStop hook runs: quiet, and its clock runs from now.
    Prestop,
    /// Nothing, but the answer comes only when the time is over, or what a drain may take, or when we are about to go.
    Wait {
        /// Also when no job is active.
        until_idle: bool,
        /// The time.
        most: Duration,
    },
    /// Nothing; where we are and what everybody is doing is shown at once.
    Status {
        /// And once more, without being asked, before we end everybody and before we exit.
        until_end: bool,
    },
    /// Nothing; what a probe is told is shown at once.
    Health(Probe),
}

/// Why there is no worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotStarted {
    /// The system has no process for us right now; trying again may help.
    Shortage,
    /// It cannot be started; the exit status says why (126, 127, 70, 2).
    Refused(u8),
}

/// A frame from a worker, understood.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Said {
    /// It takes jobs, on these conditions.
    Ready(Ready),
    /// The job is done.
    Ack {
        /// Which.
        job: JobId,
        /// Its result, as JSON.
        result: Option<Text>,
    },
    /// The job failed.
    Fail {
        /// Which.
        job: JobId,
        /// How.
        error: JobError,
    },
    /// The job was not processed and shall go to somebody else.
    Release {
        /// Which.
        job: JobId,
        /// Why.
        reason: Option<Text>,
    },
    /// How far the job is.
    Progress {
        /// Which.
        job: JobId,
        /// How far.
        progress: Progress,
    },
    /// Where the next attempt shall go on.
    Checkpoint {
        /// Which.
        job: JobId,
        /// What to save, as JSON.
        state: Text,
    },
    /// The handler is alive.
    Heartbeat {
        /// Which.
        job: JobId,
    },
    /// The answer to a ping.
    Pong {
        /// Which ping.
        id: u64,
    },
    /// Nothing that we understand.
    Garbage {
        /// What is wrong with it.
        code: ErrorCode,
        /// The same for a person.
        message: Text,
        /// The job that it is about, if that much could be read.
        job: Option<JobId>,
    },
}

/// The conditions of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ready {
    /// Most jobs at once; 0 is a pause.
    pub concurrency: u32,
    /// The job types that it takes; none: every type.
    pub types: Option<Vec<Text>>,
    /// Whether it answers pings while it holds jobs.
    pub ping: bool,
    /// Name and version of the client library, for the log.
    pub client: Option<Text>,
}

/// How a job failed, in the words of either vocabulary (requirements C-22).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobError {
    /// Short and stable: `handler_error`.
    pub code: Option<Text>,
    /// The error's class: `TimeoutError`.
    pub kind: Option<Text>,
    /// For a person.
    pub message: Text,
    /// Whether another attempt may help.
    pub retryable: bool,
    /// A JSON object.
    pub details: Option<Text>,
    /// A JSON array of strings.
    pub backtrace: Option<Text>,
}

/// How far a job is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Progress {
    /// 0.0 to 1.0, as the worker spelled it.
    pub fraction: Text,
    /// For a person.
    pub message: Option<Text>,
    /// JSON.
    pub data: Option<Text>,
}

/// What is wrong with a frame, or with what it asks for. The names on the wire are in `wire::worker`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorCode {
    /// Not a JSON object on one line.
    NotJson,
    /// A field is missing, or of the wrong type or range.
    InvalidFrame,
    /// Longer than worker.max_frame.
    FrameTooLong,
    /// A type that this version does not know. Not counted as malformed: a newer client may try.
    UnknownType,
    /// Another protocol version than 1.
    UnsupportedProtocol,
    /// The connection does not hold that job (any more).
    NotHeld,
    /// The reservation is lost: the backend gave the job to somebody else, or it was cancelled.
    Lost,
    /// The backend refused what the frame asks for.
    Refused,
    /// The backend does not offer what the frame asks for.
    NotOffered,
    /// The backend could not be reached in time.
    Unavailable,
}

impl ErrorCode {
    /// Whether three of these in a row close the connection: the two sides no longer understand each other.
    #[must_use]
    pub fn is_malformed(self) -> bool {
        match self {
            Self::NotJson | Self::InvalidFrame | Self::FrameTooLong | Self::UnsupportedProtocol => true,
            Self::UnknownType | Self::NotHeld | Self::Lost | Self::Refused | Self::NotOffered | Self::Unavailable => {
                false
            }
        }
    }
}

/// What became of a request to the backend.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reply {
    /// The registration was accepted; an interval is recommended.
    Registered {
        /// Time between heartbeats that the backend recommends.
        heartbeat_interval: Option<Duration>,
        /// A third of its heartbeat timeout or of its visibility timeout, whichever is less: more must not be between
        /// two heartbeats, whatever anybody wants.
        longest_interval: Option<Duration>,
    },
    /// The heartbeat was accepted.
    Beaten {
        /// The severest of what `state` and `directive` said (requirements C-09).
        directive: Option<Directive>,
        /// The jobs whose reservations were extended, where the backend says so.
        extended: Option<Vec<JobId>>,
    },
    /// What the FETCH brought, possibly nothing.
    Fetched(Vec<Delivery>),
    /// The backend did what was asked.
    Accepted,
    /// A look at a job.
    Looked(JobView),
    /// What kind of backend it is.
    Described(Habits),
    /// It did not, or we do not know.
    Failed(Failure),
}

/// What a kind of backend does differently from the others, as its manifest tells us.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Habits {
    /// A requeue of a job whose attempts are used up discards it.
    pub discards_requeues: bool,
    /// A heartbeat's visibility timeout counts from the job's start, not from now.
    pub extends_from_start: bool,
}

/// What the backend wants a worker to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Directive {
    /// Be running. Backends that know nothing better say it in every reply.
    Run,
    /// Take no new jobs.
    Quiet,
    /// Finish and go.
    Terminate,
}

/// A job as a FETCH brought it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Delivery {
    /// What it is.
    pub subject: Arc<Subject>,
    /// The whole envelope on one line, otherwise byte for byte as the backend sent it.
    pub envelope: Text,
    /// Where an earlier attempt wants this one to go on, as JSON.
    pub checkpoint: Option<Text>,
    /// How long the handler may take.
    pub timeout: Option<Duration>,
    /// What tells this reservation from another one of the same job.
    pub reservation: Reservation,
    /// How long the job wants to be reserved (worker protocol 5.3).
    pub visibility: Option<Duration>,
}

/// What a job is, for everybody who speaks of it: the log, metrics, an operator. Nothing of what it is given to work on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject {
    /// Its name.
    pub id: JobId,
    /// What kind of work it is.
    pub kind: Text,
    /// The queue that it came from; empty where the backend does not say.
    pub queue: Text,
    /// The attempt's number as the backend counts.
    pub attempt: Option<u64>,
    /// How many attempts there may be.
    pub max_attempts: Option<u64>,
    /// The W3C trace context that it was enqueued in (`meta.traceparent`), where there is one that can be read.
    pub trace: Option<Trace>,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

/// A W3C trace context: which trace, and which span of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Trace {
    /// 16 bytes; never 0.
    pub trace: u128,
    /// 8 bytes; never 0.
    pub span: u64,
}

/// What tells one reservation of a job from another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Reservation {
    /// The attempt's number as the backend counts: passed through, never computed with (requirements C-27).
    pub attempt: Option<u64>,
    /// When it began, as the backend spelled it.
    pub started_at: Option<Text>,
}

impl Reservation {
    /// Whether these are two reservations, as far as can be told: what one of them does not say tells nothing.
    #[must_use]
    pub fn differs_from(&self, other: &Self) -> bool {
        let attempts = self.attempt.zip(other.attempt);
        let starts = self.started_at.as_ref().zip(other.started_at.as_ref());
        attempts.is_some_and(|(one, two)| one != two) || starts.is_some_and(|(one, two)| one != two)
    }
}

/// A job as the backend shows it to someone who asks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobView {
    /// Its state.
    pub state: JobState,
    /// Who holds it, where the backend shows that.
    pub worker: Option<WorkerId>,
    /// Which reservation it is.
    pub reservation: Reservation,
}

/// What a look at a job can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobState {
    /// Somebody is working on it.
    Active,
    /// It was cancelled.
    Cancelled,
    /// It is done.
    Completed,
    /// It is there, in another state.
    Elsewhere,
    /// The backend knows no such job, or its store is away: it says the same of both.
    Missing,
    /// We may not look (requirements, wire 10 on roles): nothing follows.
    Hidden,
}

/// Why a request was not, or may not have been, carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// It never got there: no connection. It was certainly not carried out.
    NotSent,
    /// We ourselves had no thread or no room for it: certainly not sent, and nothing is said about the backend.
    NoRoom,
    /// We ourselves have no token for it at the moment: certainly not sent, and nothing is said about the backend.
    NoCredentials,
    /// It was sent and no clear answer came: it may have been carried out.
    Unanswered,
    /// The answer is that something went wrong there (500, 502 and the like): it may have been carried out.
    ServerError,
    /// The backend has not done it and may do it later (429, 503).
    Declined {
        /// When to come back.
        retry_after: Option<Duration>,
    },
    /// It was sent somewhere else (301, 307, 308 and the like), and no redirect is followed: not done.
    Redirected,
    /// The backend does not accept our credentials (401, 403).
    Unauthorized,
    /// The backend does not do such a thing (404, 405, 501 on the path itself).
    NotOffered,
    /// Somebody in between answered, and not the backend: not done, as far as can be told, and it may be done later.
    Foreign,
    /// The backend does not know us any more: register again.
    Unregistered,
    /// The backend says that there is no such job (404, 410). That is also what some say while their store is away.
    NotFound,
    /// The job is not active, or no longer ours (409).
    Lost,
    /// The job is not active, and the answer to the ACK does not say whether that is because it is completed (409).
    Conflict {
        /// The request went out twice: a kept connection was closed under the first one, which may have got through.
        was_sent_twice: bool,
    },
    /// The job is completed already (409): what an ACK wanted is so, by whomever.
    AlreadyCompleted,
    /// The backend will never accept this request (400, 413, 422).
    Refused,
}
