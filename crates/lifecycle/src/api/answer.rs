//! What operators are answered, on the control socket.

use std::time::Duration;

use crate::api::health::{Health, Probe};
use crate::api::phase::Phase;
use crate::api::status::Status;
use crate::api::words::WorkerState;

/// What an operator is answered. How it is spelled is the business of `wire::operator::control`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OperatorAnswer {
    pub taken: Disposition,
    /// What the worker and the backend are told about where we are.
    pub state: WorkerState,
    pub phase: Phase,
    pub active: usize,
    /// In terminate: the time to the stop phase, in the stop phase that to the exit. Before
    /// terminate: the longest that a drain could last, but only when the orchestrator's clock runs.
    pub left: Option<Duration>,
}

/// What an operator is shown. How it is spelled is the business of `wire::operator::status_line`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ShownToOperator {
    /// Where we are and what everybody is doing.
    Status(Box<Status>),
    Health(Probe, Health),
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// It is done.
    Done,
    /// It was so already, or we are further than that.
    Already,
    /// It cannot be, for this reason.
    Refused(&'static str),
    /// Too many others wait already, for this reason.
    Busy(&'static str),
}
