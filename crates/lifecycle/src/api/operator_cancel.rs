//! The reply to an operator who cancels a job. `wire::operator::cancel_reply` has its text.

use std::sync::Arc;
use std::time::Duration;

use crate::api::job::Subject;
use crate::api::outcome::JobEnd;
use crate::api::words::CancelReason;

/// The consequence of an operator's cancel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CancelAnswer {
    /// The handler of the job is told to stop, now or before.
    Stops(StoppingJob),
    /// The job had no handler. This is its outcome.
    Decided(Arc<Subject>, JobEnd),
    /// Nothing changes.
    Refused(CancelRefusal),
}

/// A job whose handler is told to stop.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StoppingJob {
    pub job: Arc<Subject>,
    /// The first reason for which the handler was told to stop.
    pub reason: CancelReason,
    /// Whether this request has changed anything.
    pub is_news: bool,
    /// Time until the process of the handler is ended, unless the handler answers. None: it is
    /// being ended.
    pub ends_in: Option<Duration>,
    /// Time until the stop phase, which comes first if it is shorter; set in a drain.
    pub drain_left: Option<Duration>,
    /// Other jobs that the process has. If the process is ended, they are given back.
    pub others: usize,
    /// The outcome without an answer of the handler.
    pub unanswered: JobEnd,
}

/// Why a job is not cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CancelRefusal {
    /// No job has this id, or an id that begins so.
    Unknown,
    /// The ids of several jobs begin so.
    Ambiguous,
    /// The outcome of the job is on its way to the backend.
    Decided(Arc<Subject>, JobEnd),
    /// The handler receives no messages, and its process is not ended for a job
    /// (`gateway.enforce_timeouts`).
    CannotBeTold(Arc<Subject>),
    /// No heartbeat of the worker names the job, so its process is unknown.
    Dropped(Arc<Subject>),
}
