//! Why ojs-init ends a process of the worker, outside of a stop.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::api::job::Subject;
use crate::api::words::CancelReason;

/// Most characters of a job's name or type in the text of a cause. Only the backend limits names
/// and types.
const MOST_NAME_CHARS: usize = 100;

/// The fault of a process that ojs-init ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EndCause {
    /// A handler did not stop working on this job within the grace (`worker.timeout_grace`).
    Hung {
        job: Arc<Subject>,
        told: CancelReason,
        grace: Duration,
    },
    /// The process did not answer three pings.
    Silent,
    /// The process does not read its messages.
    Deaf,
    /// The process sent three malformed frames in a row on a connection on which it holds jobs.
    Garbled,
    /// The process closed a connection on which it holds jobs, and did not end.
    Disconnected,
    /// The worker is being recycled, and its grace period ended before its jobs did. The process
    /// itself has no fault.
    Recycled,
    /// The worker that the process belongs to ended. The process itself has no fault.
    Orphaned,
}

impl fmt::Display for EndCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hung { job, told, grace } => {
                let clipped = |name: &str| -> String { name.chars().take(MOST_NAME_CHARS).collect() };
                let (id, kind) = (clipped(&job.id.0), clipped(&job.kind));
                let grace = (grace.as_secs_f64() * 10.0).round() / 10.0;
                let what = match told {
                    CancelReason::Timeout => return write!(f, "job {id} ({kind}) ran {grace} s past its timeout"),
                    // A recycling cancels its jobs as a shutdown does.
                    CancelReason::Cancelled | CancelReason::Shutdown => "it was cancelled",
                    CancelReason::Operator => "an operator cancelled it",
                    CancelReason::Lost => "its reservation was lost",
                };
                write!(f, "job {id} ({kind}) did not stop within {grace} s after {what}")
            }
            Self::Silent => f.write_str("it did not answer three pings"),
            Self::Deaf => f.write_str("it does not read what it is sent"),
            Self::Garbled => f.write_str("it sent three malformed frames in a row"),
            Self::Disconnected => f.write_str("its connection was closed while it holds jobs"),
            Self::Recycled => f.write_str("its worker is being recycled"),
            Self::Orphaned => f.write_str("the worker that it belongs to ended"),
        }
    }
}
