//! A worker, and the content of its heartbeats.

use std::time::Duration;

use super::job::{Directive, JobId};
use crate::json::Object;
use crate::moment::Moment;

/// A known worker, registered or not: it has neither deregistered nor been declared dead.
#[derive(Debug)]
pub struct Worker {
    /// The fields that it sent about itself when it registered or, later, with a heartbeat.
    pub info: Object,
    /// Whether it registered, and not only fetched or beat.
    pub is_registered: bool,
    /// The state that a client requested of the worker.
    pub directive: Directive,
    /// The state that the worker reported.
    pub reported: Directive,
    /// When the worker was first seen.
    pub since: Moment,
    /// Time of its last heartbeat; before the first one, when it was first seen.
    pub last_heartbeat: Moment,
}

impl Worker {
    /// Whether it may get jobs: neither its directive nor its own report forbids it.
    pub fn is_running(&self) -> bool {
        self.directive.max(self.reported) == Directive::Run
    }
}

/// The contents of a heartbeat.
#[derive(Debug, Default)]
pub struct Heartbeat {
    pub worker: String,
    /// The state that the worker reports; `None`: it reports none.
    pub reported: Option<Directive>,
    /// The jobs that it reports as active.
    pub jobs: Vec<String>,
    /// How long they are to be reserved from now on; `None`: as long as they were.
    pub extension: Option<Duration>,
    /// The fields that the worker sent about itself.
    pub info: Object,
}

/// The answer to a heartbeat.
#[derive(Debug, PartialEq, Eq)]
pub struct HeartbeatAnswer {
    /// The state that the backend requests of the worker.
    pub directive: Directive,
    /// The jobs of the heartbeat that the worker still has.
    pub extended: Vec<JobId>,
}
