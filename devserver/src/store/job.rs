//! A job and its history.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::retry::RetryPolicy;
use crate::json::Object;
use crate::moment::Moment;

/// The id of a job.
pub type JobId = Arc<str>;

/// The id of a worker.
pub type WorkerId = Arc<str>;

/// Most errors that are kept of a job; the oldest are dropped first.
const MAX_ERRORS: usize = 25;

/// Most deliveries that are kept of a job; the oldest are dropped first.
const MAX_DELIVERIES: usize = 100;

/// The state of a job (one of the specification's eight).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobState {
    /// The job waits for its time.
    Scheduled,
    /// The job can be fetched.
    Available,
    /// The job waits for its activation.
    Pending,
    /// A worker has it.
    Active,
    /// The job was acknowledged.
    Completed,
    /// The job failed and waits for its next attempt.
    Retryable,
    /// A client cancelled it.
    Cancelled,
    /// The job failed for good, or expired.
    Discarded,
}

impl JobState {
    /// All states, in the order in which people list them.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Scheduled,
        Self::Available,
        Self::Active,
        Self::Retryable,
        Self::Completed,
        Self::Discarded,
        Self::Cancelled,
    ];

    /// The specification's word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Available => "available",
            Self::Pending => "pending",
            Self::Active => "active",
            Self::Completed => "completed",
            Self::Retryable => "retryable",
            Self::Cancelled => "cancelled",
            Self::Discarded => "discarded",
        }
    }

    /// The names of all states, for people.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// The state of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Whether a job in this state stays there, unless a client acts.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Cancelled | Self::Discarded => true,
            Self::Scheduled | Self::Available | Self::Pending | Self::Active | Self::Retryable => false,
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The state that the backend requests of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Directive {
    /// The worker keeps running.
    #[default]
    Run,
    /// The worker fetches nothing more.
    Quiet,
    /// The worker ends.
    Terminate,
}

impl Directive {
    /// The worker protocol's word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "running",
            Self::Quiet => "quiet",
            Self::Terminate => "terminate",
        }
    }
}

/// How a delivery ended; more important ends for the search for a lost job are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The worker acknowledged it (ACK).
    Acked,
    /// The worker gave it back.
    Requeued,
    /// A client cancelled the job.
    Cancelled,
    /// The worker reported an error (FAIL).
    Failed,
    /// The reservation ran out.
    VisibilityTimeout,
    /// The worker was declared dead.
    WorkerDeath,
}

/// One delivery of a job to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The worker that got the job; `None`: a worker without a name.
    pub worker: Option<WorkerId>,
    /// The number of the attempt.
    pub attempt: u32,
    /// When the job was delivered, since the start of the server.
    pub at: Moment,
    /// When and how the delivery ended; `None`: it has not ended.
    pub end: Option<(Moment, End)>,
}

/// The claim that a worker has on a job. Its deadline is the job's `due`.
#[derive(Debug, Clone)]
pub struct Reservation {
    pub worker: Option<WorkerId>,
    /// How long it lasts from each sign of life.
    pub length: Duration,
}

/// A checkpoint that a worker saved.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    pub state: Box<RawValue>,
    pub sequence: u64,
    pub at: Moment,
}

/// The progress that a worker reported.
#[derive(Debug, Clone)]
pub struct Progress {
    pub fraction: Option<f64>,
    pub data: Option<Box<RawValue>>,
    pub at: Moment,
}

#[derive(Debug)]
pub struct Job {
    pub id: JobId,
    pub kind: String,
    pub queue: Arc<str>,
    pub priority: i64,
    /// The place in the order of arrival.
    pub number: u64,
    pub policy: RetryPolicy,
    pub visibility: Option<Duration>,
    pub expires_at: Option<Moment>,
    /// Longest time of one execution.
    pub timeout: Option<Duration>,
    /// When the present execution times out, if the server is to end it.
    pub times_out_at: Option<Moment>,
    pub test_directive: Option<Directive>,
    pub producer_fields: Object,

    pub state: JobState,
    /// The number in the envelope: 0 before the first delivery, then the number of the execution.
    pub attempt: u32,
    /// Executions that ended and counted.
    pub attempts_used: u32,
    /// When the next timer fires: the job becomes available, or its reservation or its life ends.
    pub due_at: Option<Moment>,
    pub reservation: Option<Reservation>,
    pub is_dead_letter: bool,

    pub created_at: Moment,
    pub enqueued_at: Option<Moment>,
    pub started_at: Option<Moment>,
    pub ended_at: Option<Moment>,
    pub retry_delay: Option<Duration>,

    pub error: Option<Box<RawValue>>,
    pub errors: VecDeque<Box<RawValue>>,
    pub result: Option<Box<RawValue>>,
    pub checkpoint: Option<Checkpoint>,
    pub last_sequence: Option<u64>,
    pub progress: Option<Progress>,

    pub deliveries: VecDeque<Delivery>,
    pub times_delivered: u32,
    pub times_acked: u32,
}

impl Job {
    /// The worker that has it.
    pub fn worker(&self) -> Option<&WorkerId> {
        self.reservation.as_ref()?.worker.as_ref()
    }

    /// Whether this worker may report on the job. A caller or a reservation without a name matches,
    /// because it cannot be distinguished.
    pub fn is_held_by(&self, caller: Option<&str>) -> bool {
        match (caller, self.worker()) {
            (Some(caller), Some(holder)) => caller == &**holder,
            (None, _) | (_, None) => true,
        }
    }

    /// Notes that it was delivered.
    pub fn deliver(&mut self, now: Moment) {
        if self.deliveries.len() == MAX_DELIVERIES {
            self.deliveries.pop_front();
        }
        self.deliveries.push_back(Delivery {
            worker: self.worker().cloned(),
            attempt: self.attempt,
            at: now,
            end: None,
        });
        self.times_delivered += 1;
    }

    /// Notes how its delivery ended.
    pub fn end_delivery(&mut self, now: Moment, end: End) {
        if let Some(delivery) = self.deliveries.back_mut() {
            delivery.end.get_or_insert((now, end));
        }
    }

    /// Keeps an error of the job.
    pub fn record(&mut self, error: Box<RawValue>) {
        if self.errors.len() == MAX_ERRORS {
            self.errors.pop_front();
        }
        self.errors.push_back(error.clone());
        self.error = Some(error);
    }
}
