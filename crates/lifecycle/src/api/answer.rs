//! The replies to operators on the control socket.

use std::time::Duration;

use crate::api::health::{Health, Probe};
use crate::api::operator_cancel::CancelAnswer;
use crate::api::phase::Phase;
use crate::api::status::{JobList, Status};
use crate::api::words::WorkerState;

/// The reply to an operator. `wire::operator::control` has its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OperatorAnswer {
    pub taken: Disposition,
    /// The state, as for the backend.
    pub state: WorkerState,
    pub phase: Phase,
    pub active: usize,
    /// In terminate: the time to the stop phase. In the stop phase: the time to the exit. Before
    /// terminate: the longest possible drain, but only while the orchestrator's clock runs.
    pub left: Option<Duration>,
}

/// A view for an operator. `wire::operator::status_line` has its text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ShownToOperator {
    /// The phase and the status of all parts.
    Status(Box<Status>),
    Health(Probe, Health),
    /// The jobs, the oldest first.
    Jobs(Box<JobList>),
    /// The consequence of the cancel of a job.
    Cancel(Box<CancelAnswer>),
}

/// The result of an operator's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// ojs-init has carried out the request.
    Done,
    /// The state was reached already, or the shutdown is further than that.
    Already,
    /// ojs-init refuses the request, for this reason.
    Refused(&'static str),
    /// Too many other operators are waiting, for this reason.
    Busy(&'static str),
}
