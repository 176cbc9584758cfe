//! The replies to operators on the control socket.

use std::time::Duration;

use crate::api::health::{Health, Probe};
use crate::api::phase::Phase;
use crate::api::status::Status;
use crate::api::words::WorkerState;

/// The reply to an operator. `wire::operator::control` has its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OperatorAnswer {
    pub taken: Disposition,
    /// The state as the worker and the backend know it.
    pub state: WorkerState,
    pub phase: Phase,
    pub active: usize,
    /// In terminate: the time to the stop phase, in the stop phase that to the exit. Before
    /// terminate: the longest that a drain could last, but only when the orchestrator's clock runs.
    pub left: Option<Duration>,
}

/// The status for an operator. `wire::operator::status_line` has its text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ShownToOperator {
    /// Where we are and what everybody is doing.
    Status(Box<Status>),
    Health(Probe, Health),
}

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// The request is carried out.
    Done,
    /// The state was so already, or the shutdown is further than that.
    Already,
    /// The request is refused, for this reason.
    Refused(&'static str),
    /// Too many others wait already, for this reason.
    Busy(&'static str),
}
