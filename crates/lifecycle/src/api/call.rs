//! Requests to the backend, and their replies.

use std::time::Duration;

use crate::api::forms::{Farewell, FetchForm, HeartbeatForm};
use crate::api::frames::Progress;
use crate::api::ids::{Claim, JobId, Text, WorkerId};
use crate::api::job::{Delivery, JobView};
use crate::api::outcome::Outcome;
use crate::api::stream::StreamTopic;
use crate::api::words::WorkerState;

/// A request to the backend. Each names the worker that it is sent for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Call {
    /// Worker protocol 3.1.
    Register { worker: WorkerId, takes: Takes },
    /// Worker protocol 4.2.
    Heartbeat {
        worker: WorkerId,
        state: WorkerState,
        /// The jobs whose reservations to extend.
        active: Vec<JobId>,
        /// The length of the extension, counted from now.
        visibility: Duration,
        takes: Takes,
        form: HeartbeatForm,
    },
    /// Worker protocol 6.2.
    Fetch {
        worker: WorkerId,
        /// Most jobs to return, at least 1.
        count: u32,
        /// The queues to fetch from; none: the configured queues.
        queues: Option<Vec<Text>>,
        /// How long the jobs shall be reserved, counted from now.
        visibility: Duration,
        form: FetchForm,
    },
    /// The outcome of a job: an ACK, a FAIL, or a requeue.
    Report {
        worker: WorkerId,
        job: JobId,
        outcome: Outcome,
        /// The report has the form of the bare schema because the backend refused the full one
        /// (requirements C-05, C-24).
        is_bare: bool,
    },
    /// Asks for the state of a job.
    GetJob { job: JobId },
    /// Progress extension 5.
    Progress { job: JobId, progress: Progress },
    /// Durable execution extension 4.
    Checkpoint {
        job: JobId,
        /// The checkpoint.
        state: Text,
    },
    /// Asks for the kind of the backend (HTTP binding 21).
    Manifest,
    /// Opens a stream of events. It lasts beyond its first answer, unlike any other request. That
    /// answer is `StreamSaid` with `Opened`. `BackendReplied` reports the end of the stream.
    Listen { topic: StreamTopic },
    /// Worker protocol 3.4.
    Deregister { worker: WorkerId, way: Farewell },
}

/// Which jobs a worker accepts, and how many, as reported to the backend. None means the configured
/// value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Takes {
    /// The queues of the jobs.
    pub queues: Option<Vec<Text>>,
    /// Most jobs at once.
    pub concurrency: Option<u32>,
}

/// The reply to a request, or its failure.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reply {
    /// The backend accepted the registration and may recommend an interval.
    Registered {
        /// Time between heartbeats that the backend recommends.
        heartbeat_interval: Option<Duration>,
        /// Longest time between two heartbeats, whatever else is recommended or configured. A third
        /// of the backend's heartbeat timeout or of its visibility timeout, whichever is less.
        longest_interval: Option<Duration>,
    },
    HeartbeatOk {
        /// The severest directive of the fields `state` and `directive` (requirements C-09).
        directive: Option<Directive>,
        /// The jobs whose reservations the backend extended, if it reports them.
        extended: Option<Vec<JobId>>,
    },
    /// The jobs that the FETCH returned, perhaps none.
    Fetched(Vec<Delivery>),
    /// The backend carried out the request.
    Accepted,
    /// The state of a job.
    JobSeen(JobView),
    Manifest(BackendTraits),
    /// The backend did not carry out the request, or its result is unknown.
    Failed(Failure),
}

impl Reply {
    /// The failure of the request; none if the backend carried it out.
    pub fn failed(&self) -> Option<Failure> {
        match self {
            Self::Failed(failure) => Some(*failure),
            Self::Registered { .. }
            | Self::HeartbeatOk { .. }
            | Self::Fetched(_)
            | Self::Accepted
            | Self::JobSeen(_)
            | Self::Manifest(_) => None,
        }
    }

    /// The failure of the request. A reply to another kind of request counts as no reply.
    pub fn failure(&self) -> Failure {
        self.failed().unwrap_or(Failure::Unanswered)
    }
}

/// The properties of a kind of backend, from its manifest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct BackendTraits {
    /// A requeue of a job without attempts left discards the job.
    pub discards_requeues: bool,
    /// A heartbeat's visibility timeout counts from the job's start, not from now.
    pub extends_from_start: bool,
}

/// The state that the backend directs a worker to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Directive {
    /// Run. Some backends send it in every reply.
    Run,
    /// Accept no new jobs.
    Quiet,
    /// Finish the jobs and exit.
    Terminate,
}

/// Why a request was not, or may not have been, carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The request was not sent because there was no connection. It was not carried out.
    NotSent,
    /// ojs-init had no room for the request. It was not sent, and the failure shows nothing about
    /// the backend. For a stream: it sent more events than ojs-init reads.
    Overloaded,
    /// ojs-init has no token for the request at the moment. It was not sent, and the failure shows
    /// nothing about the backend.
    NoCredentials,
    /// The request was sent, and no clear answer arrived. It may have been carried out.
    Unanswered,
    /// The server answered with an error of its own (500, 502 and the like). The request may have
    /// been carried out.
    ServerError,
    /// The backend did not carry out the request and may do so later (429, 503 in its own words).
    RetryLater { retry_after: Option<Duration> },
    /// The backend redirects (301, 307, 308 and the like). ojs-init follows no redirect. The
    /// request was not carried out.
    Redirected,
    /// The backend does not accept the worker's credentials (401, 403).
    Unauthorized,
    /// The backend does not support the request (404, 405, 501 on the path itself).
    Unsupported,
    /// Another server answered, not the backend. The request was most probably not carried out, and
    /// it may be later.
    NotFromBackend,
    /// The backend does not know the worker any more. The worker has to register again.
    Unregistered,
    /// The backend does not know the job (404, 410). Some backends answer so while their store is
    /// down.
    NotFound,
    /// The job is not active, or this worker does not hold it any more (409).
    Lost,
    /// The job is not active. The answer to the ACK does not show whether the job is completed
    /// (409).
    Conflict {
        /// The request was sent twice, because a kept connection was closed under the first copy.
        /// That copy may have reached the backend.
        was_sent_twice: bool,
    },
    /// The job is completed already (409), by this worker or another. That is the state that an ACK
    /// asks for.
    AlreadyCompleted,
    /// The backend will never accept this request (400, 413, 415, 422).
    Refused,
}

/// The classes of failures, by their meaning for another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureClass {
    /// There was no connection, no answer, or an answer of another or broken server. The outage
    /// ends once the backend is back.
    Outage,
    /// The request was not carried out, but the request is not the reason. It may be carried out
    /// later.
    NotNow,
    /// The backend has decided. A repeated request gets an equal answer.
    Verdict,
}

impl Failure {
    /// The class of the failure.
    pub fn class(self) -> FailureClass {
        match self {
            Self::NotSent | Self::Unanswered | Self::ServerError | Self::NotFromBackend => FailureClass::Outage,
            Self::Overloaded
            | Self::NoCredentials
            | Self::RetryLater { .. }
            | Self::Redirected
            | Self::Unauthorized => FailureClass::NotNow,
            Self::Unsupported
            | Self::Unregistered
            | Self::NotFound
            | Self::Lost
            | Self::Conflict { .. }
            | Self::AlreadyCompleted
            | Self::Refused => FailureClass::Verdict,
        }
    }

    /// Whether no part of the request can have reached the backend.
    pub fn was_never_sent(self) -> bool {
        matches!(self, Self::NotSent | Self::Overloaded | Self::NoCredentials)
    }

    /// Whether a repeated request may get another answer later.
    pub fn may_pass(self) -> bool {
        match self.class() {
            FailureClass::Outage | FailureClass::NotNow => true,
            FailureClass::Verdict => false,
        }
    }
}

/// The purpose of a request about one job, which selects the handler of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobRequest {
    /// Reports the outcome of the job.
    Report(Claim),
    /// Checks the job before its outcome is reported again.
    LookBeforeRepeat(Claim),
    /// Checks a delivery that arrived while an earlier outcome was in flight.
    LookAgain(Claim),
    /// Checks a job that a heartbeat did not extend.
    CheckUnextended(Claim),
    /// Sends a handler's progress to the backend.
    Progress(Claim),
    /// Saves a checkpoint.
    Checkpoint(Claim),
}
