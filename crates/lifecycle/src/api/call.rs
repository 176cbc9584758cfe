//! Requests to the backend, and what comes back.

use std::time::Duration;

use crate::api::forms::{Farewell, FetchForm, HeartbeatForm};
use crate::api::frames::Progress;
use crate::api::ids::{Claim, JobId, Text, WorkerId};
use crate::api::job::{Delivery, JobView};
use crate::api::outcome::Outcome;
use crate::api::stream::StreamTopic;
use crate::api::words::WorkerState;

/// A request to the backend. Each names the worker on whose behalf it is made.
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
        /// By how much, from now.
        visibility: Duration,
        takes: Takes,
        form: HeartbeatForm,
    },
    /// Worker protocol 6.2.
    Fetch {
        worker: WorkerId,
        /// Most jobs to bring, at least 1.
        count: u32,
        /// From these queues; none: from those that are configured.
        queues: Option<Vec<Text>>,
        /// How long they shall be reserved, from now.
        visibility: Duration,
        form: FetchForm,
    },
    /// The outcome of a job: an ACK, a FAIL, or a requeue.
    Report {
        worker: WorkerId,
        job: JobId,
        outcome: Outcome,
        /// In the form of the bare schema: the backend refused the full one (requirements C-05,
        /// C-24).
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
    /// Tell us what happens. Unlike any other request it goes on once it is answered: the answer is
    /// `StreamSaid` with `Opened`, and what comes as its reply is its end.
    Listen { topic: StreamTopic },
    /// Worker protocol 3.4.
    Deregister { worker: WorkerId, way: Farewell },
}

/// Which jobs a worker takes, and how many, as the backend is told it. What is none is as it was
/// configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Takes {
    /// From these queues.
    pub queues: Option<Vec<Text>>,
    /// So many at once.
    pub concurrency: Option<u32>,
}

/// The reply to a request, or its failure.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reply {
    /// The registration was accepted; an interval is recommended.
    Registered {
        /// Time between heartbeats that the backend recommends.
        heartbeat_interval: Option<Duration>,
        /// A third of its heartbeat timeout or of its visibility timeout, whichever is less: more
        /// must not be between two heartbeats, whatever anybody wants.
        longest_interval: Option<Duration>,
    },
    HeartbeatOk {
        /// The severest of what `state` and `directive` said (requirements C-09).
        directive: Option<Directive>,
        /// The jobs whose reservations were extended, where the backend says so.
        extended: Option<Vec<JobId>>,
    },
    /// The jobs that the FETCH brought, perhaps none.
    Fetched(Vec<Delivery>),
    /// The backend did what was asked.
    Accepted,
    /// A look at a job.
    JobSeen(JobView),
    Manifest(BackendTraits),
    /// The backend did not do it, or nobody knows.
    Failed(Failure),
}

impl Reply {
    /// Why it is not what was asked for. The answer to something else is none.
    #[must_use]
    pub fn failure(&self) -> Failure {
        if let Self::Failed(failure) = self {
            *failure
        } else {
            Failure::Unanswered
        }
    }
}

/// The differences of a kind of backend, as its manifest has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct BackendTraits {
    /// A requeue of a job whose attempts are used up discards it.
    pub discards_requeues: bool,
    /// A heartbeat's visibility timeout counts from the job's start, not from now.
    pub extends_from_start: bool,
}

/// The state that the backend asks a worker for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Directive {
    /// Be running. Backends that know nothing better say it in every reply.
    Run,
    /// Take no new jobs.
    Quiet,
    /// Finish and go.
    Terminate,
}

/// Why a request was not, or may not have been, carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The request never arrived, because there was no connection. It was not carried out.
    NotSent,
    /// We ourselves had no room for it: certainly not sent, and nothing is said about the backend.
    /// Of a stream: it told more than we listen to.
    Overloaded,
    /// We ourselves have no token for it at the moment: certainly not sent, and nothing is said
    /// about the backend.
    NoCredentials,
    /// The request was sent, and no clear answer came. It may have been carried out.
    Unanswered,
    /// The answer is that something went wrong there (500, 502 and the like): it may have been
    /// carried out.
    ServerError,
    /// The backend has not done it and may do it later (429, 503).
    RetryLater { retry_after: Option<Duration> },
    /// The backend redirects (301, 307, 308 and the like), and no redirect is followed. The request
    /// was not carried out.
    Redirected,
    /// The backend does not accept our credentials (401, 403).
    Unauthorized,
    /// The backend does not do such a thing (404, 405, 501 on the path itself).
    Unsupported,
    /// Somebody in between answered, and not the backend: not done, as far as can be told, and it
    /// may be done later.
    NotFromBackend,
    /// The backend does not know us any more: register again.
    Unregistered,
    /// The backend says that there is no such job (404, 410). That is also what some say while
    /// their store is away.
    NotFound,
    /// The job is not active, or no longer ours (409).
    Lost,
    /// The job is not active, and the answer to the ACK does not say whether that is because it is
    /// completed (409).
    Conflict {
        /// The request went out twice: a kept connection was closed under the first one, which may
        /// have got through.
        was_sent_twice: bool,
    },
    /// The job is completed already (409): what an ACK wanted is so, by whomever.
    AlreadyCompleted,
    /// The backend will never accept this request (400, 413, 415, 422).
    Refused,
}

/// The classes of failures, by what they mean for another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureClass {
    /// No connection, no answer, or one of somebody who stands in for the backend or of what is
    /// broken behind it: over when the backend is back.
    Outage,
    /// Not done, and not because of what was asked: it may be done later.
    NotNow,
    /// The backend has spoken: the same request is answered the same again.
    Verdict,
}

impl Failure {
    /// The class of the failure.
    #[must_use]
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

    /// Nothing of the request can have got through.
    #[must_use]
    pub fn was_never_sent(self) -> bool {
        matches!(self, Self::NotSent | Self::Overloaded | Self::NoCredentials)
    }

    /// Whether the same request may be answered differently later.
    #[must_use]
    pub fn may_pass(self) -> bool {
        match self.class() {
            FailureClass::Outage | FailureClass::NotNow => true,
            FailureClass::Verdict => false,
        }
    }
}

/// The purpose of a request about one job: where its answer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobRequest {
    /// Reports the outcome of the job.
    Report(Claim),
    /// Looks at the job before its outcome is reported once more.
    LookBeforeRepeat(Claim),
    /// Looks at a delivery that came while an earlier outcome was on its way.
    LookAgain(Claim),
    /// Looks at a job that a heartbeat did not extend.
    CheckUnextended(Claim),
    /// Passes progress on.
    Progress(Claim),
    /// Saves a checkpoint.
    Checkpoint(Claim),
}
