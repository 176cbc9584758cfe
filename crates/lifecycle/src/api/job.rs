//! A job, as the backend delivers and shows it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::api::envelope::Envelope;
use crate::api::ids::{JobId, Text, WorkerId};

/// The error of a failed job, in the words of either vocabulary (requirements C-22).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobError {
    /// Short and stable: `handler_error`.
    pub code: Option<Text>,
    /// The error's class: `TimeoutError`.
    pub kind: Option<Text>,
    /// For a person.
    pub message: Text,
    pub retryable: bool,
    /// A JSON object.
    pub details: Option<Text>,
    /// A JSON array of strings.
    pub backtrace: Option<Text>,
}

impl JobError {
    /// A failure of which only the message is known. The job may be retried.
    pub fn new(message: impl Into<Text>) -> Self {
        Self {
            code: None,
            kind: None,
            message: message.into(),
            retryable: true,
            details: None,
            backtrace: None,
        }
    }
}

/// A job from the answer to a FETCH.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Delivery {
    pub subject: Arc<Subject>,
    /// The whole envelope on one line, otherwise byte for byte as the backend sent it.
    pub envelope: Envelope,
    /// Where an earlier attempt wants this one to continue, as JSON.
    pub checkpoint: Option<Text>,
    /// The handler's time limit.
    pub timeout: Option<Duration>,
    /// The reservation. It differs from an earlier one of this job.
    pub reservation: Reservation,
    /// The backend reports that a process ended while it held the job in its last attempt.
    pub has_crashed: bool,
    /// How long the job asks to be reserved (worker protocol 5.3).
    pub visibility: Option<Duration>,
    /// Time from the job's creation to this reservation, by the backend's clock. None for a job
    /// that was scheduled for later.
    pub waited: Option<Duration>,
}

/// The name, type and queue of a job, for the log, metrics and operators. Without the job's
/// arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject {
    pub id: JobId,
    /// The type of the job.
    pub kind: Text,
    /// The job's queue; empty if the backend does not report it.
    pub queue: Text,
    /// The attempt's number as the backend counts.
    pub attempt: Option<u64>,
    pub max_attempts: Option<u64>,
    /// The W3C trace context that the job was enqueued in (`meta.traceparent`). None if there is
    /// none that can be read.
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
    /// The flag *sampled*: whether its spans are recorded.
    pub is_sampled: bool,
}

/// A reservation of a job, with the fields that differ from an earlier one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Reservation {
    /// The attempt's number as the backend counts: passed through, never computed with
    /// (requirements C-27).
    pub attempt: Option<u64>,
    /// When the reservation began, as the backend spelled it.
    pub started_at: Option<Text>,
}

impl Reservation {
    /// Whether these are certainly two reservations. A field that is missing in one of them proves
    /// nothing.
    pub fn differs_from(&self, other: &Self) -> bool {
        let attempts = self.attempt.zip(other.attempt);
        let starts = self.started_at.as_ref().zip(other.started_at.as_ref());
        attempts.is_some_and(|(one, two)| one != two) || starts.is_some_and(|(one, two)| one != two)
    }
}

/// A job as the backend shows it on request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobView {
    pub state: JobState,
    /// The worker that holds the job, if the backend shows that.
    pub worker: Option<WorkerId>,
    pub reservation: Reservation,
}

/// The state of a job on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobState {
    /// A worker holds the job.
    Active,
    Cancelled,
    Completed,
    /// The job is in another state.
    Elsewhere,
    /// The backend does not know the job, or its store is down. The answer does not distinguish the
    /// two.
    Missing,
    /// ojs-init may not read the job (requirements, wire 10 on roles). The answer proves nothing.
    Hidden,
}
