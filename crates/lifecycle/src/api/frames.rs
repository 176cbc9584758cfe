//! The messages of a worker, and the messages to it (worker socket protocol).

use std::time::Duration;

use crate::api::envelope::Envelope;
use crate::api::ids::{JobId, PullId, Text, WorkerId};
use crate::api::job::JobError;
use crate::api::words::{About, CancelReason, Reason, WorkerState};

/// A frame from a worker, understood.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FromWorker {
    /// The holder takes jobs, on these conditions.
    Ready(Ready),
    /// The holder wants jobs, and waits for the reply: pulled credit. It gets one reply, with jobs
    /// or with none. The rest of the credit lapses with the reply.
    Wants(Wants),
    /// The client that waited for the reply to this request for jobs is gone. If the reply was sent
    /// already, its jobs are released.
    WantsNoMore {
        pull: PullId,
    },
    Ack {
        job: JobId,
        /// Its result, as JSON.
        result: Option<Text>,
    },
    Fail {
        job: JobId,
        error: JobError,
    },
    /// The job was not processed and shall go to somebody else.
    Release {
        job: JobId,
        reason: Option<Text>,
        /// How long it is held here first.
        after: Duration,
    },
    Progress {
        job: JobId,
        progress: Progress,
    },
    /// Where the next attempt shall go on.
    Checkpoint {
        job: JobId,
        /// The checkpoint, as JSON.
        state: Text,
    },
    /// The handler is alive.
    Heartbeat {
        job: JobId,
    },
    /// A heartbeat of the holder, with the jobs that it has. It is answered at once.
    Beats {
        /// The jobs that it has; empty: it has none. `None`: it does not say which it has.
        jobs: Option<Vec<JobId>>,
    },
    Pong {
        /// Which ping.
        id: u64,
    },
    /// Nothing that we understand.
    Garbage {
        code: ErrorCode,
        /// The error for a person.
        message: Text,
        /// The job that it is about, if that much could be read.
        job: Option<JobId>,
        /// The answer to that job, as far as it could be read: ack, fail or release.
        answer: Option<Box<Self>>,
    },
}

impl FromWorker {
    /// The job that this answers.
    #[must_use]
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
    /// The job types that it takes; none: every type.
    pub types: Option<Vec<Text>>,
    /// Whether it answers pings while it holds jobs.
    pub ping: bool,
    /// Whether it wants to hear that the backend has what it said.
    pub ok: bool,
    /// Whether its process gets SIGURG with each cancel.
    pub cancel_signal: bool,
    /// Name and version of the client library, for the log.
    pub client: Option<Text>,
}

/// A request of a holder for jobs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Wants {
    /// Its number.
    pub pull: PullId,
    /// Most jobs.
    pub count: u32,
    /// From these queues; none: from those that are configured.
    pub queues: Option<Vec<Text>>,
    /// The reply goes out within this time, with no job if there is none, and sooner if the time is
    /// long.
    pub within: Duration,
}

/// A job as it is given to a holder that asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GivenJob {
    /// The job as the backend sent it.
    pub envelope: Envelope,
    /// Where an earlier attempt wants this one to go on.
    pub checkpoint: Option<Text>,
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

/// Errors of a frame, or of its request. `wire::worker` has the names on the wire.
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
    /// The holder does not hold that job (any more).
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
    /// Whether three of these in a row end the conversation: the two sides no longer understand
    /// each other.
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

/// A frame to a worker. How it is spelled is the business of `wire::worker`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ToWorker {
    /// The first frame to a holder.
    Hello {
        /// Our name towards the backend.
        worker: WorkerId,
        state: WorkerState,
    },
    Job {
        /// The job as the backend sent it.
        envelope: Envelope,
        /// Where an earlier attempt wants this one to go on.
        checkpoint: Option<Text>,
    },
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
        /// Time to answer.
        grace: Duration,
    },
    /// The backend accepted it, or it is ours alone to deliver.
    Ok {
        job: JobId,
        /// Of an outcome: the one that counts, which is the first of its claim.
        about: About,
        /// The backend has it.
        is_settled: bool,
    },
    /// A frame was refused, by us or by the backend.
    Error {
        code: ErrorCode,
        /// The error for a person.
        message: Text,
        job: Option<JobId>,
    },
    /// Are you there?
    Ping {
        /// Repeated in the pong.
        id: u64,
    },
}

impl ToWorker {
    /// Whether it answers something that the holder has said.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        match self {
            Self::Ok { .. } | Self::Error { .. } => true,
            Self::Hello { .. }
            | Self::Job { .. }
            | Self::Lifecycle { .. }
            | Self::Cancel { .. }
            | Self::Ping { .. } => false,
        }
    }
}
