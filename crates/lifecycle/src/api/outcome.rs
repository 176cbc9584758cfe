//! How a job ended: its outcome for the backend, and how it is counted.

use std::time::Duration;

use crate::api::ids::Text;
use crate::api::job::JobError;
use crate::api::words::About;

/// The first hold of a job that is given back again and again. Each further one of that job is
/// twice as long.
pub const FIRST_HOLD: Duration = Duration::from_secs(1);

/// The longest hold, also if a worker asks for a longer one. Other workers can get the job after
/// this time at the latest. No hold is longer than a third of the job's visibility timeout, so one
/// lost heartbeat does not end the reservation.
pub const LONGEST_HOLD: Duration = Duration::from_secs(30);

/// The outcome of a job, for the backend.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The job is done: ACK.
    Acked {
        /// The result, as JSON.
        result: Option<Text>,
    },
    /// The job failed: FAIL.
    Failed { error: JobError },
    Requeued {
        /// Why the job is given back.
        reason: Text,
        /// How long ojs-init holds the job first, if the worker asks for that.
        after: Duration,
    },
}

impl Outcome {
    /// Whether the job is done. Such an outcome may be sent twice without harm.
    pub fn is_ack(&self) -> bool {
        self.end() == JobEnd::Acked
    }

    /// The category of the outcome in the counts.
    pub fn end(&self) -> JobEnd {
        match self {
            Self::Acked { .. } => JobEnd::Acked,
            Self::Failed { .. } => JobEnd::Failed,
            Self::Requeued { .. } => JobEnd::Requeued,
        }
    }

    /// The kind of answer that ojs-init confirms to the worker.
    pub fn about(&self) -> About {
        match self {
            Self::Acked { .. } => About::Ack,
            Self::Failed { .. } => About::Fail,
            Self::Requeued { .. } => About::Release,
        }
    }
}

/// The end of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobEnd {
    Acked,
    Failed,
    Requeued,
    /// The backend accepted no report, as far as ojs-init knows. The job waits for its visibility
    /// timeout, unless a report without an answer was carried out.
    Left,
    /// The reservation was lost: the backend gave the job to another worker, or accepts no outcome
    /// from this one.
    Lost,
    /// The job was cancelled at the backend.
    Cancelled,
}

impl JobEnd {
    /// All ends.
    pub const ALL: [Self; 6] = [
        Self::Acked,
        Self::Failed,
        Self::Requeued,
        Self::Left,
        Self::Lost,
        Self::Cancelled,
    ];
}
