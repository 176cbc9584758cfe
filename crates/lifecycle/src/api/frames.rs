//! The messages of a worker, and the messages to it (worker socket protocol).

use std::sync::Arc;
use std::time::Duration;

use crate::api::envelope::Envelope;
use crate::api::ids::{HolderId, JobId, PullId, Text, WorkerId};
use crate::api::job::{JobError, Subject};
use crate::api::words::{About, CancelReason, Reason, WorkerState};

/// A parsed frame from a worker.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FromWorker {
    /// The holder accepts jobs, on these conditions.
    Ready(Ready),
    /// The holder asks for jobs and waits for the reply: pulled credit. ojs-init sends one reply,
    /// with jobs or without. The rest of the credit lapses with the reply.
    Wants(Wants),
    /// The client that waited for the reply to this request for jobs has closed its connection. If
    /// the reply was sent already, its jobs are released.
    WantsNoMore {
        pull: PullId,
    },
    Ack {
        job: JobId,
        /// The job's result, as JSON.
        result: Option<Text>,
    },
    Fail {
        job: JobId,
        error: JobError,
    },
    /// The job was not processed and shall go to another worker.
    Release {
        job: JobId,
        reason: Option<Text>,
        /// How long ojs-init holds the job first.
        after: Duration,
    },
    Progress {
        job: JobId,
        progress: Progress,
    },
    /// Where the next attempt shall continue.
    Checkpoint {
        job: JobId,
        /// The checkpoint, as JSON.
        state: Text,
    },
    /// The handler is alive.
    Heartbeat {
        job: JobId,
    },
    /// A heartbeat of the holder with its jobs. ojs-init answers it at once.
    Beats {
        /// The holder's jobs; empty: it has none. `None`: the heartbeat has no list.
        jobs: Option<Vec<JobId>>,
    },
    Pong {
        /// The number of the ping.
        id: u64,
    },
    /// A frame that ojs-init does not understand.
    Garbage {
        code: ErrorCode,
        /// The error, for a person.
        message: Text,
        /// The job that the frame is about, if that could be read.
        job: Option<JobId>,
        /// The answer to that job, as far as it could be read: ack, fail or release.
        answer: Option<Box<Self>>,
    },
}

impl FromWorker {
    /// The job that the frame answers.
    pub fn answers(&self) -> Option<&JobId> {
        match self {
            Self::Ack { job, .. } | Self::Fail { job, .. } | Self::Release { job, .. } => Some(job),
            Self::Ready(_)
            | Self::Wants(_)
            | Self::WantsNoMore { .. }
            | Self::Progress { .. }
            | Self::Checkpoint { .. }
            | Self::Heartbeat { .. }
            | Self::Beats { .. }
            | Self::Pong { .. }
            | Self::Garbage { .. } => None,
        }
    }
}

/// The conditions of a holder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ready {
    /// Most jobs at once; 0 is a pause.
    pub concurrency: u32,
    /// The job types that the holder accepts; none: every type.
    pub types: Option<Vec<Text>>,
    /// Whether the holder answers pings while it holds jobs.
    pub ping: bool,
    /// Whether the holder wants an `ok` once the backend has accepted its answer.
    pub ok: bool,
    /// Whether the holder's process gets SIGURG with each cancel.
    pub cancel_signal: bool,
    /// Name and version of the client library, for the log.
    pub client: Option<Text>,
}

/// A request of a holder for jobs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Wants {
    /// The number of the request.
    pub pull: PullId,
    /// Most jobs.
    pub count: u32,
    /// The queues to fetch from; none: the configured queues.
    pub queues: Option<Vec<Text>>,
    /// The reply is sent within this time. It has no job if none is available.
    pub within: Duration,
}

/// A pull, and the holder whose request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfPull {
    pub pull: PullId,
    pub holder: HolderId,
}

/// A job for a holder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GivenJob {
    /// The job's name, for the shell. The worker gets its id.
    pub subject: Arc<Subject>,
    /// The job as the backend sent it.
    pub envelope: Envelope,
    /// Where an earlier attempt wants this one to continue.
    pub checkpoint: Option<Text>,
}

/// The progress of a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Progress {
    /// 0.0 to 1.0, as the worker spelled it.
    pub fraction: Text,
    /// For a person.
    pub message: Option<Text>,
    /// JSON.
    pub data: Option<Text>,
}

/// Errors of a frame, or of its request. `wire::worker` has their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorCode {
    /// Not a JSON object on one line.
    NotJson,
    /// A field is missing, or of the wrong type or range.
    InvalidFrame,
    /// Longer than `worker.max_frame`.
    FrameTooLong,
    /// A frame type that this version does not know. Does not count as malformed, because a newer
    /// client may try.
    UnknownType,
    /// Another protocol version than 1.
    UnsupportedProtocol,
    /// The holder does not hold that job, or not any more.
    NotHeld,
    /// The reservation is lost: the job was cancelled, or the backend gave it to another worker.
    Lost,
    /// The backend refused the frame's request.
    Refused,
    /// The backend does not offer the frame's request.
    NotOffered,
    /// The backend was unreachable in time.
    Unavailable,
}

impl ErrorCode {
    /// Whether three of these in a row close the connection, because the holder speaks another
    /// protocol.
    pub fn is_malformed(self) -> bool {
        match self {
            Self::NotJson | Self::InvalidFrame | Self::FrameTooLong | Self::UnsupportedProtocol => true,
            Self::UnknownType | Self::NotHeld | Self::Lost | Self::Refused | Self::NotOffered | Self::Unavailable => {
                false
            }
        }
    }
}

/// A frame to a worker. `wire::worker` spells it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ToWorker {
    /// The first frame to a holder.
    Hello {
        /// The worker's name towards the backend.
        worker: WorkerId,
        state: WorkerState,
    },
    Job(GivenJob),
    /// The state changed.
    Lifecycle {
        state: WorkerState,
        reason: Reason,
        /// In terminate: the time until the stop phase.
        remaining: Option<Duration>,
    },
    Cancel {
        job: JobId,
        reason: CancelReason,
        /// Time for the handler to answer.
        grace: Duration,
    },
    /// The backend accepted the answer, or ojs-init alone delivers it from now on.
    Ok {
        job: JobId,
        /// The counting outcome, which is the first of its claim.
        about: About,
        /// Whether the backend has accepted it.
        is_settled: bool,
    },
    /// ojs-init or the backend refused a frame.
    Error {
        code: ErrorCode,
        /// The error, for a person.
        message: Text,
        job: Option<JobId>,
    },
    /// Asks whether the holder is alive.
    Ping {
        /// Repeated in the pong.
        id: u64,
    },
}
